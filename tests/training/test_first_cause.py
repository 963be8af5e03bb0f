"""Of tasks that wait for each other the first cause is found."""

from __future__ import annotations

from typing import Any

from kit.errors import DeadlineExceededError, PeerLost
from kit.trace.trace import Trace
from kit.training.client.flight_recorder import Flight, Seen, flight
from tests.cases import for_each

TASKS = ("ps:0", "worker:0", "worker:1", "worker:2")
S = 10**9
NOW = 100 * S


def seen(*doing: dict[str, Any] | str, **changes: Any) -> list[Seen]:
    """Members that do so; a text is the state of one that says nothing."""
    return [
        Seen(name, item, **changes)
        if isinstance(item, str)
        else Seen(name, "running", item, NOW, is_worker=name != "ps:0")
        for name, item in zip(TASKS, doing, strict=False)
    ]


def does(what: str, seconds: float, *members: int, step: int = 7) -> dict[str, Any]:
    since = NOW - round(seconds * S)
    return {"what": what, "since": since, "members": members, "step": step, "where": ""}


def look(members: list[Seen], **options: Any) -> Flight:
    return flight(members, Trace(TASKS), NOW, **options)


@for_each(
    ("doing", "missing", "cause"),
    [
        # A server waits for the worker that computes, the other worker for the server.
        ([("waiting", 3, 2), ("waiting", 3, 0), ("computing", 3)], [], "worker:1"),
        # A chain around a ring.
        (
            [("meeting", 9), ("waiting", 2, 3), ("loading", 4), ("waiting", 2, 2)],
            [1, 2, 3],
            "worker:1",
        ),
        # At a boundary, to which one does not come.
        ([("meeting", 3), ("meeting", 3), ("computing", 4)], [2], "worker:1"),
        # No task has waited for long.
        ([("waiting", 0.1, 2), ("waiting", 0.2, 0), ("computing", 0.2)], [], ""),
        # An idle server waits for the workers for ever.
        ([("meeting", 90), ("computing", 0.2), ("waiting", 0.1, 1)], [1, 2], ""),
        # They wait for each other.
        ([("meeting", 9), ("waiting", 3, 2), ("waiting", 3, 1)], [1, 2], ""),
    ],
)
def test_first_cause_is_waited_for_and_waits_for_nobody(
    doing: list[tuple[Any, ...]], missing: list[int], cause: str
) -> None:
    result = look(seen(*(does(*item) for item in doing)), missing=missing)

    assert result.first_cause == cause
    assert [row.task for row in result.rows if row.is_first_cause] == [cause] * bool(
        cause
    )


def test_those_who_wait_for_each_other_are_named() -> None:
    members = seen(does("meeting", 9), does("waiting", 3, 2), does("waiting", 3, 1))

    assert look(members).said.startswith("worker:0 and worker:1 wait for each other")


def test_silent_task_is_the_cause_and_the_pause_is_none() -> None:
    members = seen(does("waiting", 5, 1), does("computing", 5))
    members[1] = Seen("worker:0", "running", does("computing", 5), NOW - 5 * S)

    result = look(members)

    assert result.first_cause == "worker:0"
    assert result["worker:0"].does == "silent"
    assert "has not been heard for 5.0 s. ps:0 waits for it." in result.said
    assert look(members, is_paused=True).first_cause == ""


def test_deadline_is_traced_to_where_the_waiting_begins() -> None:
    late = DeadlineExceededError("too late", task="/job:worker/task:0")
    members = seen(does("waiting", 5, 1), does("waiting", 5, 2), does("computing", 5))

    assert look(members, error=late).first_cause == "worker:1"
    lost = PeerLost("it is gone", task="/job:worker/task:0")
    assert look(members, error=lost).first_cause == "worker:0"
