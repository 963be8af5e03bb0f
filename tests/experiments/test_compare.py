"""Runs side by side: their frame, their table, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.experiments import comparison as comparing
from kit.trace.trace import distinct
from tests.cases import for_each
from tests.training.paced import Held, begin
from tests.training.toy import DATA, fit, initial, quick_cluster

STEPS = 12
SIZE = sum(value.nbytes for value in initial().values())


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, kit.Run]]:
    """Give runs of several topologies, lengths and ends, by names for them."""

    def fails(params: Any, batch: Any) -> Any:
        if fails.left == 0:  # type: ignore[attr-defined]
            raise ValueError("no more")
        fails.left -= 1  # type: ignore[attr-defined]
        return fit(params, batch)

    def telling(params: Any, batch: Any) -> Any:
        return (*fit(params, batch), {"accuracy": 0.5})

    with quick_cluster(1, 2) as cluster:
        result = {"ps": begin(cluster, steps=STEPS).wait(30)}
        result["ring"] = begin(cluster, telling, topology="ring", steps=2 * STEPS).wait(
            30
        )
        result["async"] = begin(cluster, sync=False, steps=STEPS).wait(30)
        result["none"] = begin(cluster, steps=0).wait(30)
        fails.left = 9  # type: ignore[attr-defined]
        result["failed"] = begin(cluster, fails, steps=STEPS)
        with pytest.raises(kit.errors.StepFailed):
            result["failed"].wait(30)
        yield result


@pytest.mark.slow
def test_the_frame_has_each_step_of_each_run_with_its_bytes(
    runs: dict[str, kit.Run],
) -> None:
    frame = kit.compare(runs["ps"], runs["ring"], runs["none"]).frame()

    ps, ring = frame[frame["run"] == "ps"], frame[frame["run"] == "ring"]
    assert len(frame) == 3 * STEPS
    assert ps["step"].tolist() == list(range(STEPS))
    assert ps["bytes"].tolist() == [4 * SIZE * (k + 1) for k in range(STEPS)]
    assert ring["bytes"].tolist() == [2 * SIZE * (k + 1) for k in range(2 * STEPS)]
    assert ps["loss"].tolist() == [metric["loss"] for metric in runs["ps"].metrics]
    assert ps["loss"].tolist() == ring["loss"].tolist()[:STEPS]  # the same bits
    assert (ring["accuracy"] == 0.5).all()
    assert ps["accuracy"].isna().all()
    assert (np.diff(ring["seconds"]) > 0).all()


@pytest.mark.slow
def test_the_table_has_a_row_for_each_run_however_it_went(
    runs: dict[str, kit.Run],
) -> None:
    table = kit.compare(*runs.values(), names=runs).table()

    assert table.index.tolist() == list(runs)
    assert table.loc["ps", "bytes_per_step"] == 4 * SIZE
    assert table.loc["ring", "bytes_per_step"] == 2 * SIZE
    assert table.loc["async", "topology"] == "ps-async"
    assert table.loc["async", "bytes_per_step"] == pytest.approx(2 * SIZE, rel=0.4)
    assert table.loc["none", "steps"] == 0
    assert table.loc["failed", "state"] == "failed"
    assert table.loc["failed", "steps"] == runs["failed"].step < STEPS
    assert "no more" in str(table.loc["failed", "error"])
    seconds = runs["ps"].frame()["seconds"]
    assert table.loc["ps", "ms_per_step"] == pytest.approx(1e3 * seconds.median())


@pytest.mark.slow
def test_a_comparison_is_readable_as_text_and_as_html(runs: dict[str, kit.Run]) -> None:
    result = kit.compare(runs["ps"], runs["failed"], names=["<a>", "b"])

    lines = [line.split()[0] for line in repr(result).splitlines()]
    assert lines == ["run", "<a>", "b", "they"]  # used other numbers of examples
    assert "no more" in repr(result)
    assert '<th scope="row">&lt;a&gt;</th>' in result._repr_html_()


@pytest.mark.slow
def test_a_run_that_goes_on_is_compared_as_it_is_then() -> None:
    step = Held()
    with quick_cluster(1, 2) as cluster:
        done = begin(cluster, steps=3).wait(30)
        live = begin(cluster, step, steps=5)
        result = kit.compare(done, live)

        before = result.table()
        step.go.set()
        live.wait(30)

        assert before["steps"].tolist() == [3, 0]
        assert before["state"].tolist() == ["done", "running"]
        assert result.table()["steps"].tolist() == [3, 5]
        assert result.names == ("ps", "ps (2)")


@pytest.mark.slow
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    runs: dict[str, kit.Run],
) -> None:
    ps = runs["ps"]
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: kit.compare(), "two runs or more"),
        (lambda: kit.compare(ps), "1 run;"),
        (lambda: kit.compare([ps, ps]), r"kit\.compare\(\*runs\)"),  # type: ignore[arg-type]
        (lambda: kit.compare(ps, ps.trace), "was given Trace"),  # type: ignore[arg-type]
        (lambda: kit.compare(ps, ps, names=["a"]), "for 2 runs"),
        (lambda: kit.compare(ps, ps, names="ab"), "for 2 runs"),
        (lambda: kit.compare(ps, ps, names=["a", 1]), "a text for each"),  # type: ignore[list-item]
    ]
    for call, said in wrong:
        with pytest.raises(InvalidArgumentError, match=said):
            call()


@pytest.mark.slow
def test_without_what_draws_it_a_comparison_says_what_to_do(
    runs: dict[str, kit.Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "view", lambda name: None)

    with pytest.raises(FailedPreconditionError, match="pip install"):
        kit.compare(runs["ps"], runs["ring"]).save("never.html")


@for_each(
    ("names", "expected"),
    [
        (["a", "a", "a"], ["a", "a (2)", "a (3)"]),
        (["a (2)", "a", "a"], ["a (2)", "a", "a (3)"]),
        (["", ""], ["", " (2)"]),
    ],
)
def test_no_two_runs_have_the_same_name(names: list[str], expected: list[str]) -> None:
    assert distinct(names) == expected


@pytest.mark.slow
def test_a_resumed_curve_begins_where_the_first_one_began(tmp_path: Path) -> None:
    with quick_cluster(1, 2) as cluster:
        hook = kit.hooks.ValidationHook(fit, DATA, every=2)
        options: dict[str, Any] = {"checkpoint": tmp_path, "hooks": [hook]}
        first = begin(cluster, steps=4, **options).wait(30)
        second = begin(cluster, steps=7, **options).wait(30)
        third = begin(cluster, steps=9, **options).wait(30)
        whole = begin(cluster, steps=9, hooks=[hook]).wait(30)

    result = kit.compare(third, whole, names=["resumed", "whole"])
    frame = result.frame()
    resumed, at_once = (frame[frame["run"] == name] for name in result.names)
    assert resumed["step"].tolist() == [*range(9)]
    for column in ("loss", "bytes"):
        assert resumed[column].tolist() == at_once[column].tolist()
    measured, here = (
        item.set_index("step")["validation_loss"].dropna()
        for item in (resumed, at_once)
    )
    # The end of the second was measured, too.
    assert measured.drop(6).to_dict() == here.to_dict()
    assert (np.diff(resumed["seconds"]) > 0).all()
    assert third.frame()["loss"].tolist() == whole.frame()["loss"].tolist()
    assert second.frame()["validation_loss"].dropna().index.tolist() == [1, 3, 5, 6]
    assert first.frame().index.tolist() == [*range(4)]
    # What moved in each step is of the steps that this run made.
    assert result.table()["bytes_per_step"].tolist() == [4 * SIZE] * 2


@pytest.mark.slow
def test_the_ending_of_a_name_says_what_is_written(
    runs: dict[str, kit.Run], tmp_path: Path
) -> None:
    comparison = kit.compare(runs["ps"], runs["ring"])
    for name in ("figure.jpg", "figure", "page.svgz"):
        with pytest.raises(InvalidArgumentError, match=r"ends in \.svg, \.pdf, \.png"):
            comparison.save(tmp_path / name)
    pytest.importorskip("matplotlib")
    begins = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}
    for suffix, begin_of_file in begins.items():
        comparison.save(tmp_path / f"figure{suffix}", along="examples")
        assert (tmp_path / f"figure{suffix}").read_bytes().startswith(begin_of_file)
    with pytest.raises(InvalidArgumentError, match="no 'los' along"):
        comparison.save(tmp_path / "figure.svg", measure="los")
