"""The benchmarks of scaling and of many parameters, and the page with their plots."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import curves, many_parameters, page, scaling, training
from benchmarks.rank_group import RanksFailed, rank_group
from benchmarks.results import Table
from benchmarks.scaling_rank import specs
from benchmarks.tasks import Outcome
from kit.exchange.topologies.time_model import Case, CostModel, Point, Rates, Sharing
from kit.exchange.topologies.topology import by_name
from tests.benchmarking import ended

SIZE, WORDS = 12_000, ("same", "other", "written")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topology", "n_ps", "received", "messages"),
    [
        ("ring", 0, [2 * 2 * SIZE // 3] * 3, [4] * 3),
        ("mesh", 0, [2 * 2 * SIZE // 3] * 3, [4] * 3),
        ("ring-whole", 0, [2 * SIZE] * 3, [2] * 3),
        ("ps", 1, [2 * SIZE, SIZE, SIZE], [2, 1, 1]),
    ],
)
def test_what_a_step_moves_is_measured(
    topology: str, n_ps: int, received: list[int], messages: list[int]
) -> None:
    with rank_group("scaling", scaling.RANK, 3, str(n_ps)) as on:
        first, again = (
            scaling.measure(on, topology, n_ps, SIZE, n_params, steps=5)
            for n_params in (1, 7)
        )

    for result in (first, again):
        assert result.received == received
        assert result.messages == messages
        assert len(result.exchange_us) == len(result.step_us) == 5
        assert all(0 < a <= b for a, b in zip(*result[5:7], strict=True))
        assert result.memory > 3 * 1_000_000


@pytest.mark.slow
def test_step_that_moves_other_bytes_than_its_formula_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = by_name("ring-whole")
    monkeypatch.setattr(scaling, "by_name", lambda name: whole)

    with (
        rank_group("scaling", scaling.RANK, 3, "0") as on,
        pytest.raises(RanksFailed, match=r"ring, 3 workers, 12000 bytes: .* moved"),
    ):
        scaling.measure(on, "ring", 0, SIZE, steps=1)


@pytest.mark.parametrize(("n_bytes", "n_params"), [(4, 1), (4_000, 1_000), (4_004, 10)])
def test_bytes_are_dealt_out_to_all_parameters(n_bytes: int, n_params: int) -> None:
    made = specs(n_bytes, n_params)

    assert len({spec.name for spec in made}) == n_params
    assert sum(spec.n_bytes for spec in made) == n_bytes
    assert max(s.n_bytes for s in made) - min(s.n_bytes for s in made) <= 4


def points(spoil: float = 0.0) -> list[Point]:
    rates = {("mesh", sharing): Rates(1e-5, 2e-5, 3e-10, 1e-10) for sharing in Sharing}
    model, dice = CostModel(rates, 2), random.Random(1)
    cases = [Case("mesh", n, 4**k) for n in (1, 2, 3, 4) for k in range(5, 13)]
    return [
        Point(case, model.predict(case) * (1 + dice.uniform(-spoil, spoil)))
        for case in cases
    ]


def test_model_is_judged_by_points_that_it_has_not_seen() -> None:
    exact, without_error = scaling.judge(points(), 2)
    _, with_error = scaling.judge(points(0.9), 2)

    assert without_error == pytest.approx({"mesh": 0, "all": 0}, abs=1e-6)
    assert with_error["all"] > 0.05
    assert exact.rates["mesh", Sharing.NONE].alpha == pytest.approx(2e-5)


@pytest.mark.slow
def test_steps_with_many_parameters_are_compared_in_turn() -> None:
    result = many_parameters.compare((1, 50), 40_000, rounds=2)

    assert set(result) == {f"{t}, {w}" for t in ("ring", "mesh", "ps") for w in WORDS}
    assert all({1, 50} == set(took) for took in result.values())
    assert all(
        us > 0 for took in result.values() for value in took.values() for us in value
    )


@pytest.mark.slow
@pytest.mark.parametrize("sets", [2, 0])
def test_each_step_moves_all_parameters_by_the_mean_gradient(sets: int) -> None:
    with rank_group("parameters", scaling.RANK, 3, "0") as on:
        order = {"topology": "ring", "n_bytes": SIZE, "n_params": 7, "sets": sets}
        on.order(do="prepare", **order)
        on.order(do="measure", steps=5)
        result = on.order(do="parameters")

    expected = 1 - 5 * 2.0**-20  # of ones, by 2**-20 a step
    assert result == [[5, expected, expected]] * 3


@pytest.mark.parametrize("result", [(5, 1.0, 1.0), (5, 1 - 5 * 2.0**-20, 1.0)])
def test_steps_that_make_other_parameters_are_an_error(
    result: tuple[int, float, float],
) -> None:
    with pytest.raises(RanksFailed, match="5 steps with 100 parameters made them"):
        many_parameters.check(100, *result)


def test_missing_trainers_are_called_missing() -> None:
    ours = {"no exchange": [4.0], **{item: [2.0] for item in training.OURS}}

    name, workers, *cells = training.row("small", 2, ours)

    rates, peers, ratios = (
        cells[: len(ours)],
        cells[len(ours) :][:3],
        cells[len(ours) + 3 :],
    )
    assert (name, workers) == ("small", "2")
    assert rates == ["4.0", *["2.0"] * len(training.OURS)]
    assert peers == ["missing"] * 3
    assert ratios == ["0.50"] * 4 + ["-"] * (len(ratios) - 4)
    assert len(ratios) > 4


def test_asynchronous_peer_need_not_learn_in_every_half() -> None:
    flat, wanted = Outcome(1.0, [[2.0, 2.0]]), [[2.0]]

    training.check({training.TF_ASYNC: flat}, wanted)
    with pytest.raises(RanksFailed, match="tf ps sync does not learn"):
        training.check({training.TF_SYNC: flat}, wanted)


def scaling_figures() -> dict[str, Any]:
    result = [
        scaling.Measured(
            *("mesh", n, 0, size, 1, [size / 10, size / 10], [9.0]),
            *([size] * n, [2] * n, 100 * size),
        )
        for n in (1, 2)
        for size in (4096, 1024)
    ]
    rates = {"topology": "mesh", "sharing": "none"}
    return {
        "points": [item._asdict() for item in result],
        "rates": [rates | Rates(1e-6, 0.0, 1e-10, 0.0)._asdict()],
        "cores": 2,
    }


def test_scaling_is_drawn_beside_its_model() -> None:
    times, memory = curves.charts("scaling", scaling_figures())

    measured, predicted = times.lines[2:]
    assert measured == ("2 workers", [1024.0, 4096.0], [102.4, 409.6], False)
    assert predicted.is_model
    assert predicted.ys == pytest.approx([1 + 0.1024, 1 + 0.4096])
    assert memory.lines[0].ys == [102_400, 409_600]
    # Sizes are drawn from left to right.
    took = {"4096": {"copy": [2.0]}, "512": {"copy": [1.0, 3.0, 1.0]}}

    (chart,) = curves.charts("allreduce", {"microseconds": {"2": took}})

    assert chart.lines == [("copy", [512.0, 4096.0], [1.0, 2.0], False)]
    assert curves.charts("startup", {}) == []


@pytest.mark.slow
def test_page_has_all_tables_and_plots_and_asks_no_other_host(tmp_path: Path) -> None:
    assert "No results yet." in page.write(tmp_path).read_text("utf-8")
    table = Table("A <title>", ("a & b",), ("x", "y"), (("1", "two"),))
    whole = {
        "machine": {"cores": "2"},
        "table": table._asdict(),
        "figures": scaling_figures(),
    }
    (tmp_path / "scaling.json").write_text(json.dumps(whole))

    text = page.write(tmp_path).read_text("utf-8")

    assert "<title>" not in text.replace("<title>Benchmarks</title>", "")
    assert "A &amp;lt;title&amp;gt;" in text
    assert "Exchange, mesh; dashed: the cost model" in text
    assert "Memory of all tasks, mesh" in text
    assert not re.search(r"<(script|link)[^>]*(src|href)=", text)


@pytest.mark.slow
def test_scaling_writes_points_rates_and_error() -> None:
    options = "--workers 1 2 --servers 1 --sizes 1024 65536"

    figures = ended("scaling", options).figures

    points = [scaling.Measured(**figure).point for figure in figures["points"]]
    model, error = scaling.judge(points, figures["cores"])
    assert len(points) == 2 * 2 * (3 + 1)
    assert len(figures["rates"]) == len(model.rates) > 0
    assert figures["error"] == error
