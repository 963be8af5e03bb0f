"""What a step function tells beside its loss, from the step to the saved trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import StepFailed
from kit.trace.trace import Trace
from kit.training.worker.worker import named
from tests.cases import for_each
from tests.training.paced import begin
from tests.training.toy import (
    BATCH,
    Params,
    X,
    fit,
    initial,
    quick_cluster,
    replayed,
    rows,
    same_bits,
    share,
    telling,
)

STEPS = 8


def one_by_one(params: Params, batch: Any) -> Any:
    loss, gradients = fit(params, batch)
    yield from gradients.items()
    return loss, {"accuracy": share(batch[0])}


def in_place(params: Params, batch: Any, grads: Any) -> Any:
    loss, gradients = fit(params, batch)
    for name, value in gradients.items():
        grads[name][...] = value
    return loss, None, {"accuracy": share(batch[0])}


@pytest.fixture(scope="module")
def runs() -> tuple[kit.Run, kit.Run]:
    """A training that tells its loss alone, and one that tells more."""
    with quick_cluster(1, 2) as cluster:
        silent, tells = (
            begin(cluster, step, steps=STEPS).wait(30) for step in (fit, telling)
        )
    return silent, tells


@pytest.mark.parametrize("step", [telling, one_by_one, in_place])
def test_a_measure_is_the_mean_over_the_whole_mini_batch(step: Any) -> None:
    with quick_cluster(1, 3) as cluster:  # ten examples: 4, 3 and 3
        run = begin(cluster, step, steps=STEPS).wait(30)

    steps, values = run.trace.measured("accuracy")
    assert steps.tolist() == list(range(STEPS))
    assert values == pytest.approx([share(X[rows(s)]) for s in range(STEPS)])
    assert same_bits(run.params, replayed(STEPS, 3, kit.GradientDescent()))


def test_measures_move_no_byte_between_the_tasks(runs: tuple[kit.Run, kit.Run]) -> None:
    silent, reply = runs

    assert np.array_equal(reply.trace.totals, silent.trace.totals)
    assert len(silent.trace.measures) == 0
    assert len(reply.trace.measures) == 2 * 2 * STEPS


def test_who_tells_nothing_keeps_no_log() -> None:
    with quick_cluster(1, 2) as cluster:
        begin(cluster, steps=2).wait(30)
        meters = [
            member.meter
            for server in cluster.servers
            if (member := server.trainings.member) is not None
        ]

    assert len(meters) == 3
    assert [meter.measures for meter in meters] == [None] * 3


def test_each_asynchronous_update_tells_its_own() -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, telling, steps=20, sync=False).wait(30)

    steps, values = run.trace.measured("n")
    assert steps.tolist() == list(range(20))
    assert values.tolist() == [BATCH / 2] * 20


def test_measures_are_columns_of_the_frame(runs: tuple[kit.Run, kit.Run]) -> None:
    pytest.importorskip("pandas")

    frame = runs[1].frame()

    assert frame["accuracy"].tolist() == pytest.approx(
        [share(X[rows(s)]) for s in range(STEPS)]
    )
    assert set(frame["n"]) == {BATCH / 2}
    assert "loss" in frame


def test_a_measure_hides_no_column_of_the_frame() -> None:
    pytest.importorskip("pandas")

    def telling(params: Params, batch: Any) -> Any:
        return (*fit(params, batch), {"loss": 7.0, "topology": 8.0, "step": 9.0})

    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, telling, steps=2).wait(30)
        plain = begin(cluster, fit, steps=2).wait(30)

    result, expected = run.frame(), plain.frame()
    same = ["loss", "topology", "examples", "contributors"]
    assert result[same].equals(expected[same])
    assert result.index.tolist() == [0, 1]
    more = result.drop(columns=[*expected.columns])
    assert more.iloc[0].to_dict() == {
        "loss (2)": 7.0,
        "step (2)": 9.0,
        "topology (2)": 8.0,
    }


def test_a_saved_trace_keeps_them_and_one_of_before_has_none(
    runs: tuple[kit.Run, kit.Run], tmp_path: Path
) -> None:
    run, path = runs[1], tmp_path / "run.json"
    run.trace.save(path)

    assert np.array_equal(Trace.load(path).measures, run.trace.measures)
    document = json.loads(path.read_text())
    del document["psring"]["measures"]
    path.write_text(json.dumps(document))
    assert len(Trace.load(path).measures) == 0
    assert np.array_equal(Trace.load(path).spans, run.trace.spans)


def test_a_nan_is_kept_as_it_is(tmp_path: Path) -> None:
    def unsure(params: Params, batch: Any) -> Any:
        return (*fit(params, batch), {"accuracy": float("nan")})

    with quick_cluster(1, 1) as cluster:
        run = begin(cluster, unsure, steps=2).wait(30)
    run.trace.save(tmp_path / "run.json")

    _, values = Trace.load(tmp_path / "run.json").measured("accuracy")
    assert np.isnan(values).tolist() == [True, True]


@for_each(
    ("result", "said"),
    [
        ([0.5], r"gave \[0.5\] besides loss and gradients; give a dict"),
        ({f"m{i}": 1.0 for i in range(17)}, "17 of them"),
        ({"": 1.0}, "called ''"),
        ({"a" * 33: 1.0}, "1 to 32"),
        ({3: 1.0}, "called 3"),
        ({"a\0": 1.0}, r"called 'a\\x00'; .* printable"),  # a row cuts zeros off
        ({"\ud800": 1.0}, "printable"),
        ({"a\nb": 1.0}, "printable"),
        ({"accuracy": "good"}, "gave 'good' as 'accuracy'"),
        ({"accuracy": np.ones(2)}, "the mean over this worker's examples"),
    ],
)
def test_what_is_no_measure_is_named(result: Any, said: str) -> None:
    with pytest.raises(StepFailed, match=f"worker:1, step 7: .*{said}"):
        named("worker:1", 7, result)


def test_a_bad_measure_stops_the_training_and_changes_nothing() -> None:
    def bad(params: Params, batch: Any) -> Any:
        return (*fit(params, batch), {"accuracy": None})

    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, bad)
        with pytest.raises(StepFailed, match="None as 'accuracy'"):
            run.wait(30)

    assert run.step == 0
    assert same_bits(run.params, initial())
