"""The benchmark of growth counts the bytes of real trainings, and computes the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import growth
from benchmarks.rank_group import RanksFailed
from kit.training.client.metrics import Entry
from tests.benchmarking import ended

DATA_BYTES = (4096 * 64 + 4096) * 8
PARAMS_BYTES = 64 * 16 * 8


def made(n: int) -> growth.Found:
    """The figures of `n` tasks, where all grows as it is computed to."""
    result: growth.Found = {"ready_s": 1.0 + n, "first_s": 2.0, "stop_s": 0.5 * n}
    result |= {
        where: {"threads": 9 + n, "descriptors": 5 * n + 55} for where in growth.WHERE
    }
    result |= {"held": 1 << 21, "sent": n * (2000 + 30 * n), "steps_a_second": 7.0}
    result |= {"news_a_step": 200.0 * n * n, "news_a_second": 1400.0 * n * n}
    return result | growth.formula("ring", n)


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.timeout(180)
def test_a_small_table_has_the_bytes_of_each_size() -> None:
    printed, figures = ended("growth", "--tasks 2 4", timeout_s=150)

    sizes = figures["growth"]
    assert set(sizes) == {"2", "4"}
    for n, result in ((int(name), item) for name, item in sizes.items()):
        assert result["gradients"] == 2 * (n - 1) * PARAMS_BYTES
        assert result["gradients_of_one"] == 2 * (n - 1) * PARAMS_BYTES / n
        assert result["times_held"] == 1
        assert DATA_BYTES < result["held"] < DATA_BYTES + 20_000
        assert 1_000 * n < result["sent"] < 20_000 * n
        assert result["news_a_step"] > 2 * n * (n - 1) * 41  # a row for each message
        assert result["notebook"]["threads"] > 1
    assert printed.count("\n| ") == 1 + 2
    assert "computed" not in printed


@pytest.mark.parametrize(
    ("topology", "of_all", "of_one"),
    [
        ("ring", 2 * 3 * PARAMS_BYTES, 2 * 3 * PARAMS_BYTES // 4),
        ("mesh", 2 * 3 * PARAMS_BYTES, 2 * 3 * PARAMS_BYTES // 4),
        ("ps", 2 * 3 * PARAMS_BYTES, 3 * PARAMS_BYTES),
    ],
)
def test_gradients_are_by_the_formula_of_the_topology(
    topology: str, of_all: int, of_one: int
) -> None:
    result = growth.formula(topology, 4)  # with ps, three are workers

    assert result == {"gradients": of_all, "gradients_of_one": of_one}


def test_many_tasks_are_computed_from_lines_and_formulas() -> None:
    result = growth.computed({n: made(n) for n in (8, 16, 32)}, 1000, "ring")

    expected = made(1000) | {"steps_a_second": 1.0}
    expected["news_a_second"] = expected["news_a_step"]
    for where in growth.WHERE:
        assert result.pop(where) == pytest.approx(expected.pop(where))
    assert result == pytest.approx(expected)


def test_noise_makes_nothing_computed_smaller_than_it_was_measured() -> None:
    result = {n: made(n) | {"stop_s": 3.0 - n / 16} for n in (8, 16, 32)}

    assert growth.computed(result, 1000, "ring")["stop_s"] == 1.0


def test_the_computed_row_needs_sizes_that_are_large_enough() -> None:
    small = growth.table({n: made(n) for n in (2, 4)}, "ring")
    large = growth.table({n: made(n) for n in (8, 32)}, "ring")

    assert [row[0] for row in small.rows] == ["2", "4"]
    assert [row[0] for row in large.rows] == ["8", "32", "1,000 (computed)"]
    assert {len(row) for row in large.rows} == {len(large.head)}
    cells = dict(zip(large.head, large.rows[-1], strict=True))
    assert cells["gradients KiB a step"] == cells["by formula"] == "15,984.0"
    assert cells["threads: notebook, controller, leader, task"].startswith("1,009, ")


def test_steps_that_move_other_bytes_than_by_formula_are_an_error() -> None:
    run: Any = SimpleNamespace(
        traffic=[Entry(1, "ring", "worker:0", 5, 80, 80, 80, 80)]
    )
    assert growth.gradients_of(run) == {"gradients": 16.0, "gradients_of_one": 16.0}

    run.traffic.append(Entry(1, "ring", "worker:1", 5, 80, 75, 80, 80))
    with pytest.raises(RanksFailed, match=r"not by formula: ring .*worker:1"):
        growth.gradients_of(run)
