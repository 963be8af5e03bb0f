"""The turns of saves, where a writer's news comes later than what it does."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from kit.training.core.agreement import SaveSchedule

# What may happen next: a step that is due to be saved, one that is not, the writer
# completes what it writes, the news of that is heard.
MOVES = st.lists(st.sampled_from(["save", "step", "write", "hear"]), max_size=40)


@given(MOVES, st.data())
def test_state_that_is_being_written_is_known_however_late_the_news(
    moves: list[str], data: st.DataObject
) -> None:
    turns, step = SaveSchedule(at_the_end=True), 0
    writing: int | None = None
    news: deque[tuple[int, bool]] = deque()
    written = -1
    for move in moves:
        if move in ("save", "step"):
            step += 1
        if move == "save" and writing is None:
            writing = step
            turns.begun(step)
        elif move == "write" and writing is not None:
            news.append((writing, data.draw(st.booleans())))
            writing = None
        elif move == "hear" and news:
            of, good = news.popleft()
            turns.ended(of, good=good)
            written = of if good else written
        assert turns.is_under_way or writing is None
        if not news:
            assert turns.is_under_way == (writing is not None)
            missing = writing is None and written != step
            assert turns.is_due(step, ends=True) == missing


def test_request_is_kept_until_it_is_agreed() -> None:
    turns = SaveSchedule(at_the_end=False)
    turns.begun(3)
    turns.request()
    assert (turns.is_called, turns.is_due(4, ends=False)) == (False, False)

    turns.ended(3, good=True)

    assert (turns.is_called, turns.is_due(4, ends=False)) == (True, True)
    turns.agree(4)
    assert (turns.is_called, turns.is_under_way) == (False, True)


def test_last_state_is_tried_once() -> None:
    turns = SaveSchedule(at_the_end=True)
    assert turns.is_due(4, ends=True)
    turns.agree(4)

    turns.ended(4, good=False)

    assert not turns.is_due(4, ends=True)


def test_without_a_folder_nothing_is_due_at_the_end() -> None:
    assert not SaveSchedule(at_the_end=False).is_due(4, ends=True)
