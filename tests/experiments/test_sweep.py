"""A sweep: which combinations are run, what is kept of them, and how it is stopped."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kit
from kit.cluster.polling import Polling
from kit.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    VersionMismatch,
)
from kit.experiments import sweep as sweeping
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.training.paced import begin
from tests.training.toy import BATCH, fit, quick_cluster

STEPS = 4
pytestmark = pytest.mark.lasting("descriptor")  # of the cluster's trainings


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with quick_cluster(1, 2) as result:
        yield result


class Trainer:
    """The function of a user: it trains, and remembers with what."""

    def __init__(self, cluster: LocalCluster, step: Any = fit) -> None:
        self.cluster, self.step, self.calls = cluster, step, list[tuple[str, int]]()

    def __call__(self, topology: str, batch: int) -> kit.Run:
        self.calls.append((topology, batch))
        asked = {"topology": topology, "batch": batch, "steps": STEPS}
        return begin(self.cluster, self.step, **asked)


def never(**options: Any) -> Any:
    raise AssertionError("nothing should be run")


def driven(polling: Polling[kit.Sweep], is_time: Callable[[], bool]) -> kit.Sweep:
    """Drive a sweep to its end, and press the stop button once when it is time."""
    is_pressed = False
    try:
        pause_s = next(polling)
        while True:
            threading.Event().wait(pause_s)
            if is_time() and not is_pressed:
                is_pressed = True
                pause_s = polling.throw(KeyboardInterrupt())
            else:
                pause_s = next(polling)
    except StopIteration as end:
        assert is_pressed
        result: kit.Sweep = end.value
        return result


def swept(train: Any, folder: Path | None = None, **more: Any) -> kit.Sweep:
    grid: dict[str, Any] = {"topology": ["ps", "ring"], "batch": [BATCH, 6]} | more
    return kit.sweep(train, folder=folder, **grid)


def file_of(folder: Path, **parameters: Any) -> Path:
    """Return the file of a combination in a sweep's folder."""
    for path in folder.glob("*.json"):
        if json.loads(path.read_text()).get("parameters") == parameters:
            return path
    raise AssertionError(f"{folder} has no file of {parameters}")


@pytest.mark.slow
def test_each_combination_is_run_once_in_order_and_has_a_row(
    cluster: LocalCluster,
) -> None:
    train = Trainer(cluster)

    result = swept(train)

    frame = result.frame()
    assert train.calls == [("ps", 10), ("ps", 6), ("ring", 10), ("ring", 6)]
    assert frame[["topology", "batch"]].values.tolist() == [
        [*call] for call in train.calls
    ]
    assert (frame["state"] == "done").all()
    assert (frame["steps"] == STEPS).all()
    moved = frame["bytes_per_step"].tolist()
    assert moved == [2 * moved[2], 2 * moved[2], moved[2], moved[2]]
    assert result.compare().names == tuple(f"{a}, batch={b}" for a, b in train.calls)


