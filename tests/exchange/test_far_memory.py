"""What a member far away costs in memory, with a large model and many workers."""

from __future__ import annotations

import mmap
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports.port import Expected
from kit.testing.contracts.port import MakePorts
from kit.testing.group import local_group
from tests.exchange.pumped import pumped_group

# The limit is on private memory, which a system that promises no more than it has
# (overcommit mode 2) counts as taken before it is touched.
PROGRAM = """
import resource

import psutil

from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports.port import Expected
from kit.testing.group import local_group

GIB = 1 << 30
resource.setrlimit(resource.RLIMIT_DATA, (GIB, GIB))
layout = lay_out([Spec("w", (GIB // 4,), "float32")], 64)
with local_group(layout, 2, in_place=False) as (near, far):
    mapped = psutil.Process().memory_info().vms
    chunk = layout.buckets[-1].chunks[-1]
    due = [Expected(GRAD, chunk, separate=True)]
    port = near.endpoint.ports[1]
    near.endpoint.expect({1: (due, due)}, 0)
    far.memory.typed(GRAD, chunk)[:] = 3
    far.endpoint.ports[0].post(GRAD, chunk)
    near.endpoint.receive(port, due[0])

    assert set(port.window(GRAD, chunk, separate=True).tolist()) == {3.0}
    assert not near.memory.typed(GRAD, chunk).any()
    print((psutil.Process().memory_info().vms - mapped) / GIB)
"""


@pytest.mark.slow
def test_a_far_member_of_64_takes_no_private_memory_and_maps_what_it_sends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.1  # GiB, of 72 that a member has


MAPPED = Path("/proc/self/smaps")
MIB = 1 << 20


def promised() -> int:
    """Return the bytes of this process that overcommit mode 2 counts as taken.

    That is, of each mapping with the flag "ac", its size, touched or not. Shared memory
    is counted by its pages in use.
    """
    areas = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", MAPPED.read_text(), flags=re.M)
    kib = [
        int(re.findall(r"^Size: +(\d+) kB", area, re.M)[0])
        for area in areas
        if re.search(r"^VmFlags:.* ac\b", area, re.M)
    ]
    return sum(kib) << 10


@pytest.mark.skipif(not MAPPED.exists(), reason="the system does not show mappings")
@pytest.mark.parametrize(
    "make",
    [local_group, partial(local_group, in_place=False), pumped_group],
    ids=["in memory", "over a stream", "with threads"],
)
def test_a_system_that_promises_no_more_than_it_has_is_asked_for_little(
    make: MakePorts,
) -> None:
    layout = lay_out([Spec("w", (1 << 28,), "float32")], 64)  # 72 GiB of each member
    due = Expected(GRAD, layout.buckets[-1].chunks[-1], separate=True)
    before = promised()
    with make(layout, 2) as (near, far):
        near.endpoint.expect({1: ([due], [])}, 0)
        far.memory.typed(*due[:2])[:] = 3
        far.endpoint.ports[0].post(*due[:2])
        near.endpoint.receive(near.endpoint.ports[1], due)
        window = near.endpoint.ports[1].window(*due[:2], separate=True)

        assert set(window.tolist()) == {3.0}
        # No region, which has 1 GiB; threads have stacks of 8 MiB.
        assert promised() - before < 256 * MIB


def test_private_memory_counts_before_it_is_touched() -> None:
    before = promised()
    with mmap.mmap(-1, 100 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        assert promised() - before >= 100 * MIB
