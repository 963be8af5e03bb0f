"""A run that is cancelled from another thread ends, and its session goes on."""

from __future__ import annotations

from typing import Any

import pytest

from kit.errors import CancelledError
from kit.session.client.cancelling import Cancellation
from kit.session.client.session import Session
from kit.testing.task_process import until
from tests.session.scene import PS, W0, failure, in_thread, never, value, works


@pytest.mark.parametrize("device", [W0, PS])
def test_cancelled_run_ends_and_the_session_works_on(target: Any, device: str) -> None:
    cancellation = Cancellation()
    taken = never(device)
    with Session(target) as session:
        session.run(value(W0))  # all is connected
        begun = in_thread(lambda: _run(session, taken, cancellation))
        until(lambda: bool(cancellation.calls))

        cancellation.cancel()

        error = failure(begun)
        assert isinstance(error, CancelledError)
        assert "the run was cancelled" in str(error)
        assert works(session, W0, PS)


def test_run_that_begins_after_the_end_of_all_runs_is_cancelled_too() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with Session() as session:
        taken = never("")

        with pytest.raises(CancelledError, match="the run was cancelled"):
            _run(session, taken, cancellation)

        assert session.run(value("")) == 1.0


def test_runs_of_other_threads_are_not_ended() -> None:
    cancellation = Cancellation()
    with Session() as session:
        cancellation.cancel()

        assert session.run(value("")) == 1.0


def _run(session: Session, fetch: Any, cancellation: Cancellation) -> Any:
    with cancellation.of_this_thread():
        return session.run(fetch, deadline_s=20)
