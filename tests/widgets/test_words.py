from __future__ import annotations

import numpy as np
import pytest

from kit.trace.trace import Trace
from tests.cases import for_each
from tests.widgets.traces import toggled
from widgets.drawing import figure_data, words


@pytest.fixture(scope="module")
def trace() -> Trace:
    return toggled(("ps", "ring"), steps=20)


def test_the_loss_is_told_with_its_ends_and_switches(trace: Trace) -> None:
    steps, values = trace.losses()

    text = words.loss(trace)

    assert f"from {values[0]:.3g} at step 0" in text
    assert f"to {values[-1]:.3g} at step {steps[-1]}" in text
    assert text.endswith("Changes on the way: ps to ring at step 20.")


def test_many_switches_are_counted_after_the_sixth() -> None:
    text = words.loss(toggled(("ps", "ring") * 5, steps=1))

    assert text.endswith("ps to ring at step 5, ring to ps at step 6 and 3 more.")


def test_the_busiest_link_is_named_and_a_sum_of_links_is_not() -> None:
    lines = figure_data.links(toggled(("ps", "ring"), steps=9, n_workers=6), most=4)

    text = words.links(lines)

    assert figure_data.OTHERS not in text
    assert all(name in text for name in list(lines)[:3])


def test_few_bytes_in_a_long_time_are_no_powers_of_ten() -> None:
    line = {"second": np.array([0.0, 10.0]), "rate": np.array([6e-6, 0.0])}

    assert "a -> b (6 B/s) on average" in words.links({"a -> b": line})


def test_shares_of_time_are_those_of_the_spans(trace: Trace) -> None:
    view = figure_data.window(trace)

    text = words.timeline(trace, view)

    spent = trace.phase_time(view.first_step, view.last_step)[1:].sum(axis=0)
    assert "Steps 18 to 21, around the switch from ps to ring." in text
    assert f"worker computed {100 * spent[1] / spent.sum():.0f}\u00a0%" in text


@for_each(
    ("formulas", "said"),
    [
        ({"ps:0": (1_800_000, 1_800_000)}, ["All 2 measured values equal the formula"]),
        (
            {"ps:0": (1_800_000, 1_799_999)},
            ["1 of 2 measured values equal", "largest difference is 1 bytes"],
        ),
        ({}, ["No formula was given"]),
    ],
)
def test_bytes_are_compared_with_the_formula(
    trace: Trace, formulas: dict[str, tuple[int, int]], said: list[str]
) -> None:
    text = words.volume(figure_data.volume(trace, {"ps": formulas}))

    assert all(part in text for part in said)


def test_nothing_recorded_is_said_so() -> None:
    trace = Trace(("/job:ps/task:0",))

    texts = [
        words.loss(trace),
        words.links({}),
        words.timeline(trace, figure_data.window(trace)),
        words.volume(figure_data.volume(trace, {})),
    ]
    assert set(texts) == {"Nothing was recorded for this figure."}
