"""The clock, the figures and the waits, by closed formulas and by brute force."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.puzzles.clock import in_a_row, timeline
from kit.puzzles.events import (
    Ended,
    Event,
    MemoryFreed,
    MemoryKept,
    Received,
    Sent,
    WaitBegan,
    Worked,
)
from kit.puzzles.figures import bytes_of, fullest, idle
from kit.puzzles.processes import Waits
from tests.cases import for_each

Logs = list[list[Event]]
Messages = list[tuple[int, int, int]]  # source, destination, bytes


def logs_of(n: int, messages: Messages) -> Logs:
    """Return the logs of tasks that send and receive messages in this order."""
    logs: Logs = [[] for _ in range(n)]
    count: dict[tuple[int, int], int] = {}
    for source, to, n_bytes in messages:
        number = count.get((source, to), 0)
        count[source, to] = number + 1
        logs[source].append(Sent(to, f"m{number}", n_bytes, number))
        logs[to].append(Received(source, f"m{number}", n_bytes, number))
    return logs


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[int, Messages]:
    n = draw(st.integers(2, 5))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1), st.integers(1, 9))
    drawn = draw(st.lists(pairs, max_size=20))
    return n, [(a, (a + step) % n, n_bytes) for a, step, n_bytes in drawn]


@for_each("n", range(2, 9))
def test_a_ring_has_twice_n_minus_one_messages_in_a_row_and_nobody_is_idle(
    n: int,
) -> None:
    logs: Logs = [[] for _ in range(n)]
    for hop in range(2 * (n - 1)):
        for k in range(n):  # all send first, as in a ring all do at once
            logs[k].append(Sent((k + 1) % n, "part", 10, hop))
            logs[k].append(Received((k - 1) % n, "part", 10, hop))

    line = timeline(logs, float)

    assert len(in_a_row(logs)) == 2 * (n - 1)
    assert line.end == 2 * (n - 1) * 10
    assert idle(line) == pytest.approx(0)
    assert bytes_of(logs) == [(2 * (n - 1) * 10,) * 2] * n


@for_each("n", range(2, 9))
def test_what_one_sends_to_all_or_gets_from_all_is_in_a_row(n: int) -> None:
    out = logs_of(n, [(0, k, 4) for k in range(1, n)])
    into = logs_of(n, [(k, 0, 4) for k in range(1, n)])

    assert len(in_a_row(out)) == len(in_a_row(into)) == n - 1
    assert timeline(out, float).end == timeline(into, float).end == 4 * (n - 1)


@for_each(("stages", "batches"), [(p, m) for p in (1, 2, 4) for m in (1, 3, 8)])
def test_a_pipeline_is_idle_as_its_formula_says(stages: int, batches: int) -> None:
    logs: Logs = [[] for _ in range(stages)]
    for i in range(batches):
        for k in range(stages):
            if k > 0:
                logs[k].append(Received(k - 1, f"a{i}", 0, i))
            logs[k].append(Worked(f"F{i}", 1.0))
            if k < stages - 1:
                logs[k].append(Sent(k + 1, f"a{i}", 0, i))

    bubble = (stages - 1) / (batches + stages - 1)

    assert idle(timeline(logs, float)) == pytest.approx(bubble)


@given(exchanges())
def test_no_task_sends_or_takes_in_two_messages_at_a_time(
    exchange: tuple[int, Messages],
) -> None:
    n, messages = exchange

    line = timeline(logs_of(n, messages), float)

    assert len(line.flights) == len(messages)
    for task in range(n):
        sent = [(f.begin, f.begin + f.ms) for f in line.sent.values()
                if f.source == task]  # fmt: skip
        taken = [(f.end - f.ms, f.end) for f in line.flights.values() if f.to == task]
        for spans in (sorted(sent), sorted(taken)):
            for (_, end), (begin, _) in pairwise(spans):
                assert begin >= end


@given(exchanges())
def test_a_chain_is_one_in_which_each_message_waits_for_the_one_before(
    exchange: tuple[int, Messages],
) -> None:
    n, messages = exchange

    chain = in_a_row(logs_of(n, messages))

    longest = max((f.end for f in chain), default=0.0)
    assert len(chain) == longest  # no gaps: each takes one
    for first, other in pairwise(chain):
        assert {first.source, first.to} & {other.source, other.to}
    result = idle(timeline(logs_of(n, messages), float))
    assert (result is not None and 0 <= result < 1) if chain else result is None


@given(exchanges(), st.randoms(use_true_random=False), st.integers(0, 40))
def test_a_task_is_stuck_exactly_if_no_order_of_the_others_lets_it_go_on(
    exchange: tuple[int, Messages], dice: random.Random, cut: int
) -> None:
    n, messages = exchange
    logs = logs_of(n, messages)
    sent = [(k, e) for k, log in enumerate(logs) for e in log if isinstance(e, Sent)]
    if sent:
        task, lost = sent[cut % len(sent)]
        logs[task].remove(lost)  # somebody forgets to send
    reports, played = _play(logs)
    stuck = {k for k in range(n) if played[k] < len(logs[k])}

    waits = Waits(n)
    queues = [list(report) for report in reports]
    while any(queues):  # those of a task come in order, those of two tasks in any
        task = dice.choice([k for k in range(n) if queues[k]])
        waits.take(task, queues[task].pop(0))
        assert waits.stuck().keys() <= stuck  # nobody is suspected who can go on

    assert waits.is_quiet
    assert waits.stuck().keys() == stuck
    assert waits.ended == set(range(n)) - stuck


def _play(logs: Logs) -> tuple[Logs, list[int]]:
    """Run the logs as programs as far as they come; what they report, and how far."""
    reports: Logs = [[] for _ in logs]
    at, there = [0] * len(logs), set()
    is_moving = True
    while is_moving:
        is_moving = False
        for task, log in enumerate(logs):
            while at[task] < len(log):
                event = log[at[task]]
                if isinstance(event, Received):
                    if (event.source, task, event.number) not in there:
                        break
                    reports[task].append(WaitBegan(event.source, event.name))
                elif isinstance(event, Sent):
                    there.add((task, event.to, event.number))
                reports[task].append(event)
                at[task] += 1
                is_moving = True
    for task, log in enumerate(logs):
        if at[task] == len(log):
            reports[task].append(Ended(0.0))
        else:
            event = log[at[task]]
            assert isinstance(event, Received)
            reports[task].append(WaitBegan(event.source, event.name))
    return reports, at


def test_memory_that_is_called_by_another_name_is_counted_once() -> None:
    log: list[Event] = [
        MemoryKept(0, "x", 8),
        MemoryKept(0, "sum", 8),
        MemoryKept(1, "y", 4),
        MemoryFreed(0),
    ]

    assert fullest(log).n_bytes == 12
    assert fullest(log).names == ("sum", "y")
    held = timeline([log], float).held
    assert {(h.name, h.end) for h in held} >= {("y", math.inf), ("sum", 0.0)}
