from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.time_bins import Bins, spread
from kit.trace.trace import Trace
from kit.trace.traffic import SPAN, STEP, TOTAL, TRANSFER, Phase, Transfer, TransferKind

TASKS = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")
PS, RING = EpochRow(0, "ps", 0, 5, ""), EpochRow(1, "ring", 10, 90, "")


def step_row(task: int, step: int, loss: float, examples: int) -> tuple[float, ...]:
    start = 100 * step
    return (task, step, int(step >= 10), loss, examples, start, start + 50, 30, 20, 0)


def test_the_loss_of_a_step_weighs_each_worker_by_its_examples() -> None:
    table = rows(STEP, [step_row(1, 3, 1.0, 10), step_row(2, 3, 4.0, 20)])

    steps, loss = Trace(TASKS, steps=table).losses()

    assert steps.tolist() == [3]
    assert loss.tolist() == [(1.0 * 10 + 4.0 * 20) / 30]


def test_a_row_without_examples_does_not_touch_the_loss() -> None:
    table = rows(STEP, [step_row(0, 3, float("nan"), 0), step_row(1, 3, 2.5, 7)])

    assert Trace(TASKS, steps=table).losses()[1].tolist() == [2.5]


def test_an_empty_trace_answers_every_question() -> None:
    trace = Trace(TASKS)

    assert trace.bounds() == (0, 0)
    assert trace.switches() == ()
    assert [len(column) for column in trace.losses()] == [0, 0]
    assert trace.bytes_per_link(10).links == ()
    assert trace.bytes_between(np.array([0, 9]))[0] == ()
    assert trace.step_rate() == 0.0
    assert trace.n_steps(0) == 0
    assert trace.sent("ps:0") == trace.received(2) == 0
    assert not trace.phase_time().any()


