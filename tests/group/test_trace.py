"""The trace of a group, and what boards make of it: calls, bytes, messages, waiting.

The expected bytes are computed here, from the sizes alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import kit
from kit.errors import AbortedError
from kit.testing.task_process import until
from kit.trace.traffic import TransferKind
from tests.group.scene import scene
from widgets.board import group_moment, snapshot
from widgets.board.watcher import beat_of

N, ELEMENTS = 4, 96  # of float64; a ring moves 2 (n-1) of n times of them
RING = 2 * (N - 1) * ELEMENTS * 8
BROADCAST = (N - 1) * 3 * 8


def program(group: kit.Group) -> Any:
    for _ in range(5):
        group.all_reduce(np.ones(ELEMENTS))
    group.broadcast(np.ones(3) if group.rank == 2 else None, 2)
    group.send(np.ones(1 + group.rank), to=(group.rank + 1) % N, tag=7)
    group.receive((group.rank - 1) % N)
    group.barrier()
    result = group.trace, group.traffic
    group.barrier()
    return result


def test_a_call_has_the_place_of_a_step_with_its_bytes_beside_the_formula() -> None:
    with scene(N) as stage:
        trace, traffic = stage.play(program)[1]

    assert trace.calls is not None
    rows = [(row.first, row.last, row.formula) for row in trace.calls]
    assert rows == [(1, 5, RING), (6, 6, BROADCAST), (7, 7, 0)]
    assert [row.topology for row in trace.calls] == ["ring", "", ""]
    assert "test_trace.py, line" in trace.calls[0].words
    assert group_moment.whole_calls(trace).tolist() == [1, 2, 3, 4, 5, 6, 7]
    moved = trace.transfers[trace.transfers["kind"] != TransferKind.MESSAGE]
    by_call = [int(moved["bytes"][moved["step"] == n].sum()) for n in range(1, 8)]
    assert by_call == [*[RING] * 5, BROADCAST, 0]
    sent = (1 + 2 + 3 + 4) * 8
    assert traffic.measured == traffic.formula == 5 * RING + BROADCAST + sent


def test_messages_are_noted_with_who_waited_and_how_long() -> None:
    def late(group: kit.Group) -> Any:
        if group.rank == 0:
            until(lambda: group._watch.ask_all()[1]["call"] is not None)
            group.send(np.ones(3), to=1, tag=5)
        if group.rank == 1:
            group.receive(0, tag=5)
            group.send(2.0, to=0)  # nobody asks for it
        group.barrier()
        result = group.trace
        group.barrier()
        return result

    with scene(2) as stage:
        trace = stage.play(late)[0]

    waited, unread = trace.receipts
    assert [waited[name] for name in ("source", "destination", "tag", "bytes")] == [
        *(0, 1, 5, 24)
    ]
    assert waited["start"] < waited["sent"] <= waited["arrived"] <= waited["end"]
    assert (unread["source"], unread["bytes"], unread["end"]) == (1, 8, 0)


def test_message_that_never_came_is_noted_with_whom_it_was_asked_of() -> None:
    with scene(2) as stage:
        errors = stage.errors(lambda group: group.receive(1 - group.rank))
        alone = stage.play(lambda group: group.trace)[0]
        trace = stage.play(lambda group: (group.all_reduce(1), group.trace)[1])[0]

    waiting = group_moment.moment(alone).numbers.waiting
    assert waiting is not None
    assert 0.5 < waiting <= 1  # both, nearly all the time
    assert all(isinstance(error, AbortedError) for error in errors)
    asked = trace.receipts[["source", "destination", "bytes"]].tolist()
    assert asked == [(1, 0, -1), (0, 1, -1)]


def test_numbers_of_calls_go_on_after_a_failure() -> None:
    with scene(2) as stage:
        stage.play(lambda group: group.barrier())
        stage.errors(lambda group: group.receive(1 - group.rank))
        trace = stage.play(lambda group: (group.all_reduce(1.0), group.trace)[1])[0]

    assert trace.calls is not None
    assert [(row.first, row.last) for row in trace.calls] == [(1, 1), (2, 2)]
    assert sorted(set(trace.steps["step"].tolist())) == [1, 2]


def test_saved_trace_of_a_group_has_the_same_board(tmp_path: Path) -> None:
    with scene(N) as stage:
        trace, _ = stage.play(program)[0]
    trace.save(tmp_path / "group.json")

    before, after = (
        beat_of(item) for item in (trace, kit.Trace.load(tmp_path / "group.json"))
    )

    assert snapshot.text(after) == snapshot.text(before)
    assert "7 calls and 4 messages; the newest is barrier()" in snapshot.text(after)
    assert f"bytes in all {5 * RING + BROADCAST + 80:,}" in snapshot.text(after)
    html = snapshot.html(after)
    assert f"<td>{RING:,}</td><td>{RING:,}</td>" in html
    assert "loss" not in html.lower()
