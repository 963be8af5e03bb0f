"""A recorded exchange against models of each topology that know nothing of plans."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import example, given
from hypothesis import strategies as st

from kit.exchange.stepping.stepped_exchange import SteppedState
from tests.exchange import replay
from widgets import ExchangeStepper, RingStepper, ServerStepper

Array = npt.NDArray[Any]
Matrix = list[list[tuple[int, ...]]]  # worker, chunk: who is in the sum
WORKERS = st.integers(1, 4)
SIZES = st.integers(0, 13)
EQUAL = st.sampled_from(["ring", "ring-whole", "mesh", "ps", "hierarchical"])
NAMES = EQUAL | st.just("tree")  # of other last bits
SEEDS = st.integers(0, 1000)


def random_values(n: int, size: int, seed: int, dtype: str = "float32") -> list[Array]:
    """Return numbers of very different sizes: another order gives other bits."""
    dice = np.random.default_rng(seed)
    scale = 10.0 ** dice.integers(-6, 6, (n, size))
    return list((dice.standard_normal((n, size)) * scale).astype(dtype))


def sizes_of_chunks(size: int, n: int) -> list[int]:
    return [len(part) for part in np.array_split(np.arange(size), n)]


def who_holds(state: SteppedState) -> Matrix:
    return [[cell.held.who if cell.held else () for cell in row] for row in state.rows]


def ring_model(n: int, full: list[bool]) -> Iterator[tuple[int, int, Matrix]]:
    """Yield sender, chunk and matrix of each message, by the formulas of the ring."""
    matrix: Matrix = [[(r,) if some else () for some in full] for r in range(n)]
    for phase in ("reduce", "gather"):
        for s in range(n - 1):
            for r in range(n):
                chunk = (r - s + (phase == "gather")) % n
                after = (r + 1) % n
                own = (after,) if phase == "reduce" else ()
                if full[chunk]:
                    matrix[after][chunk] = matrix[r][chunk] + own
                    yield r, chunk, [list(row) for row in matrix]


@given(st.integers(2, 5), SIZES)
def test_each_state_of_a_ring_is_that_of_the_formulas(n: int, size: int) -> None:
    full = [count > 0 for count in sizes_of_chunks(size, n)]
    model = list(ring_model(n, full))

    recording = RingStepper(n, size).recording

    assert len(recording.messages) == len(model)
    if model:
        assert who_holds(recording.states[0]) == [
            [(r,) if some else () for some in full] for r in range(n)
        ]
    for state, (sender, chunk, matrix) in zip(
        recording.states[1:], model, strict=False
    ):
        assert state.message is not None
        assert (state.message.source, state.message.columns) == (sender, (chunk,))
        assert state.message.destination == (sender + 1) % n
        assert who_holds(state) == matrix


@given(st.integers(1, 6), st.integers(1, 13))
def test_with_gossip_each_worker_ends_with_the_sum_around_it(n: int, size: int) -> None:
    stepper = ExchangeStepper("gossip", n, size)
    chunks = [count > 0 for count in sizes_of_chunks(size, n)]

    around = [
        tuple(sorted({(rank + way) % n for way in (-1, 0, 1)})) for rank in range(n)
    ]
    assert who_holds(stepper.recording.states[-1]) == [
        [who if some else () for some in chunks] for who in around
    ]
    assert ("its own and its neighbours'" in repr(stepper)) == (n > 1)


@given(st.integers(2, 5))
def test_a_ring_takes_two_n_minus_one_rounds_of_one_message_a_worker(n: int) -> None:
    messages = RingStepper(n).messages

    assert [(m.round, m.source) for m in messages] == [
        (s + 1, r) for s in range(2 * (n - 1)) for r in range(n)
    ]


@given(st.integers(2, 5))
def test_a_whole_ring_passes_each_gradient_on_and_adds_at_the_end(n: int) -> None:
    states = RingStepper(n, whole=True).recording.states

    kept: list[list[int]] = [[] for _ in range(n)]
    for number, state in enumerate(states[1:-1]):
        s, r = divmod(number, n)
        assert state.message is not None
        assert (state.message.source, state.message.destination) == (r, (r + 1) % n)
        kept[(r + 1) % n].append((r - s) % n)
        for worker, row in enumerate(state.rows):
            for cell in row:
                assert cell.held is not None
                assert cell.held.who == (worker,)
                assert [term.who for term in cell.kept] == [(w,) for w in kept[worker]]
    assert len(states) == n * (n - 1) + 2
    assert states[-1].message is None
    assert all(len(who) == n for row in who_holds(states[-1]) for who in row)


@given(WORKERS, st.integers(1, 9))
def test_a_server_adds_nothing_before_it_has_all(n: int, size: int) -> None:
    states = ServerStepper(n, size).recording.states

    assert len(states) == 2 * n + 1
    full = [number for number, count in enumerate(sizes_of_chunks(size, n)) if count]
    for number, state in enumerate(states):
        server, *workers = state.rows
        for column in full:
            held, kept = server[column].held, server[column].kept
            has_come = [(w,) for w in range(number)] if number < n else []
            assert [term.who for term in kept] == has_come
            assert (held is not None) == (number >= n)
        done = [all(row[column].is_result for column in full) for row in workers]
        assert done == [w < number - n for w in range(n)]


@given(EQUAL, WORKERS, SIZES, st.integers(1, 3), SEEDS)
def test_held_numbers_are_the_sum_of_those_named_bit_for_bit(
    name: str, n: int, size: int, n_ps: int, seed: int
) -> None:
    values = random_values(n, size, seed)
    servers = n_ps if name == "ps" else None

    recording = ExchangeStepper(name, values=values, n_ps=servers).recording

    for state in recording.states:
        for row in state.rows:
            for column, cell in zip(recording.columns, row, strict=True):
                part = slice(column.lo, column.hi)
                for term in [held for held in (cell.held, *cell.kept) if held]:
                    first, *rest = term.who
                    wanted = values[first][part].copy()
                    for worker in rest:
                        wanted = wanted + values[worker][part]
                    assert np.array(term.values, np.float32).tolist() == wanted.tolist()


@given(EQUAL, WORKERS, SIZES, st.sampled_from(["float32", "float64"]), SEEDS)
def test_at_the_end_every_worker_has_the_promised_sum(
    name: str, n: int, size: int, dtype: str, seed: int
) -> None:
    values = random_values(n, size, seed, dtype)
    wanted = replay.total([{"gradient": value} for value in values])["gradient"]

    stepper = ExchangeStepper(name, values=values)
    stepper.position = stepper.last

    for worker in range(n):
        assert stepper.held(f"worker:{worker}").tolist() == wanted.tolist()


@given(NAMES, WORKERS, SIZES)
def test_whole_numbers_end_as_numpy_adds_them(name: str, n: int, size: int) -> None:
    values = np.arange(n * size).reshape(n, size) % 17

    stepper = ExchangeStepper(name, values=list(values))
    stepper.position = stepper.last

    assert stepper.held("worker:0").tolist() == values.sum(axis=0).tolist()


@given(NAMES, WORKERS, SIZES, st.integers(1, 3))
@example("ring-whole", 3, 0, 1)
@example("ring", 4, 2, 1)
@example("ps", 2, 1, 3)
def test_what_arrived_is_what_the_formulas_and_the_meters_say(
    name: str, n: int, size: int, n_ps: int
) -> None:
    n_bytes, full = 4 * size, min(n, size)
    parts = min(n_ps, size) if size else 0
    messages, moved = {
        "ring": (2 * (n - 1) * full, 2 * (n - 1) * n_bytes),
        "mesh": (2 * (n - 1) * full, 2 * (n - 1) * n_bytes),
        "ring-whole": (n * (n - 1) * (size > 0), n * (n - 1) * n_bytes),
        "ps": (2 * n * parts, 2 * n * n_bytes),
        "hierarchical": (2 * (n - 1) * (size > 0), 2 * (n - 1) * n_bytes),
        "tree": (2 * (n - 1) * (size > 0), 2 * (n - 1) * n_bytes),
    }[name]

    stepper = ExchangeStepper(name, n, size, n_ps=n_ps if name == "ps" else None)

    traffic = stepper.recording.states[-1].traffic
    assert sum(count for count, _ in traffic.values()) == messages
    assert sum(count for _, count in traffic.values()) == moved
    assert traffic == stepper.recording.metered
    assert (stepper.formula.n_messages, stepper.formula.n_bytes) == (messages, moved)
    assert len(stepper.messages) == messages
    sent = [0] * len(stepper.recording.names)
    for (source, _), (_, count) in traffic.items():
        sent[source] += count
    assert tuple(sent) == stepper.formula.sent


@given(NAMES, st.integers(2, 4), st.integers(1, 9))
def test_a_message_carries_what_its_sender_held(name: str, n: int, size: int) -> None:
    states = ExchangeStepper(name, n, size).recording.states

    for before, state in pairwise(states):
        if state.message is not None:
            source = state.message.source
            for column, who in zip(
                state.message.columns, state.message.who, strict=True
            ):
                cell = before.rows[source][column]
                holds = [term.who for term in (cell.held, *cell.kept) if term]
                assert who in holds
                assert state.message in before.held


def test_a_message_is_on_its_way_until_it_arrives() -> None:
    states = RingStepper(3).recording.states

    waiting = {message for state in states for message in state.held}
    assert waiting == {state.message for state in states[1:]}
    assert states[-1].held == ()
    for state in states:
        assert state.message not in state.held


def test_two_recordings_of_one_exchange_are_equal() -> None:
    for name in ("ring", "mesh", "ps", "ring-whole"):
        assert ExchangeStepper(name, 4).recording == ExchangeStepper(name, 4).recording
