"""The turns of saves, where a writer's news comes later than what it does."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from kit.training.core.log import SaveTurns

# What may happen next: a step that is due to be saved, one that is not, the writer
# completes what it writes, the news of that is heard.
MOVES = st.lists(st.sampled_from(["save", "step", "write", "hear"]), max_size=40)


@given(MOVES, st.data())
def test_state_that_is_being_written_is_known_however_late_the_news(
    moves: list[str], data: st.DataObject
) -> None:
    turns, step = SaveTurns(), 0
    writing: int | None = None
    news: deque[tuple[int, bool]] = deque()
    written = -1
    for move in moves:
        if move in ("save", "step"):
            step += 1
        if move == "save" and writing is None:
            writing = step
            turns = turns.begin(step)
        elif move == "write" and writing is not None:
            news.append((writing, data.draw(st.booleans())))
            writing = None
        elif move == "hear" and news:
            of, good = news.popleft()
            turns = turns.succeed(of) if good else turns.fail(of)
            written = of if good else written
        assert turns.writing is not None or writing is None
        if not news:
            assert (turns.writing is not None) == (writing is not None)
            missing = writing is None and written != step
            assert turns.is_due(step, is_last=True) == missing


def test_request_is_kept_until_it_is_agreed() -> None:
    turns = SaveTurns()
    turns = turns.begin(3)
    turns = turns.ask()
    assert (turns.is_called, turns.is_due(4, is_last=False)) == (False, False)

    turns = turns.succeed(3)

    assert (turns.is_called, turns.is_due(4, is_last=False)) == (True, True)
    turns = turns.agree(4)
    assert (turns.is_called, turns.writing) == (False, 4)


def test_last_state_is_tried_once() -> None:
    turns = SaveTurns()
    assert turns.is_due(4, is_last=True)
    turns = turns.agree(4)

    turns = turns.fail(4)

    assert not turns.is_due(4, is_last=True)