transfers = st.lists(
    st.builds(
        lambda source, to, n_bytes, start, length: Transfer(
            source, to, TransferKind.PUSH, 0, 0, n_bytes, start, start + length
        ),
        st.integers(0, 2),
        st.integers(0, 2),
        st.integers(0, 10**9),
        st.integers(0, 2000),
        st.integers(0, 700),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=25)
@given(transfers, st.integers(1, 900))
def test_bins_hold_every_byte_of_every_link(moved: list[Transfer], width: int) -> None:
    links, bins, amount = Trace(TASKS, transfers=rows(TRANSFER, moved)).bytes_per_link(
        width
    )

    expected: dict[tuple[int, int], int] = {}
    for move in moved:
        link = (move.source, move.destination)
        expected[link] = expected.get(link, 0) + move.bytes
    assert list(links) == sorted(expected)
    assert amount.shape == (len(links), bins.n)
    assert amount.sum(axis=1) == pytest.approx([expected[link] for link in links])


@settings(max_examples=25)
@given(transfers, st.integers(1, 900))
def test_spreading_equals_the_overlap_of_each_bin(
    moved: list[Transfer], width: int
) -> None:
    table = rows(TRANSFER, moved)
    bins = Bins(100, width, 7)

    amount = spread(
        table["start"],
        table["end"],
        table["bytes"],
        group=np.zeros(len(table)),
        n_groups=1,
        bins=bins,
    )

    expected = [0.0] * bins.n
    for move in moved:
        for k in range(bins.n):
            low, high = 100 + k * width, 100 + (k + 1) * width
            if move.end > move.start:
                overlap = min(high, move.end) - max(low, move.start)
                share = max(0, overlap) / (move.end - move.start)
            else:
                is_last = k == bins.n - 1 and move.end == high
                share = float(low <= move.end < high or is_last)
            expected[k] += move.bytes * share
    assert amount[0] == pytest.approx(expected, abs=1e-3)


def test_a_transfer_counts_between_edges_at_its_end() -> None:
    moved = [
        Transfer(1, 0, TransferKind.PUSH, 0, 0, 5, 0, 10),
        Transfer(1, 0, TransferKind.PUSH, 0, 0, 7, 0, 9),
        Transfer(1, 0, TransferKind.PUSH, 0, 0, 100, 0, 30),
    ]

    links, amount = Trace(TASKS, transfers=rows(TRANSFER, moved)).bytes_between(
        np.array([0, 10, 30])
    )

    assert links == ((1, 0),)
    assert amount.tolist() == [[7.0, 5.0]]


def test_bins_too_narrow_for_memory_are_refused() -> None:
    moved = rows(TRANSFER, [Transfer(0, 1, 1, 0, 0, 5, 0, 10**12)])

    with pytest.raises(InvalidArgumentError, match="take wider ones"):
        Trace(TASKS, transfers=moved).bytes_per_link(1)


def test_sent_and_received_count_the_traffic_of_steps_only() -> None:
    totals = rows(
        TOTAL,
        [
            (1, 0, TransferKind.PUSH, 0, 500, 5),
            (0, 1, TransferKind.PULL, 0, 400, 5),
            (0, 1, TransferKind.BROADCAST, 0, 99, 1),
            (1, 2, TransferKind.REDUCE, 1, 30, 5),
        ],
    )
    trace = Trace(TASKS, (PS, RING), totals=totals)

    assert trace.sent("worker:0") == 530
    assert trace.sent("/job:worker/task:0", epoch=0) == 500
    assert trace.received("worker:0", epoch=0) == 400
    assert trace.received(1, kinds=[TransferKind.BROADCAST]) == 99


def test_a_task_that_is_not_in_the_trace_is_named_in_the_error() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'worker:7'.*ps:0, worker:0"):
        Trace(TASKS).sent("worker:7")


def test_epochs_last_from_their_first_step_to_the_next_even_without_rows() -> None:
    table = rows(STEP, [step_row(1, 14, 1.0, 8)])  # older rows were dropped
    trace = Trace(TASKS, (RING, PS), steps=table)

    assert trace.n_steps(0) == 10
    assert trace.n_steps(1) == 5
    assert trace.n_steps(2) == 0


def test_a_switch_says_what_changed() -> None:
    slow = RING._replace(number=2, link="1gbit")
    fast = slow._replace(number=3, link="")
    joined = fast._replace(number=4)

    result = Trace(TASKS, (joined, slow, PS, fast, RING)).switches()

    assert [switch.label for switch in result] == [
        "ps to ring",
        "ring at 1gbit",
        "ring at full speed",
        "ring, epoch 4",
    ]


def test_the_step_rate_counts_steps_and_not_rows() -> None:
    table = rows(STEP, [step_row(w, s, 1.0, 8) for s in range(12) for w in (1, 2)])
    trace = Trace(TASKS, (PS, RING), steps=table)

    assert trace.step_rate(0) == pytest.approx(10 / 950e-9)
    assert trace.step_rate(1) == pytest.approx(2 / 150e-9)
    assert trace.step_rate(7) == 0.0


def test_phase_time_adds_up_the_spans_of_the_chosen_steps() -> None:
    spans = [(1, Phase.WAIT, 3, 10, 25), (1, Phase.WAIT, 4, 30, 31), (2, 1, 3, 0, 9)]
    trace = Trace(TASKS, spans=rows(SPAN, spans))

    assert trace.phase_time()[1, Phase.WAIT] == 16
    assert trace.phase_time(first=4)[1, Phase.WAIT] == 1
    assert trace.phase_time(last=3)[2, Phase.COMPUTE] == 9


@pytest.mark.slow
@pytest.mark.timeout(30)  # what is quadratic in the rows takes many minutes
def test_two_hundred_thousand_rows_are_summed_up_in_linear_time() -> None:
    n = 200_000
    random = np.random.default_rng(0)
    moved = np.zeros(n, TRANSFER)
    moved["source"], moved["destination"] = random.integers(0, 3, (2, n))
    moved["start"] = np.sort(random.integers(0, 10**11, n))
    moved["end"] = moved["start"] + random.integers(0, 10**8, n)
    moved["bytes"] = 1000
    done = np.zeros(n, STEP)
    done["step"], done["examples"] = np.arange(n) // 3, 64
    trace = Trace(TASKS, transfers=moved, steps=done)

    steps, losses = trace.losses()
    links = trace.bytes_per_link(10**8)

    assert len(steps) == -(-n // 3)
    assert not losses.any()
    assert links.bytes.sum() == pytest.approx(1000 * n)
