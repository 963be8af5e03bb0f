from __future__ import annotations

from collections.abc import Callable

import cloudpickle
import pytest

from kit.cluster.cells.remote import Perform, pack, unpack
from kit.errors import KitError, PlacementError, UnknownError

TASK = "/job:worker/task:1"


def perform(function: Callable[..., object], *args: object) -> object:
    return unpack(Perform()(pack(function, args, {})), TASK)


def test_a_closure_runs_and_its_result_comes_back() -> None:
    offset = 5

    assert perform(lambda x: x + offset, 2) == 7


def test_another_error_names_the_task_and_shows_the_traceback_there() -> None:
    with pytest.raises(UnknownError) as caught:
        perform(lambda: 1 / 0)

    assert caught.value.task == TASK
    assert f"on {TASK}: ZeroDivisionError: division by zero" in str(caught.value)
    assert "1 / 0" in (caught.value.remote_traceback or "")


def test_an_error_of_ours_keeps_its_class() -> None:
    def fail() -> None:
        raise PlacementError("no such place")

    with pytest.raises(PlacementError, match="no such place") as caught:
        perform(fail)

    assert caught.value.task == TASK


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_would_end_an_engine_only_fails_the_call(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(KitError, match=type(error).__name__):
        perform(fail)


def test_a_result_that_cannot_be_packed_is_an_error_and_not_silence() -> None:
    with pytest.raises(UnknownError, match="pickle"):
        perform(lambda: (i for i in range(3)))


def test_a_result_that_cannot_be_read_here_says_what_to_do() -> None:
    outcome = cloudpickle.dumps({"value": 1})[:-4]

    with pytest.raises(UnknownError, match="Return plain data"):
        unpack(outcome, TASK)
