"""Calls of a group once more, message by message: results, bytes, and who has what.

The expected numbers are computed here with numpy, the bytes from the sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit.groups.replay import GivenValue, ReplayedCall, replayed
from kit.groups.values import taken
from kit.trace.log import rows
from kit.trace.trace import Trace
from kit.trace.traffic import ANYONE, RECEIPT
from kit.trace.waits import waits_in
from widgets.stepping import words

N = 4
NAMES = [f"worker:{n}" for n in range(6)]
X = [np.arange(8.0) * (n + 1) for n in range(N)]
LISTS = [[np.full(2, 10.0 * n + m) for m in range(N)] for n in range(N)]


def played(what: str, values: Any, **options: Any) -> ReplayedCall:
    inputs = []
    for value in values:
        first = taken(value, what)
        data = b"".join(array.tobytes() for array in first.arrays)
        inputs.append(GivenValue(first.form, data))
    result = replayed(3, NAMES[: len(inputs)], what, options, inputs)
    assert result is not None
    return result


def at_end(call: ReplayedCall, task: int) -> list[float]:
    """Return the numbers that a task holds as results in the end."""
    cells = call.recording.states[-1].rows[task]
    held = [cell.held.values for cell in cells if cell.held and cell.is_result]
    return [float(value) for values in held for value in values]


def test_call_ends_with_the_results_that_numpy_has() -> None:
    sums = np.sum(X, axis=0)
    means = played("all_reduce", X, op="mean")
    for topology in ("ring", "mesh", "tree", "recursive-doubling"):
        call = played("all_reduce", X, algorithm=topology)
        for n in range(N):
            np.testing.assert_allclose(at_end(call, n), sums)
    assert at_end(means, 0) == list(sums)  # the group divides afterwards
    highest = played("all_reduce", X, op="max")
    assert at_end(highest, 2) == list(np.max(X, axis=0))
    assert at_end(played("reduce", X, root=2), 2) == list(sums)
    assert at_end(played("all_gather", X), 1) == list(np.concatenate(X))
    assert at_end(played("broadcast", X, root=3), 0) == list(X[3])
    scattered = played("scatter", LISTS, root=1)
    assert at_end(scattered, 2) == [12.0, 12.0]
    part = played("reduce_scatter", LISTS)
    assert at_end(part, 1) == [0 + 1 + 10 + 1 + 20 + 1 + 30 + 1.0] * 2


@pytest.mark.parametrize(
    ("what", "values", "options", "n_bytes", "n_messages"),
    [
        ("all_reduce", X, {}, 2 * (N - 1) * 64, 2 * (N - 1) * N),
        ("broadcast", X, {"root": 0}, (N - 1) * 64, N - 1),
        ("gather", X, {"root": 1}, (N - 1) * 64, N - 1),
        ("all_to_all", LISTS, {}, N * (N - 1) * 16, N * (N - 1)),
    ],
)
def test_bytes_and_messages_are_those_of_the_formula(
    what: str, values: Any, options: Any, n_bytes: int, n_messages: int
) -> None:
    call = played(what, values, **options)

    moved = call.recording.states[-1].traffic.values()
    assert (call.n_messages, sum(n for n, _ in moved)) == (n_messages, n_messages)
    assert (call.n_bytes, sum(size for _, size in moved)) == (n_bytes, n_bytes)
    assert sum(call.sent) == sum(call.received) == n_bytes


def test_words_are_of_a_call_and_not_of_a_training() -> None:
    call = played("broadcast", X, root=0).recording

    said = "\n".join(words.text(call, n) for n in range(len(call.states)))
    assert words.title(call) == "Call 3, broadcast: 4 tasks, message by message"
    assert "worker:3 now has these numbers there" in said
    assert "gradient" not in said


@pytest.mark.parametrize(
    ("topology", "n", "first"),
    [
        ("recursive-doubling", 4, "worker:1 adds its own: it now holds the sum 0+1."),
        ("tree", 6, "worker:1 keeps it until it has the numbers of workers 3 and 4."),
    ],
)
def test_words_say_which_sums_a_topology_has_on_its_way(
    topology: str, n: int, first: str
) -> None:
    call = played("all_reduce", [*X, *X][:n], algorithm=topology).recording

    assert first in words.text(call, 1)


def test_what_cannot_be_shown_is_not() -> None:
    mixed = [GivenValue(taken([1, 2.0], "x").form, bytes(16))] * 2

    assert replayed(1, NAMES[:2], "all_gather", {}, mixed) is None
    assert replayed(1, NAMES * 2, "barrier", {}, mixed * 6) is None


def test_who_waited_for_whom_is_added_up_and_what_never_came_is_first() -> None:
    ms = 1_000_000
    table = rows(
        RECEIPT,
        [  # source, destination, epoch, line, tag, bytes, sent, arrived, start, end
            (0, 1, 1, 4, 0, 8, 0, 5 * ms, 2 * ms, 6 * ms),
            (0, 1, 1, 4, 0, 8, 6 * ms, 9 * ms, 7 * ms, 9 * ms),
            (1, 0, 1, 7, 0, 8, 0, 1 * ms, 8 * ms, 9 * ms),  # it was there before
            (ANYONE, 0, 1, 9, 0, -1, 0, 0, 9 * ms, 10 * ms),
            (1, 0, 1, 0, 0, 8, 0, 1 * ms, 0, 0),  # nobody has asked for it
        ],
    )

    result = waits_in(Trace(("worker:0", "worker:1"), calls=(), receipts=table))

    assert [item.words for item in result] == [
        "worker:0 waited in vain for a message of anyone (line 9).",
        "worker:1 waited 5 ms for 2 messages of worker:0 (line 4).",
        "worker:0 waited 0 ms for a message of worker:1 (line 7).",
    ]
