"""torch.distributed through psring gives what it gives through Gloo."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.cluster.cells.on import CellFailed
from kit.errors import PeerLost
from tests.group import torch_programs

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.engines,
    pytest.mark.lasting("descriptor", "thread"),
]

# As torch's tutorials have it, but for the name of the backend.
SCRIPT = """
import kit.torch
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("psring")
model = DistributedDataParallel(torch.nn.Linear(1000, 100))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
STEP = """
optimizer.zero_grad()
model(torch.ones(4, 1000)).pow(2).mean().backward()
optimizer.step()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    with kit.Cluster(worker=3) as running:
        yield running


@pytest.fixture(autouse=True)
def ended(cluster: kit.Cluster) -> Iterator[None]:
    yield
    code = "import torch.distributed as dist\n"
    cluster.on(
        "worker", f"{code}if dist.is_initialized(): dist.destroy_process_group()"
    )


def said(cluster: kit.Cluster, code: str) -> list[str]:
    return [output.stdout.strip() for output in cluster.on("worker", code)]


def failed(cluster: kit.Cluster, code: str) -> str:
    with pytest.raises(CellFailed) as caught:
        cluster.on("worker", code, timeout_s=60)
    return "\n".join(failure.line for failure in caught.value.failures)


def both(
    cluster: kit.Cluster, program: torch_programs.Program, folder: Path
) -> list[tuple[Any, Any]]:
    """Return what each task got with psring, and with Gloo."""
    store = str(folder / "gloo")
    result: list[Any] = cluster.call("worker", torch_programs.with_both, program, store)
    return result


@pytest.mark.parametrize("name", ["collectives", "between_all", "messages"])
def test_each_call_gives_what_gloo_gives(
    cluster: kit.Cluster, tmp_path: Path, name: str
) -> None:
    for ours, theirs in both(cluster, getattr(torch_programs, name), tmp_path):
        for call, result in theirs.items():
            assert ours[call] == result, call


@pytest.mark.parametrize("name", ["ddp", "sharded"])
def test_losses_are_those_of_gloo(
    cluster: kit.Cluster, tmp_path: Path, name: str
) -> None:
    for ours, theirs in both(cluster, getattr(torch_programs, name), tmp_path):
        assert len(ours) >= 6
        assert ours == pytest.approx(theirs, rel=1e-4)


def test_compressors_of_ours_are_hooks_of_ddp(cluster: kit.Cluster) -> None:
    plain, whole, _ = cluster.call("worker", torch_programs.compressed, None)[0]
    shares = {"float16": 0.51, "int8": 0.26, kit.TopK(0.05): 0.11}
    for compress, share in shares.items():
        result = cluster.call("worker", torch_programs.compressed, compress)[0]
        losses, n_bytes, as_formula = result

        assert losses[-1] == pytest.approx(plain[-1], rel=0.5), compress
        assert 0.5 * share * whole < n_bytes < share * whole + 11_000, compress
        assert as_formula


def test_script_of_a_tutorial_trains_in_cells_and_its_bytes_are_known(
    cluster: kit.Cluster,
) -> None:
    cluster.on("worker", SCRIPT)

    cluster.on("worker", "before = kit.torch.traffic().measured; dist.barrier()")
    cluster.on("worker", STEP)
    moved = said(cluster, "print(kit.torch.traffic().measured - before)")

    gradients = 4 * 1001 * 100  # each of three tasks passes on two thirds, twice
    assert {*moved} == {str(gradients * 4)}


def test_slowed_links_slow_ddp(cluster: kit.Cluster) -> None:
    slowed = "kit.torch.init(link='8mbit') #"  # a byte in a microsecond
    cluster.on("worker", SCRIPT.replace("dist.init_process_group", slowed))
    cluster.on("worker", STEP)
    begun = time.monotonic()
    cluster.on("worker", STEP)

    assert time.monotonic() - begun > 4 * 1001 * 100 * 4 / 3 * 1e-6


def test_what_cannot_be_is_refused_in_a_sentence(cluster: kit.Cluster) -> None:
    cluster.on("worker", "import kit.torch, torch, torch.distributed as dist")
    cluster.on("worker", "kit.torch.init(); x = torch.ones(3)")

    def refused(code: str, *words: str) -> None:
        text = failed(cluster, code)
        assert all(word in text for word in words), text

    refused("dist.all_reduce(x, dist.ReduceOp.BOR)", "SUM, AVG, PRODUCT, MIN and MAX")
    refused("dist.all_reduce(x.to_sparse())", "dense", "to_dense()")
    refused("dist.all_reduce(x.bool())", "bool")
    refused("kit.torch.traffic(3)", "kit.torch.init()")
    refused("kit.torch.Compress('int9')", "int8")
    refused(
        "if dist.get_rank() == 1: dist.broadcast(x, 1)\nelse: dist.all_reduce(x)",
        "worker:0, worker:2 are in all_reduce(float32[3]) at line 2 of the cell",
        "worker:1 is in broadcast(list of float32[3], root=1) at line 1 of the cell",
    )
    refused("dist.distributed_c10d._get_default_store().get('key')", "no store of keys")
    sums = said(cluster, "dist.all_reduce(x := torch.ones(2)); print(x.tolist())")
    assert sums == ["[3.0, 3.0]"] * 3


@pytest.mark.lasting("descriptor", "thread", "process")
def test_lost_task_is_named_where_ddp_waits_for_it(cluster: kit.Cluster) -> None:
    cluster.on("worker", SCRIPT)
    begun = time.monotonic()

    with pytest.raises(PeerLost) as lost:
        cluster.on(
            "worker", f"if dist.get_rank() == 1:\n    import os; os._exit(9)\n{STEP}"
        )

    assert time.monotonic() - begun < kit.Settings().dead_after_s + 2
    assert "worker:1" in str(lost.value)
    cluster.restart("worker:1")
    cluster.on(
        "worker", SCRIPT.replace("dist.init_process_group", "kit.torch.init() #")
    )
    cluster.on("worker", STEP)
