"""The number of BLAS threads belongs to a training, and with it the last bits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import kit
from kit import arithmetic
from kit.arithmetic import Arithmetic, bound_to
from kit.errors import CheckpointFailed, FailedPreconditionError, InvalidArgumentError
from kit.testing.cluster import local_cluster
from tests.cases import for_each
from tests.server.ports import free_ports
from tests.training import products
from tests.training.products import Params, begin
from tests.zygote import forking

Spec = dict[str, list[str]]


@pytest.fixture(scope="module")
def two() -> Params:
    """What the training ends with on two threads, if not on one as well."""
    result = products.alone(2)
    if products.digest(result) == products.digest(products.alone(1)):
        pytest.skip("this BLAS computes the same bits with one and with two threads")
    return result


def same(params: Mapping[str, np.ndarray], other: Params) -> bool:
    """Whether two sets of parameters have the same bits."""
    return all(params[name].tobytes() == other[name].tobytes() for name in other)


# -- the number of a process -----------------------------------------------------------


def test_a_block_sets_the_threads_and_gives_the_number_before_back() -> None:
    def fail() -> None:
        with bound_to(1):
            assert products.n_threads() == 1
            with bound_to(3):
                assert products.n_threads() == 3
            assert products.n_threads() == 1
            raise RuntimeError("inside")

    with threadpool_limits(2):
        with pytest.raises(RuntimeError, match="inside"):
            fail()

        assert products.n_threads() == 2


def test_a_thread_sets_the_number_though_the_main_thread_holds_a_limit() -> None:
    seen: list[int] = []

    def compute() -> None:
        with bound_to(2):
            seen.append(products.n_threads())

    with threadpool_limits(1):
        other = threading.Thread(target=compute)
        other.start()
        other.join()

        assert seen == [2]
        assert products.n_threads() == 1


LOADED_LATER = """
from threadpoolctl import threadpool_info, threadpool_limits
from kit.arithmetic import bound_to

with threadpool_limits(2), bound_to(1):
    import scipy.linalg
    with bound_to(1):
        print([row["num_threads"] for row in threadpool_info()])
"""


@pytest.mark.slow
def test_libraries_that_are_loaded_between_two_blocks_get_the_number_too() -> None:
    with forking():
        done = subprocess.run(
            [sys.executable, "-c", LOADED_LATER],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "2"},
            capture_output=True,
            text=True,
        )

    assert (done.stdout, done.stderr) == ("[1, 1]\n", "")


@pytest.mark.slow
def test_more_threads_than_blas_can_have_are_refused_and_change_nothing() -> None:
    before = products.n_threads()

    words = "needs 1024 BLAS threads"
    with pytest.raises(FailedPreconditionError, match=words), bound_to(1024):
        pass

    assert products.n_threads() == before


def test_the_setting_of_a_process_is_not_what_a_block_needs_meanwhile() -> None:
    with threadpool_limits(2), bound_to(1):
        assert products.n_threads() == 1
        assert arithmetic.threads() == 2


def test_the_first_of_two_threads_that_leaves_takes_no_number_from_the_other() -> None:
    first, second = bound_to(1), bound_to(1)
    with threadpool_limits(2):
        first.__enter__()
        other = threading.Thread(target=second.__enter__)
        other.start()
        other.join()

        first.__exit__(None, None, None)

        assert products.n_threads() == 1
        second.__exit__(None, None, None)
        assert products.n_threads() == 2


def test_another_number_in_another_thread_is_refused_with_both() -> None:
    refused: list[FailedPreconditionError] = []

    def enter() -> None:
        try:
            with bound_to(2):
                pass
        except FailedPreconditionError as error:
            refused.append(error)

    with bound_to(1):
        other = threading.Thread(target=enter)
        other.start()
        other.join()

    assert "needs 2 BLAS threads" in refused[0].message
    assert "computes with 1" in refused[0].message


@for_each(
    "change",
    [{"threads": -1}, {"threads": 10**9}, {"blas": 7}, {"simd": "X86"}, {"more": 1}],
)
def test_what_a_file_says_it_was_computed_with_is_checked(
    change: dict[str, object],
) -> None:
    good = arithmetic.here(2).to_plain()
    assert Arithmetic.from_plain(good) == arithmetic.here(2)

    with pytest.raises(InvalidArgumentError):
        Arithmetic.from_plain({**good, **change})


# -- trainings -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_replay_computes_with_the_recorded_threads_whatever_is_set(
    tmp_path: Path, two: Params
) -> None:
    with threadpool_limits(2), local_cluster(ps=1, worker=2) as cluster:
        run = begin(cluster, record=tmp_path / "run").wait(60)
        assert same(run.params, two)

    with threadpool_limits(1):
        replayed = kit.replay(tmp_path / "run", data=products.DATA, step=products.step)
        assert products.n_threads() == 1

    assert same(replayed.params, two)
    assert replayed.content.arithmetic == arithmetic.here(2)


@pytest.mark.slow
def test_a_training_that_resumes_computes_with_the_threads_of_the_checkpoint(
    tmp_path: Path, two: Params
) -> None:
    half = products.STEPS // 2
    with threadpool_limits(2), local_cluster(ps=1, worker=2) as cluster:
        begin(cluster, steps=half, checkpoint=tmp_path / "saved").wait(60)

    with threadpool_limits(1), local_cluster(ps=1, worker=2) as cluster:
        run = begin(cluster, checkpoint=tmp_path / "saved").wait(60)

        assert run.resumed_from is not None
        assert run.resumed_from.step == half
        assert run.resumed_from.threads == 2
        assert same(run.params, two)


@pytest.mark.slow
def test_a_checkpoint_of_another_blas_is_resumed_with_a_warning_that_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_cluster(ps=1, worker=2) as cluster:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(arithmetic, "blas", lambda: "openblas 0.1 Nehalem")
            begin(cluster, steps=4, checkpoint=tmp_path / "saved").wait(60)

        with pytest.warns(UserWarning, match="went on from step 4") as caught:
            begin(cluster, steps=6, checkpoint=tmp_path / "saved").wait(60)

    message = str(caught[0].message)
    assert "the checkpoint (" in message
    assert "has openblas 0.1 Nehalem; worker:0 (" in message
    assert "os.environ['OPENBLAS_CORETYPE']" in message


@pytest.mark.slow
def test_a_checkpoint_with_many_more_threads_than_suit_warns_of_slowness(
    tmp_path: Path,
) -> None:
    with local_cluster(ps=1, worker=2) as cluster:
        with threadpool_limits(4):
            begin(cluster, steps=4, checkpoint=tmp_path / "saved").wait(60)

        with threadpool_limits(1):
            words = "computes with 4 BLAS threads as before, for the same bits, where 1"
            with pytest.warns(UserWarning, match=words):
                begin(cluster, steps=6, checkpoint=tmp_path / "saved").wait(60)


@pytest.mark.slow
def test_a_checkpoint_with_impossible_threads_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_cluster(ps=1, worker=2) as cluster:
        with monkeypatch.context() as elsewhere:
            plain = arithmetic.here().to_plain() | {"threads": 10**6}
            elsewhere.setattr(Arithmetic, "to_plain", lambda self: plain)
            begin(cluster, steps=4, checkpoint=tmp_path / "saved").wait(60)

        with pytest.raises(CheckpointFailed, match="threads is 1000000; give a whole"):
            begin(cluster, steps=6, checkpoint=tmp_path / "saved")


@pytest.mark.slow
def test_a_difference_of_threads_is_named_and_found_in_the_first_gradient(
    tmp_path: Path, two: Params
) -> None:
    for n in (1, 2):
        with threadpool_limits(n), local_cluster(ps=1, worker=2) as cluster:
            begin(cluster, record=tmp_path / str(n)).wait(60)

    paths = tmp_path / "1", tmp_path / "2"
    result = kit.diff(*paths, data=products.DATA, step=products.step)

    assert (
        "the first computes with 1 BLAS threads and the second with 2" in result.facts
    )
    assert (result.step, result.what) == (0, "gradient")


SERVE = """
import hashlib, json, sys, warnings
import kit
from tests.training import products

