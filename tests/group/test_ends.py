"""No call of a group hangs: who is waited for is named, and the group goes on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any, cast

import numpy as np
import pytest

import kit
from kit.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from kit.groups import watch
from kit.server.directory import Directory
from kit.testing.task_process import until
from tests.group.scene import scene


@pytest.mark.slow
def test_deadlock_is_named_with_its_lines_and_the_group_goes_on() -> None:
    with scene(3) as stage:

        def first(group: kit.Group) -> Any:
            return group.receive(1)

        def second(group: kit.Group) -> Any:
            return group.all_reduce(np.ones(10, np.float32))

        errors = stage.errors(first, second, second)

        for error in errors:
            assert isinstance(error, AbortedError), error
            assert "deadlock: worker:0 is in receive(source=1) at test_e" in str(error)
            assert "worker:1 is in all_reduce(float32[10]) at test_ends" in str(error)
        assert stage.play(lambda group: group.all_reduce(1)) == [3, 3, 3]


@pytest.mark.slow
def test_two_that_wait_for_each_other_while_a_third_works_are_named() -> None:
    with scene(3) as stage:

        def ahead(group: kit.Group) -> Any:
            if group.rank < 2:
                return group.receive(1 - group.rank)
            time.sleep(3)
            return None

        errors = stage.errors(ahead)

        assert [type(error) for error in errors] == [
            AbortedError,
            AbortedError,
            type(None),
        ]
        assert "deadlock: worker:0" in str(errors[0])
        assert "worker:2" not in str(errors[0])


@pytest.mark.slow
def test_large_messages_both_ways_are_no_deadlock() -> None:
    big = np.arange(1 << 20)
    with scene(2) as stage:

        def swap(group: kit.Group) -> Any:
            group.send(big + group.rank, to=1 - group.rank)
            return group.receive(1 - group.rank)

        result = stage.play(swap)

    assert all(np.array_equal(result[n], big + 1 - n) for n in (0, 1))


@pytest.mark.slow
def test_who_has_not_come_for_the_time_is_named() -> None:
    with scene(2, timeout_s=1.0) as stage:

        def late(group: kit.Group) -> Any:
            if group.rank == 0:
                return group.barrier()
            return time.sleep(2)

        errors = stage.errors(late)

    assert isinstance(errors[0], DeadlineExceededError)
    assert "call 1, barrier() at test_ends.py" in str(errors[0])
    assert "waited 1 s for worker:1" in str(errors[0])


@pytest.mark.slow
def test_who_still_works_is_named_after_a_while_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch, "NOTICE_S", 0.5)
    with scene(2) as stage:

        def late(group: kit.Group) -> Any:
            group.barrier()
            if group.rank == 1:
                time.sleep(1.5)
            return group.all_reduce(1)

        assert stage.play(late) == [2, 2]

    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "call 2, all_reduce(int) at test_ends.py, line" in said[0]
    assert "has waited 0.5 s for worker:1 (test_ends.py, line" in said[0]


@pytest.mark.slow
def test_error_of_one_task_in_a_call_ends_it_on_all() -> None:
    with scene(3) as stage:

        def program(group: kit.Group) -> Any:
            value = np.ones(3) if group.rank else np.array([object()])
            return group.all_reduce(value)

        begun = stage.begin(program)
        assert isinstance(begun[0].exception(20), InvalidArgumentError)
        # It goes on with another call, and the others hear of that.
        other = stage.pool.submit(stage.groups[0].barrier)
        errors = [future.exception(20) for future in (*begun[1:], other)]

    for error in errors:
        assert "worker:0 is in barrier()" in str(error)
        assert "worker:1, worker:2 are in all_reduce(float64[3])" in str(error)


def test_errors_say_that_calls_are_counted_from_the_last_failure_on() -> None:
    with scene(2) as stage:
        stage.play(lambda group: group.barrier(), lambda group: group.barrier())
        other = (lambda group: group.barrier(), lambda group: group.all_reduce(1))

        first, second = (str(stage.errors(*other)[0]) for _ in range(2))

    assert first.startswith("call 2: worker:0 is in barrier()")
    assert second.startswith("call 1 after the last failure: worker:0 is in barrier()")


@pytest.mark.slow
def test_server_that_stops_ends_the_calls_of_the_others() -> None:
    with scene(2) as stage:
        stage.play(lambda group: group.all_reduce(1))

        def wait(group: kit.Group) -> Any:
            if group.rank == 1:
                return stage.cluster.servers[1].stop()
            return group.barrier()

        begun = time.monotonic()
        error = stage.begin(wait)[0].exception(20)

    assert error is not None
    assert "worker:1" in str(error)
    assert time.monotonic() - begun < 6


def test_bad_arguments_are_refused_before_anybody_is_asked() -> None:
    with scene(2) as stage:
        group = stage.groups[0]

        def refused(call: Any, *words: str) -> None:
            with pytest.raises(InvalidArgumentError) as caught:
                call()
            assert all(word in str(caught.value) for word in words), caught.value

        refused(lambda: group.all_reduce("text"), "frombuffer")
        refused(lambda: group.all_reduce(1, op="xor"), "xor", "sum, mean, max")
        refused(lambda: group.all_reduce(np.ones(2, bool)), "bool", "np.int64(x)")
        refused(lambda: group.all_reduce(1, algorithm="ps"), "ps", "ring")
        refused(lambda: group.all_reduce(1, algorithm="rin"), "Did you mean 'ring'?")
        refused(lambda: group.send(1, to=2), "to=2", "0 worker:0, 1 worker:1")
        refused(lambda: group.broadcast(1, root=True), "root=True")
        refused(lambda: group.scatter([1]), "each of the 2 tasks")
        refused(lambda: group.send(1, to=1, tag=-1), "tag=-1")
        refused(lambda: group.receive(1, tag=-1), "tag=-1")  # any, in MPI
        refused(lambda: group.probe(2), "source=2", "0 worker:0, 1 worker:1")
        refused(lambda: group.all_reduce(2**70), "64 bits")
        refused(lambda: group.all_reduce(np.ones(2), out=[0, 0]), "numpy array")
        refused(lambda: group.all_reduce(np.ones(2), out=np.ones(3)), "float64[3]")
        refused(lambda: group.all_reduce(np.ones(2), out=np.ones(2, int)), "int64[2]")
        whole, wrong = np.ones(2, int), cast(Any, [["sum"], 0.5])
        refused(lambda: group.all_reduce(1, op=wrong[0]), "sum, mean, max")
        refused(lambda: group.all_reduce(whole, op="mean", out=whole), "float64[2]")
        refused(lambda: group.split("red"), "color='red'", "whole number")
        refused(lambda: group.split(0, key=wrong[1]), "key=0.5")
        refused(lambda: group.all_reduce({1: 2.0}), "names as keys")
        refused(lambda: kit.group("work", cluster=stage.cluster.servers[0]), "work")
        for name, instead in {
            **{"allreduce": "all_reduce", "recv": "receive", "bcast": "broadcast"},
            **{"Get_rank": "rank", "alltoall": "all_to_all", "al_gather": "all_gather"},
        }.items():
            with pytest.raises(AttributeError, match=rf"{name}.* write \.{instead}"):
                getattr(group, name)
        assert not hasattr(group, "__array__")
    with pytest.raises(FailedPreconditionError, match="closed"):
        group.barrier()
    with pytest.raises(FailedPreconditionError, match="%%on worker"):
        kit.group()


@pytest.mark.slow
def test_each_thread_has_a_group_of_its_own_and_one_that_two_use_says_so() -> None:
    with scene(2) as stage, ThreadPoolExecutor(2) as pool:
        others = [kit.group(cluster=server) for server in stage.cluster.servers]
        begun = [
            pool.submit(lambda g: [g.all_reduce(n) for n in range(200)], group)
            for group in others
        ]
        sums = stage.play(lambda group: [group.all_reduce(-n) for n in range(200)])

        assert sums == [[-2 * n for n in range(200)]] * 2
        assert [future.result(20) for future in begun] == [
            [2 * n for n in range(200)]
        ] * 2
        waiting = stage.pool.submit(others[0].receive, 1)
        until(lambda: "receive" in str(others[0]._state.call), 20)
        with pytest.raises(FailedPreconditionError, match="in another thread; make a"):
            others[0].barrier()
        others[1].send(3, to=0)
        assert waiting.result(20) == 3
        for group in others:
            group.close()


@pytest.mark.slow
def test_two_threads_that_ask_a_task_at_once_leave_no_second_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scene(2) as stage, ThreadPoolExecutor(2) as pool:
        state, dial = stage.groups[0]._state, Directory.dial
        both = threading.Barrier(2)

        def dial_both(directory: Directory, *args: Any, **options: Any) -> Any:
            both.wait(10)
            return dial(directory, *args, **options)

        monkeypatch.setattr(Directory, "dial", dial_both)
        asked = [pool.submit(state.look_at, 1) for _ in range(2)]

        assert [future.result(20)["known"] for future in asked] == [True, True]


@pytest.mark.slow
def test_ranks_and_tags_of_numpy_are_those_of_python() -> None:
    with scene(2) as stage:

        def program(group: kit.Group) -> Any:
            value: Any = np.int64(1) if group.rank else 1
            other: Any = np.int32(1 - group.rank)
            tag: Any = np.uint8(3)
            pending = group.irecv(other, tag)
            group.send(group.rank, to=other, tag=tag)
            return group.broadcast(7 if group.rank else None, value), pending.wait()

        def stuck(group: kit.Group) -> Any:
            other: Any = np.int64(1 - group.rank)
            return group.receive(other, tag=4)

        assert stage.play(program) == [(7, 1), (7, 0)]
        for error in stage.errors(stuck):
            assert "deadlock: worker:0 is in receive(source=1)" in str(error)


@pytest.mark.slow
def test_link_slows_collectives_and_messages() -> None:
    with scene(2, link="8mbit,20ms") as stage:

        def timed(group: kit.Group) -> list[float]:
            x, other = np.zeros(50_000, np.uint8), 1 - group.rank
            group.barrier()
            at = [time.perf_counter()]
            group.all_reduce(x)
            at.append(time.perf_counter())
            group.sendrecv(x, other, other)
            return [*at, time.perf_counter()]

        result = stage.play(timed)

    for (begun, reduced, ended), (_, sent, _) in permutations(result):
        # 8 Mbit/s are a byte in a microsecond. Two halves, one after the other:
        assert reduced - begun > 2 * (0.025 + 0.02)
        assert ended - sent > 0.05 + 0.02  # since the other one began to send
