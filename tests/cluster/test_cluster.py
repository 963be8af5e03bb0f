"""A cluster that runs: one for all tests of this file."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.cluster import Bootstrap, Cluster, ClusterState, current
from kit.cluster.cells.on import CellFailed
from kit.cluster.cells.output_limit import MOST
from kit.cluster.processes.forks import connection_file
from kit.cluster.processes.log_bound import MOST_BYTES
from kit.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    PlacementError,
    UnknownError,
)
from kit.task import Task
from kit.testing.task_process import until
from tests.cases import for_each
from tests.cluster.insides import supervisor_of

pytestmark = [
    pytest.mark.engines,
    pytest.mark.slow,
    pytest.mark.lasting("descriptor", "thread"),
]


@pytest.fixture(scope="module")
def cluster(
    bootstrap: Bootstrap, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("IPYTHONDIR", raising=False)
        with Cluster(ps=1, worker=2, threads=1, bootstrap=bootstrap) as started:
            yield started
    # Nothing was written where a user would find it later.
    assert list(home.rglob("*")) == []


def test_each_task_is_a_process_of_its_own_and_answers_as_it_is_selected(
    cluster: Cluster,
) -> None:
    pids = cluster.call("all", os.getpid)

    assert len({*pids, os.getpid()}) == 4
    assert pids == [status.pid for status in cluster.status]
    assert cluster.call("worker:1", os.getpid) == pids[2]
    assert cluster.call(Task("worker", 1), os.getpid) == pids[2]
    assert cluster.call(["/job:worker/task:1"], os.getpid) == [pids[2]]
    assert cluster.view("worker").apply_sync(os.getpid) == pids[1:]
    assert cluster.call([], os.getpid) == []
    assert cluster.on([], "1 / 0") == []
    with pytest.raises(PlacementError, match="ps:0, worker:0, worker:1"):
        cluster.view("worker:7")


def test_each_server_has_its_name_the_spec_and_the_credentials_of_all(
    cluster: Cluster,
) -> None:
    def set_up() -> tuple[object, object, object, str]:
        import builtins
        import hashlib

        seen = vars(builtins)["kit_test"]
        config = seen["config"]
        secret = repr(sorted(config["credentials"].items())).encode()
        digest = hashlib.sha256(secret).hexdigest()
        return config["job"], config["index"], seen["spec"], digest

    replies = cluster.call("all", set_up)

    names = [(job, index) for job, index, _, _ in replies]
    assert names == [("ps", 0), ("worker", 0), ("worker", 1)]
    assert all(spec == cluster.spec.as_dict() for _, _, spec, _ in replies)
    assert len({digest for *_, digest in replies}) == 1


def test_what_an_engine_prints_arrives(cluster: Cluster) -> None:
    result = cluster.view("worker:0").execute("print(6 * 7)")
    result.get(timeout=10)
    result.wait_for_output(10)

    assert result.stdout == ["42\n"]


FLOODS = {
    "print": "for _ in range(200): print('x' * 99_999)",
    "one long line": "import sys; sys.stdout.write('x' * 20_000_000)",
}


@for_each("how", FLOODS)
def test_of_what_a_task_prints_without_end_both_ends_arrive(
    how: str, cluster: Cluster
) -> None:
    code = f"print('first')\n{FLOODS[how]}\nprint('\\nlast')"

    (outcome,) = cluster.on("worker:0", code)

    assert outcome.stdout.startswith("first\nxxx")
    assert "characters are left out here" in outcome.stdout
    assert outcome.stdout.rstrip().endswith("last")
    assert len(outcome.stdout) < 2 * MOST
    assert cluster.on("worker:0", "print('next')")[0].stdout == "next\n"


def test_of_a_very_long_message_of_an_error_both_ends_arrive(cluster: Cluster) -> None:
    code = "raise ValueError('begin' + 'x' * 1_000_000 + 'end')"
    with pytest.raises(CellFailed) as failed:
        cluster.on("worker:0", code)
    assert re.search("begin.*characters are left out here.*end", str(failed.value))
    assert len(str(failed.value)) < 50_000

    def fail() -> None:
        raise ValueError("begin" + "x" * 1_000_000 + "end")

    with pytest.raises(UnknownError) as raised:
        cluster.call("worker:0", fail)
    assert re.search("begin.*characters are left out here.*end", str(raised.value))
    assert len(raised.value.remote_traceback or "") < 50_000


def test_the_log_of_a_task_that_writes_without_end_is_cut(cluster: Cluster) -> None:
    def flood() -> None:
        for _ in range(2 * MOST_BYTES // 100_000):
            os.write(2, b"x" * 99_999 + b"\n")

    cluster.call("ps:0", flood)

    path = cluster.log_path("ps:0")
    until(lambda: "bytes of this log are left out" in path.read_text(), 30.0)
    assert path.stat().st_size < MOST_BYTES


def test_engines_share_the_cores_and_the_folder_and_have_random_numbers_of_their_own(
    cluster: Cluster,
) -> None:
    def look() -> tuple[tuple[str, str, str], set[float]]:
        import os
        import random
        from pathlib import Path

        import numpy

        names = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"
        drawn = {random.random(), float(numpy.random.random())}
        return (os.environ[names[0]], os.environ[names[1]], str(Path.cwd())), drawn

    replies = cluster.call("all", look)

    assert [shared for shared, _ in replies] == [("1", "1", str(Path.cwd()))] * 3
    assert len({number for _, drawn in replies for number in drawn}) == 6


def test_an_error_on_a_task_names_the_task(cluster: Cluster) -> None:
    with pytest.raises(UnknownError, match=r"worker/task:1: ZeroDivision") as caught:
        cluster.call("worker:1", lambda: 1 / 0)

    assert caught.value.task == "/job:worker/task:1"
    assert "Traceback" in (caught.value.remote_traceback or "")


def test_a_slow_call_ends_at_its_deadline(cluster: Cluster) -> None:
    with pytest.raises(DeadlineExceededError, match=r"worker:1 did not return from"):
        cluster.call("worker:1", time.sleep, 0.5, deadline_s=0.1)


def test_a_call_that_is_given_up_ends_on_its_task(
    cluster: Cluster, tmp_path: Path
) -> None:
    def stays() -> None:
        (tmp_path / str(os.getpid())).touch()
        time.sleep(60)

    async def cell() -> None:
        call = asyncio.ensure_future(cluster.call_async("worker", stays))
        while len([*tmp_path.iterdir()]) < 2:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cell())

    assert len(cluster.call("worker", os.getpid, deadline_s=20)) == 2


def test_blocking_and_awaitable_calls_work_in_a_running_loop(cluster: Cluster) -> None:
    async def cell() -> tuple[int, int]:
        blocking = cluster.call("ps:0", os.getpid)
        return blocking, await cluster.call_async("ps:0", os.getpid)

    first, other = asyncio.run(cell())

    assert first == other


def test_it_is_current_and_ready_and_shows_so(cluster: Cluster) -> None:
    assert current() is cluster
    assert cluster.state is ClusterState.READY
    assert repr(cluster) == "<Cluster ready: ps=1 worker=2, 1 BLAS thread each>"
    assert cluster._repr_html_().count("<tr>") == 5  # head, three tasks, memory
    with pytest.raises(FailedPreconditionError, match="is ready and starts only"):
        cluster.start()


def test_its_connections_are_encrypted_and_its_files_private(cluster: Cluster) -> None:
    client = cluster.view("all").client
    security = connection_file(supervisor_of(cluster).folder, "client").parent

    files = sorted(security.glob("*.json"))

    assert client.curve_serverkey
    assert files
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
        assert json.loads(file.read_text())["curve_serverkey"]


def test_who_knows_the_public_key_alone_gets_no_answer(cluster: Cluster) -> None:
    client = cluster.view("all").client
    security = connection_file(supervisor_of(cluster).folder, "client").parent
    info = json.loads(next(security.glob("*-client.json")).read_text())
    guess = info | {"key": "0" * len(info["key"])}

    with pytest.raises(TimeoutError):
        type(client)(guess, timeout=0.3, ipython_dir=str(security.parents[1]))

    assert len(info["key"]) >= 32
    assert len(cluster.call("all", os.getpid)) == 3


def test_a_cell_may_await_and_so_may_the_next_one(cluster: Cluster) -> None:
    begun = cluster.on(
        "worker",
        "import asyncio\n"
        "async def squared(x):\n"
        "    await asyncio.sleep(0.01)\n"
        "    return x * x\n"
        "later = asyncio.create_task(squared(4))\n"
        "print(await squared(3))\n"
        "'done'",
    )
    ended = cluster.on("worker", "async with asyncio.timeout(20):\n    await later\n3")
    plain = cluster.on("worker", "later.result()")

    replies = [(output.stdout, output.result) for output in begun]
    assert replies == [("9\n", "'done'")] * 2
    assert [item.result for item in ended] == ["3", "3"]
    assert [item.result for item in plain] == ["16", "16"]


def test_an_awaited_cell_that_raises_or_hangs_ends_as_any_other(
    cluster: Cluster,
) -> None:
    with pytest.raises(CellFailed, match="worker:0 raised ZeroDivisionError"):
        cluster.on("worker:0", "import asyncio\nawait asyncio.sleep(0)\n1 / 0")
    with pytest.raises(DeadlineExceededError, match="worker:0 has not answered"):
        cluster.on(
            "worker:0",
            "ended = False\n"
            "try:\n"
            "    await asyncio.sleep(60)\n"
            "finally:\n"
            "    ended = True\n",
            timeout_s=0.5,
        )

    assert cluster.on("worker:0", "await asyncio.sleep(0, ended)")[0].result == "True"
    assert cluster.call("worker:0", os.getpid) == cluster.status[1].pid


def test_what_is_no_function_is_not_called(cluster: Cluster) -> None:
    wrong: list[Any] = ["print('hello')", os.getpid(), None]

    for function in wrong:
        with pytest.raises(InvalidArgumentError) as caught:
            cluster.call("worker", function)

        assert f"{function!r} is {type(function).__name__}" in str(caught.value)
    with pytest.raises(InvalidArgumentError, match=r"cluster\.on\('worker', \"print"):
        cluster.call("worker", wrong[0])
