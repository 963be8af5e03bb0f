"""Groups over TCP whose links have a thread for each direction."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kit
from kit import machine
from kit.errors import DeadlineExceededError, MemberMismatch
from kit.exchange.execution.native_executor import loop
from tests.group.scene import Scene, scene

CLEAR: dict[str, Any] = {"transport": "tcp", "insecure": True}
SEALED: dict[str, Any] = {"transport": "tcp"}
TWO: dict[str, Any] = {"streams": 2}
LARGE = 300_000  # float32: 1.2 MB, for which threads of Python pay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(loop() is None, reason="the compiled loop was not built"),
]


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 64)


def n_threads() -> int:
    names = [thread.name for thread in threading.enumerate()]
    return sum(name.startswith(("kit-send-", "kit-receive-")) for name in names)


def calls(group: kit.Group) -> list[Any]:
    """Make short and long calls in turn, of plans for one neighbour and for all."""
    dice = np.random.default_rng(group.rank)
    values = dice.standard_normal(LARGE).astype(np.float32)
    results = [group.all_reduce(group.rank + 0.1)]
    room = np.empty_like(values)
    group.all_reduce(values, out=room)
    results += [room, group.all_reduce(values[:1000], "max")]
    results += group.all_gather(values[: LARGE - group.rank])
    results.append(group.broadcast(values if group.rank == 1 else None, root=1))
    results.append(group.all_reduce(values))
    group.barrier()
    return [np.asarray(result).tobytes() for result in results]


def played(values: dict[str, Any]) -> tuple[list[Any], Any, int]:
    """Return what three tasks get, the bytes and messages of each link, and threads."""
    with scene(3, values=values) as stage:
        results, n_now = stage.play(calls), n_threads()
        traffic = stage.play(lambda group: group.traffic)[0]
        return results, traffic, n_now


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize("values", [CLEAR, SEALED, CLEAR | TWO, SEALED | TWO], ids=str)
def test_bits_and_counts_are_those_of_a_group_in_memory(values: dict[str, Any]) -> None:
    near, counted, none = played({})
    far, counted_far, n_now = played(values)

    assert far == near
    assert counted_far.links == counted.links
    assert counted_far.measured == counted_far.formula
    assert (none, n_now) == (0, 3 * 2 * 2 * values.get("streams", 1))
    assert n_threads() == 0


def told(stage: Scene) -> BaseException | None:
    """Return what the first task, which was not in a call, is told in its next one."""
    return stage.pool.submit(stage.groups[0].barrier).exception(20)


def after(stage: Scene, n_items: int) -> int:
    """Return how many threads links have after a call of this size."""
    value = np.ones(n_items, np.float32)
    results = stage.play(lambda group: group.all_reduce(value))
    assert all((result == len(stage.groups)).all() for result in results)
    return n_threads()


@pytest.mark.usefixtures("many_cores")
def test_an_encrypted_link_has_threads_from_the_first_large_call_on() -> None:
    with scene(2, values=SEALED) as stage:
        assert [after(stage, n) for n in (10, LARGE // 2, LARGE, 10)] == [0, 0, 4, 4]


def test_two_tasks_on_two_cores_have_no_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 2)
    with scene(2, values=SEALED) as stage:
        assert after(stage, LARGE) == 0


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize("values", [CLEAR, SEALED], ids=["clear", "sealed"])
def test_calls_that_fail_end_as_in_memory_and_the_group_goes_on(
    values: dict[str, Any],
) -> None:
    with scene(2, values=values, timeout_s=1.0) as stage:
        assert after(stage, LARGE) == 4

        def differ(group: kit.Group) -> Any:
            return group.barrier() if group.rank else group.all_reduce(1)

        assert [type(error) for error in stage.errors(differ)] == [MemberMismatch] * 2
        assert after(stage, LARGE) == 4

        def wait(group: kit.Group) -> Any:
            return group.barrier() if group.rank else None

        for error in (stage.errors(wait)[1], told(stage)):
            assert isinstance(error, DeadlineExceededError)
            assert "waited 1 s for worker:0" in str(error)
        assert after(stage, 10) == (0 if values is SEALED else 4)
