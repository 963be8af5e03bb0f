"""The log of decisions: who may append, what it comes to, and what it costs."""

from __future__ import annotations

import json
import threading
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit.exchange  # noqa: F401  # fills the table of topologies
from kit.errors import AbortedError, InvalidArgumentError
from kit.training.core.agreement import Agreement, Verdict
from kit.training.core.log import DecisionLog, Decisions, Epoch, SaveTurns
from kit.training.features.elastic.placing import Placing
from tests.cases import for_each


def log() -> DecisionLog:
    return DecisionLog(Decisions(Epoch(0, "ring"), placing=Placing()))


def ask(log: DecisionLog, what: str, nonce: str = "", **values: object) -> int:
    return log.append(log.generation, Decisions.command, what, values, nonce)


def test_a_request_that_is_sent_again_counts_once() -> None:
    result = log()
    ask(result, "pause", "a")
    ask(result, "resume", "b")

    assert ask(result, "pause", "a") == 2

    assert not result.now.is_paused


def test_a_nonce_is_known_in_the_generation_after() -> None:
    result = log()
    ask(result, "pause", "a")
    result.claim(7, reached=3, placing=Placing(1))

    assert ask(result, "pause", "a") == result.position == 2


def test_what_changes_nothing_is_not_appended() -> None:
    result = log()
    ask(result, "configure", topology="mesh", at=5)

    for _ in range(2):
        assert ask(result, "configure", topology="mesh", at=5) == 1
        assert result.append(0, Decisions.take_up, step=4, stands=True) == 1


def test_a_generation_that_another_has_followed_appends_nothing() -> None:
    result = log()
    result.claim(7, reached=3, placing=Placing())

    with pytest.raises(AbortedError, match=r"decided in generation 0, .*generation 7"):
        result.append(0, Decisions.command, what="stop", values={})
    for number in (0, 7):
        with pytest.raises(AbortedError, match="generation 7 has"):
            result.claim(number, reached=9, placing=Placing(1))

    assert not result.now.is_stopped
    assert (result.now.reached, result.age) == (3, (7, 1))


def test_what_threads_append_at_the_same_time_is_all_there() -> None:
    result = log()

    def count(first: int) -> None:
        for step in range(first, first + 200):
            result.append(0, Decisions.lose, step, "it was killed")

    threads = [threading.Thread(target=count, args=(200 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert result.position == 800 == len(result.now.gone)


def test_a_budget_that_was_not_taken_up_is_a_step_to_the_next_generation() -> None:
    result = log()
    ask(result, "pause", steps=5, to=12)
    assert result.now.stands(8)

    result.claim(1, reached=9, placing=Placing())

    assert [result.now.stands(step) for step in (11, 12)] == [False, True]


def test_a_copy_of_the_log_has_all_of_it() -> None:
    result = log()
    ask(result, "configure", "a", topology="mesh", at=9, synchronous=None)
    ask(result, "pause", "b", steps=3, to=4)
    ask(result, "place", "c", shares={"worker:1": 2.0})
    ask(result, "leave", "d", task="worker:0")
    result.append(0, Decisions.open, began=3, threads=2)
    result.append(0, Decisions.account, saves={"tickets": ["e"]})
    result.append(0, Decisions.lose, member=1, why="it was killed")
    result.append(0, Decisions.spare, member=1)
    result.append(0, Decisions.save, SaveTurns.begin, 4)
    holds = Epoch(2, "ps", link="1gbit").to_plain()
    result.append(0, Decisions.refuse, why="no room", holds=holds)
    again = DecisionLog.from_plain(json.loads(json.dumps(result.to_plain())))

    assert repr(again) == repr(result)


def test_of_losses_and_saves_a_generation_keeps_who_is_still_away() -> None:
    result = log()
    result.append(0, Decisions.lose, member=1, why="it was killed")
    result.append(0, Decisions.lose, member=1, why="it is silent")
    assert result.now.gone == {1: "it was killed"}
    result.append(0, Decisions.spare, member=1)
    result.append(0, Decisions.save, SaveTurns.begin, 4)

    result.append(0, Decisions.lose, member=2, why="it was killed")

    result.claim(6, reached=8, placing=Placing(4), absent={2, 3})

    assert result.now.gone == {2: "it was killed", 3: "its process has ended"}
    assert result.now.without == {2, 3}
    assert result.now.turns == SaveTurns()


@for_each(
    "wrong",
    [{"position": -1}, {"requested": {}}, {"later": [[1]]}, {"nonces": [7]}, {"x": 1}],
)
def test_what_is_no_log_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        DecisionLog.from_plain({**log().to_plain(), **wrong})


def test_a_step_that_nobody_interrupts_asks_nothing_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agreement = Agreement([0], Epoch(0, "ring"), 1000)
    agreement.arrive(0, 0, 0)
    assert agreement.verdict(0) is Verdict.PREPARE
    agreement.prepared(0, 0)
    agreement.arrive(0, 1, 0)
    assert agreement.verdict(1) is Verdict.GO
    position = agreement.log.position
    for name in ("append", "to_plain"):
        monkeypatch.setattr(DecisionLog, name, None)

    assert not any(agreement.wants_halt(step) for step in range(990))

    assert agreement.log.position == position


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