spec, index = json.loads(sys.argv[1]), int(sys.argv[2])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with kit.Server(spec, job_name="worker", task_index=index) as server:
        params = products.begin(server, topology="ring").wait(60).params
texts = [str(item.message) for item in caught if "BLAS" in str(item.message)]
print(json.dumps([products.digest(params), products.n_threads(), texts]))
"""


@pytest.mark.slow
def test_programs_with_other_settings_compute_with_the_threads_of_the_first_worker(
    tmp_path: Path, two: Params
) -> None:
    spec = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    with forking():
        programs = [
            subprocess.Popen(
                [sys.executable, "-c", SERVE, json.dumps(spec), str(index)],
                env={**products.environment(tmp_path), "OPENBLAS_NUM_THREADS": str(n)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for index, n in enumerate((2, 1))
        ]
    (first, *_), (second, n_after, reply) = (
        json.loads(program.communicate(timeout=90)[0]) for program in programs
    )

    assert first == second == products.digest(two)
    assert n_after == 1  # the setting of the process
    (words,) = reply
    assert words.startswith("worker:0 computes this training with 2 BLAS threads and ")
    assert "worker:1 is set to 1: " in words
    assert "worker:1 takes 2 too." in words
    assert words.endswith("start all programs with OPENBLAS_NUM_THREADS=1.")


@contextmanager
def served(spec: Spec, index: int, n: int, folder: Path) -> Iterator[None]:
    """Serve a worker in a program with so many BLAS threads, until the end."""
    command = [sys.executable, "-m", "kit", "serve", "--job", "worker"]
    with forking():
        server = subprocess.Popen(
            [*command, "--index", str(index), "--cluster", json.dumps(spec)],
            env={**products.environment(folder), "OPENBLAS_NUM_THREADS": str(n)},
            stdout=subprocess.PIPE,
            text=True,
        )
    with server:
        try:
            assert server.stdout is not None
            server.stdout.readline()  # it listens
            yield
        finally:
            server.kill()


@pytest.mark.slow
def test_tasks_with_other_threads_are_named_to_who_attaches_and_in_a_session(
    tmp_path: Path,
) -> None:
    spec = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    settings = kit.Settings(runtime_dir=str(tmp_path))
    with (
        served(spec, 1, 1, tmp_path),
        threadpool_limits(2),
        kit.Server(spec, "worker", 0, settings=settings) as server,
    ):
        cluster = kit.attach(spec["worker"][0], settings=settings)
        words = "different numbers of threads"
        with pytest.warns(UserWarning, match=words) as attached:
            result = cluster.status
        with (
            kit.Session(server) as session,
            pytest.warns(UserWarning, match=words) as caught,
        ):
            session.run(kit.constant(1))

    assert [item.arithmetic and item.arithmetic.threads for item in result] == [2, 1]
    for warning in (attached[0], caught[0]):
        message = str(warning.message)
        assert re.search(r"worker:0 \(.*\) has 2; worker:1 \(.*\) has 1\)", message)
    assert str(attached[0].message).endswith("with OPENBLAS_NUM_THREADS=1.")