@pytest.mark.slow
def test_a_second_call_runs_only_what_is_not_done(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = swept(Trainer(cluster), tmp_path)
    file_of(tmp_path, topology="ring", batch=BATCH).unlink()  # as if killed meanwhile
    capsys.readouterr()
    train = Trainer(cluster)

    again = swept(train, tmp_path)

    assert train.calls == [("ring", 10)]
    assert "3 of 4 combinations are done" in capsys.readouterr().out
    assert "3 of them found in" in repr(again)
    for name in ("loss", "bytes_per_step", "steps"):
        assert again.frame()[name].tolist() == first.frame()[name].tolist()
    with pytest.raises(FailedPreconditionError, match="1 of 4 runs are in memory"):
        again.compare()
    assert swept(never, tmp_path).best("loss") == first.best("loss")


@pytest.mark.slow
def test_a_combination_that_fails_is_told_and_ends_no_other(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    def train(topology: str, batch: int) -> Any:
        if topology == "ring" and batch == 6:
            return "no run"
        return begin(cluster, topology=topology, batch=batch, steps=STEPS)

    result = kit.sweep(
        train, topology=["rign", "ring"], batch=[BATCH, 6], folder=tmp_path
    )

    frame = result.frame()
    assert frame["state"].tolist() == ["failed", "failed", "done", "failed"]
    assert "rign" in frame["error"][0]
    assert "returned str" in frame["error"][3]
    assert result.best() == {"topology": "ring", "batch": BATCH}
    kept = json.loads(file_of(tmp_path, topology="rign", batch=BATCH).read_text())
    assert kept["state"] == "failed"
    with pytest.raises(InvalidArgumentError, match="rign") as caught:
        kit.sweep(train, topology="rign", batch=BATCH, on_error="raise")
    assert "combination topology=rign" in str(caught.value.__notes__)


@pytest.mark.slow
def test_a_run_that_fails_keeps_the_row_of_the_steps_that_it_made(
    cluster: LocalCluster,
) -> None:
    def train(fails_at: int) -> kit.Run:
        left = [2 * fails_at]  # two workers

        def step(params: Any, batch: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise ValueError("enough")
            return fit(params, batch)

        return begin(cluster, step, steps=STEPS)

    frame = kit.sweep(train, fails_at=[2, 9]).frame()

    assert frame["state"].tolist() == ["failed", "done"]
    assert frame["steps"].tolist()[1] == STEPS
    assert "enough" in frame["error"][0]


@pytest.mark.slow
def test_the_stop_button_ends_the_run_between_two_steps_and_keeps_the_rest(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    runs: list[kit.Run] = []

    def train(batch: int) -> kit.Run:
        many = STEPS if batch == BATCH else 1_000_000
        runs.append(begin(cluster, batch=batch, steps=many))
        return runs[-1]

    polling = sweeping._polling(
        train, 1, tmp_path, "record", {"batch": [BATCH, 6, 4]}, is_async=False
    )
    result = driven(polling, lambda: len(runs) == 2 and runs[1].step > 0)

    assert [trial.state for trial in result.trials] == ["done", "stopped", "waiting"]
    assert runs[1].state == "done"
    assert runs[1].error is None
    assert 0 < result.frame()["steps"][1] < 1_000_000
    assert result.count() == "1 of 3 combinations done, 1 stopped, 1 waiting"
    assert json.loads(file_of(tmp_path, batch=6).read_text())["state"] == "stopped"
    assert len([*tmp_path.glob("*.json")]) == 3  # with the one about all


@pytest.mark.slow
def test_a_sweep_can_be_awaited_with_an_async_function(cluster: LocalCluster) -> None:
    async def train(batch: int) -> kit.Run:
        return await begin(cluster, batch=batch, steps=STEPS)

    result = asyncio.run(kit.sweep_async(train, batch=[BATCH, 6]))

    assert (result.frame()["state"] == "done").all()
    with pytest.raises(InvalidArgumentError, match="sweep_async"):
        kit.sweep(train, batch=[BATCH])
    hidden = kit.sweep(lambda batch: train(batch), batch=[BATCH])
    assert "sweep_async" in hidden.frame()["error"][0]


@pytest.mark.slow
def test_repeats_are_numbered_and_the_best_is_that_of_their_median(
    cluster: LocalCluster,
) -> None:
    seeds = []

    def train(rate: float, repeat: int) -> kit.Run:
        seeds.append(repeat)
        how = {"optimizer": kit.GradientDescent(rate), "seed": repeat}
        return begin(cluster, steps=STEPS, **how)

    result = kit.sweep(train, rate=[0.0, 0.05], repeat=3)

    assert seeds == [0, 1, 2] * 2
    assert result.frame()["repeat"].tolist() == seeds
    assert result.best("loss") == {"rate": 0.05}
    assert result.best("loss", most=True) == {"rate": 0.0}
    with pytest.raises(InvalidArgumentError, match="'los'; there are"):
        result.best("los")


@for_each(
    ("grid", "said"),
    [
        ({"batch": [1]}, "missing a required argument: 'topology'"),
        ({"topology": ["ps"], "batch": [1], "x": [1]}, "unexpected keyword argument"),
        ({"topology": [], "batch": 1}, "topology is empty"),
        ({"topology": "ps", "batch": [1, 2, 1]}, "a value twice"),
        ({"topology": "ps", "batch": [kit.Adam(0.1)]}, "can be written down"),
        ({"topology": "ps", "batch": [float("nan")]}, "finite numbers"),
        ({"topology": "ps", "batch": {}.keys}, "give a list"),
        ({"topology": "ps", "batch": 1, "loss": [1]}, "cannot be called 'loss'"),
        ({"topology": "ps", "batch": 1, "repeat": 0}, "repeat is 0"),
        ({"topology": "ps", "batch": 1, "repeat": "x"}, "repeat is 'x'"),
        ({"topology": "ps", "batch": 1, "on_error": "skip"}, "'record' or 'raise'"),
        ({"topology": "ps", "batch": range(10_001)}, "at most 10,000"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_before_anything_is_run(
    grid: dict[str, Any], said: str
) -> None:
    def train(topology: str, batch: int) -> Any:
        raise AssertionError("it was run")

    with pytest.raises(InvalidArgumentError, match=said):
        kit.sweep(train, **grid)


@pytest.mark.slow
def test_a_folder_grows_by_values_seeds_and_parameters(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    calls: list[tuple[int, float, int]] = []

    def train(batch: int, rate: float = 0.05, repeat: int = 0) -> kit.Run:
        calls.append((batch, rate, repeat))
        optimizer = kit.GradientDescent(rate)
        return begin(
            cluster, steps=STEPS, batch=batch, seed=repeat, optimizer=optimizer
        )

    kit.sweep(train, batch=[4], folder=tmp_path)
    kit.sweep(train, batch=[4, 8], repeat=2, folder=tmp_path)
    kit.sweep(train, batch=[4], rate=[0.0], folder=tmp_path)
    everything = kit.load_sweep(tmp_path)

    assert calls == [(4, 0.05, n) for n in (0, 1)] + [
        (8, 0.05, 0),
        (8, 0.05, 1),
        (4, 0.0, 0),
    ]
    frame = everything.frame()
    assert (len(frame), {*frame["state"]}) == (5, {"done"})
    assert everything.best("loss", most=True) == {"batch": 4, "rate": 0.0}


@pytest.mark.slow
def test_combinations_are_compared_at_the_same_number_of_examples(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    losses = {4: [8.0, 6.0, 4.0, 2.0], 8: [7.0, 5.0, 3.0, 1.0]}

    def train(batch: int, repeat: int) -> kit.Run:
        def step(params: Any, data: Any, rng: Any) -> Any:
            step.done += 1  # type: ignore[attr-defined]
            number = (step.done - 1) // 2  # type: ignore[attr-defined]
            return losses[batch][number] + repeat, fit(params, data)[1]

        step.done = 0  # type: ignore[attr-defined]
        return begin(cluster, step, steps=STEPS, batch=batch, topology="ring")

    options: dict[str, Any] = {"batch": [4, 8], "repeat": 2}
    for result in (
        kit.sweep(train, folder=tmp_path, **options),
        kit.sweep(never_twice, folder=tmp_path, **options),
        kit.load_sweep(tmp_path),
    ):
        # After 16 examples: the last loss of one, the second one of the other.
        assert result.frame()["examples"].tolist() == [16, 16, 32, 32]
        assert "used 16 to 32 examples" in repr(result)
        assert result.best("loss") == {"batch": 4}
        bands = result.bands(along="examples")
        wide = bands[bands["run"] == "batch=8"]
        assert wide["examples"].tolist() == [8, 16, 24, 32]
        assert wide["mean"].tolist() == [7.5, 5.5, 3.5, 1.5]
        spread = np.std([0, 1], ddof=1)
        assert np.allclose(wide["high"] - wide["mean"], spread)
        assert np.allclose(wide["mean"] - wide["low"], spread)
    with pytest.raises(InvalidArgumentError, match="no 'accuracy' along 'step'"):
        result.bands("accuracy")


def never_twice(batch: int, repeat: int) -> Any:
    raise AssertionError("it is done")


@for_each(
    ("name", "text", "error"),
    [
        ("sweep.json", "{", DataLossError),
        ("sweep.json", "[]", DataLossError),
        ("sweep.json", '{"format": 1}', VersionMismatch),
        ("one", "nonsense", DataLossError),
        ("one", '{"parameters": {"batch": 1}, "result": 3}', DataLossError),
        ("one", "\udcff", DataLossError),
    ],
)
def test_a_damaged_file_of_a_folder_is_named(
    name: str, text: str, error: type[Exception], tmp_path: Path
) -> None:
    folder = tmp_path / str(abs(hash((name, text))))
    kit.sweep(lambda batch: None, batch=[1], folder=folder)
    name = file_of(folder, batch=1).name if name == "one" else name
    (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))

    where = name if error is DataLossError else str(folder)
    with pytest.raises(error, match=re.escape(where)):
        kit.sweep(never, batch=[1], folder=folder)


def test_a_number_that_is_not_known_comes_back_from_the_folder_as_nan(
    tmp_path: Path,
) -> None:
    kit.sweep(lambda batch: None, batch=[1], folder=tmp_path)
    path = file_of(tmp_path, batch=1)
    kept = json.loads(path.read_text()) | {"state": "done", "result": {"loss": None}}
    path.write_text(json.dumps(kept))

    result = kit.sweep(never, batch=[1], folder=tmp_path)

    assert np.isnan(result.frame()["loss"][0])


def test_nothing_is_best_of_a_sweep_in_which_all_failed() -> None:
    result = kit.sweep(lambda batch: None, batch=[1, 2])

    calls: list[tuple[Callable[[], object], str]] = [
        (result.best, "none of 2"),
        (result.compare, "0 of 2"),
    ]
    for call, said in calls:
        with pytest.raises(FailedPreconditionError, match=said):
            call()


@pytest.mark.slow
def test_a_table_comes_back_from_parquet_as_it_was(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    frame = swept(Trainer(cluster)).frame()

    frame.to_parquet(tmp_path / "sweep.parquet")

    assert pd.read_parquet(tmp_path / "sweep.parquet").equals(frame)
