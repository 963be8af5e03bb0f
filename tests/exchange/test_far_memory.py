"""What a member far away costs in memory, with a large model and many workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
