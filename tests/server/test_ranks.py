"""Tasks that are ranks of MPI: programs, clusters, and what is said if they are not.

What needs ranks is in `rank_programs.py`, which runs under the mpiexec of each MPI that
is here: MPICH of this environment, and Open MPI of the system.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

import kit
from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    PeerLost,
    PermissionDeniedError,
)
from kit.server.directory import short_folder
from kit.testing.task_process import until
from kit.wire.mpi import MpiStream, library, over_mpi
from tests.cases import for_each
from tests.cluster.engine_training import begin, replayed
from tests.hosts import uses
from tests.source import ROOT

pytest.importorskip("mpi4py")
SHARED = Path("/dev/shm")


class Mpi(NamedTuple):
    """An MPI: its mpiexec, and the library that mpi4py has to load."""

    mpiexec: str
    variables: dict[str, str]


def mpi(name: str) -> Mpi:
    if name == "MPICH":
        command = Path(sys.executable).with_name("mpiexec.hydra")
        if not command.exists():
            pytest.skip("no MPI: mpiexec.hydra not installed (pip install mpich)")
        library = command.parents[1] / "lib/libmpi.so.12"
        return Mpi(str(command), {"MPI4PY_LIBMPI": str(library)})
    system = shutil.which("mpiexec.openmpi")
    if system is None:
        pytest.skip("no Open MPI: mpiexec.openmpi not there (apt install openmpi-bin)")
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    more = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "MPI4PY_LIBMPI": "libmpi.so.40"}
    return Mpi(system, as_root | more)


def replies(n: int, program: str, folder: Path, name: str) -> list[Any]:
    """Return what each of `n` ranks of a program prints; 0 are one without mpiexec."""
    under, folders = mpi(name), ("KIT_RUNTIME_DIR", "XDG_STATE_HOME")
    command = [under.mpiexec, "-n", str(n)] if n else []
    done = subprocess.run(
        [*command, sys.executable, "-m", "tests.server.rank_programs", program],
        cwd=ROOT,
        env={**os.environ, **dict.fromkeys(folders, str(folder)), **under.variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="kit-", dir=short_folder()) as folder:
        yield Path(folder)


both = pytest.mark.parametrize("name", ["MPICH", "Open MPI"])


@pytest.mark.slow
@both
def test_streams_over_mpi_keep_the_contract_of_ports(name: str, short: Path) -> None:
    assert replies(1, "contract", short, name) == [name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [("MPICH", 4), ("Open MPI", 2)])
def test_ranks_train_to_the_bits_of_one_process_and_receive_the_bytes_of_formulas(
    name: str, n: int, short: Path
) -> None:
    assert replies(n, "bits_and_bytes", short, name) == [[n, []]] * n


@pytest.mark.slow
def test_processes_that_are_not_ranks_of_one_mpi_are_told_why(short: Path) -> None:
    (said,) = replies(0, "refusals", short, "MPICH")

    for words, expected in zip(
        said,
        (
            r"mpi4py uses MPICH .* and mpiexec is Open MPI's.*MPI4PY_LIBMPI=",
            r"needs tasks that are ranks of MPI.*KIT_TRANSPORT=mpi mpiexec -n 4",
            r"mpi4py uses MPICH .* is another's, with 2 ranks.*command=\[",
            r"MPI_THREAD_MULTIPLE\), and MPICH .* allows level 2 of 3",
            r"InvalidArgumentError: ps=1 leaves no worker of 1 ranks",
        ),
        strict=True,
    ):
        assert re.search(expected, words), words


@for_each(
    ["module", "variable"],
    [({"mpi4py": None}, {}), ({}, {"MPI4PY_LIBMPI": "/nowhere/libmpi.so"})],
)
def test_without_mpi4py_or_its_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: Any, variable: dict[str, str]
) -> None:
    for name, nothing in module.items():
        monkeypatch.setitem(sys.modules, name, nothing)
    for name, value in variable.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(FailedPreconditionError, match=r"pip install 'psring\[mpi\]'"):
        library()


def test_an_encrypted_link_is_not_replaced_by_one_that_is_not() -> None:
    link: Any = SimpleNamespace(kind="tls", peer="nodeb:7000")

    with pytest.raises(PermissionDeniedError, match=r"nodeb:7000 .*insecure=True"):
        over_mpi(link, 1.0)


@for_each("launcher", [None, kit.launchers.SSH({"nodea": 3})])
def test_transport_mpi_needs_a_launcher_that_starts_ranks(launcher: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"launcher=kit.launchers.MPI\(\)"):
        kit.Cluster(ps=0, worker=2, transport="mpi", launcher=launcher)


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    before, mpich = {*SHARED.glob("mpich_shm_*")}, mpi("MPICH")
    launcher = kit.launchers.MPI(command=[mpich.mpiexec], address="127.0.0.1")
    made = kit.Cluster(ps=0, worker=2, launcher=launcher, transport="mpi")
    with patch.dict(os.environ, mpich.variables), made as running:
        folders = uses.folders_of(running)
        yield running
    # Though one rank was killed, and never says goodbye to the other.
    assert uses.left_of(folders) == []
    # Of a rank that was killed MPICH leaves its memory.
    for left in {*SHARED.glob("mpich_shm_*")} - before:
        left.unlink()


def note_what_comes_by_mpi() -> None:
    """Have the task count the bytes that it receives over MPI, heads included."""
    read_into, received = MpiStream.read_into, list[int]()

    def counted(stream: MpiStream, view: memoryview) -> int | None:
        size = read_into(stream, view)
        received.append(size or 0)
        return size

    counted.__dict__["received"] = received
    patch.object(MpiStream, "read_into", counted).start()


def n_bytes_by_mpi() -> int:
    return sum(MpiStream.read_into.__dict__["received"])


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.lasting("process", "descriptor")
def test_cluster_of_ranks_trains_over_mpi_to_the_bits_of_one_process(
    cluster: kit.Cluster,
) -> None:
    cluster.call("all", note_what_comes_by_mpi)

    training = begin(cluster, steps=40, topology="ring")
    training.wait(60)

    for name, value in replayed(40).items():
        np.testing.assert_array_equal(training.params[name], value)
    for entry, size in zip(
        training.traffic, cluster.call("all", n_bytes_by_mpi), strict=True
    ):
        assert entry.agrees
        assert size > entry.received > 0
    for outcome in cluster.on("all", "import kit; kit.group().all_reduce(2.0)"):
        assert outcome.result == "4.0"


@pytest.mark.slow
@pytest.mark.engines
def test_rank_gets_no_other_process_and_no_elastic_training(
    cluster: kit.Cluster,
) -> None:
    with pytest.raises(FailedPreconditionError, match="it is a rank of MPI"):
        cluster.restart("worker:1")
    with pytest.raises(InvalidArgumentError, match="elastic=True needs tasks that may"):
        begin(cluster, elastic=True)


@pytest.mark.slow
@pytest.mark.engines
def test_rank_that_is_killed_ends_a_training_with_its_name(
    cluster: kit.Cluster,
) -> None:
    training = begin(cluster, steps=10**6, topology="ring")
    until(lambda: training.step > 3, 30)

    os.kill(cluster.call("worker:1", os.getpid), signal.SIGKILL)

    with pytest.raises(PeerLost, match="worker/task:1") as caught:
        training.wait(10)
    assert "elastic" not in str(caught.value)
