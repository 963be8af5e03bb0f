"""Recordings of earlier versions: each can still be loaded, and replayed to the bit.

They lie in `tests/recording/kept`, one file for each kind of training, with the data,
digests after every step and the last parameters. Whatever changes, these stay as they
are: that is how a recording stays readable for good. A new kind gets a new file, by

    python -m tests.recording.test_kept_recordings NAME

which trains as `KINDS` says. What the replay compares comes from the training alone.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import kit
from kit.task import Task
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from tests.elastic.scene import kill
from tests.recording import kept_model as model
from tests.training.toy import quick_cluster

FOLDER: Final = Path(__file__).parent / "kept"
STEPS: Final = 24
LAST: Final = Task("worker", 2)  # the process that is lost


class Kind(NamedTuple):
    """A training: its epochs, what `kit.train` gets, its tasks, and what happens."""

    epochs: str
    options: dict[str, Any]
    step: Any = model.fit
    ps: int = 1
    worker: int = 3
    happens: Callable[[Any, kit.Run], None] = lambda cluster, run: None
    processes: bool = False


def _switches(_: Any, run: kit.Run) -> None:
    run.switch("ring", at=6)
    run.switch("ps", synchronous=False, at=12)
    run.switch("mesh", synchronous=True, at=18)


def _gossips(_: Any, run: kit.Run) -> None:
    run.switch("gossip", at=6)
    run.switch("ring", at=18)


def _loses(cluster: Any, run: kit.Run) -> None:
    kill(cluster, run, LAST, 8)


def _comes_back(cluster: Any, run: kit.Run) -> None:
    kill(cluster, run, LAST, 8)
    cluster[LAST].wait_for_death(30)
    until(lambda: run.lost)
    cluster.restart_dead()
    cluster.join(run, LAST)
    until(lambda: run.trace.epochs[-1].joined and not run.lost)
    after = run.step
    until(lambda: run.step > after + 10)
    run.stop()


def _comes_back_first(cluster: Any, run: kit.Run) -> None:
    """Lose a worker whose push counts in the first step after its return."""
    _comes_back(cluster, run)
    epoch = run.trace.epochs[-1]
    rows = run.trace.steps
    first = rows[(rows["step"] == epoch.first_step) & np.isfinite(rows["loss"])]
    assert run.job.tasks.index(LAST) in first["task"], "make it once more"


PS: Final = {"topology": "ps"}
RING: Final = {"topology": "ring"}
ADAM: Final = {"optimizer": kit.Adam(0.01)}
MOMENTUM: Final = {"optimizer": kit.Momentum(0.002)}
FIRST_TWO: Final = {**PS, "aggregate": 2, **MOMENTUM}
ASYNC: Final = {**PS, "sync": False}
ELASTIC: Final = {"elastic": True, **ADAM}
LOCAL: Final = {"local_steps": 2, "outer": kit.Momentum(0.5), **ADAM}
KINDS: Final = {
    "ps": Kind("ps", {**PS, **ADAM}, ps=2),
    "ring": Kind("ring", {**RING, **ADAM}, ps=0),
    "switches": Kind(
        "ps ring ps-async mesh", {**PS, **ADAM}, model.slowly, happens=_switches
    ),
    "async": Kind("ps-async", {**ASYNC, **ADAM}),
    "async-two-servers": Kind("ps-async", {**ASYNC, **MOMENTUM}, ps=2),
    "first-two": Kind("ps", FIRST_TWO, model.keeping, ps=2),
    "local-steps": Kind(
        "ps gossip ring", {**PS, **LOCAL}, model.slowly, happens=_gossips
    ),
    "pieces": Kind("ring", {**RING, "accumulate": 2, **MOMENTUM}, ps=0, worker=2),
    "compressed": Kind(
        *("ps ring", {**PS, "compress": kit.TopK(0.5), **MOMENTUM}, model.slowly),
        happens=lambda _, run: run.switch("ring", at=12),
    ),
    "elastic-loss": Kind(
        *("ring ring", {**RING, **ELASTIC}, model.slowly),
        ps=0,
        happens=_loses,
        processes=True,
    ),
    "elastic-async-loss": Kind(
        *("ps-async ps-async", {**ASYNC, "steps": 60, **ELASTIC}, model.slowly),
        happens=_loses,
        processes=True,
    ),
    "first-two-returns": Kind(
        *("ps ps", {**FIRST_TWO, "steps": 10_000}, model.slowly),
        happens=_comes_back,
        processes=True,
    ),
    "first-two-returns-first": Kind(
        *("ps ps", {**FIRST_TWO, "steps": 10_000}, model.slowly),
        happens=_comes_back_first,
        processes=True,
    ),
}


# They were made on another processor; what they compute is the same on all.
@pytest.mark.filterwarnings("ignore:the replay of .* may have other bits")
@pytest.mark.parametrize("name", sorted(KINDS))
def test_recording_of_an_earlier_version_is_replayed_to_the_bit(
    name: str, tmp_path: Path
) -> None:
    shutil.unpack_archive(FOLDER / f"{name}.zip", tmp_path)
    kind = KINDS[name]

    loaded = kit.load_run(tmp_path)
    result = kit.replay(loaded, step=kind.step)  # raises at the first other bit

    rows = result.content.tables["STEP"]
    counted = rows[(rows["examples"] > 0) & np.isfinite(rows["loss"])]
    shares = {(int(row["step"]), int(row["task"])) for row in counted}
    is_asynchronous = not kind.options.get("sync", True)
    assert [row.topology for row in loaded.trace.epochs] == kind.epochs.split()
    assert result.step == loaded.step == result.content.n_done >= STEPS
    assert result.content.final is not None
    assert result.n_losses == len(shares)
    assert result.n_digests >= (0 if is_asynchronous else STEPS)


def make(name: str) -> None:
    """Train as a kind says, and put the recording into its place."""
    kind, path = KINDS[name], FOLDER / name
    shutil.rmtree(path, ignore_errors=True)
    cluster_of = process_cluster if kind.processes else quick_cluster
    with tempfile.TemporaryDirectory(prefix="kit-kept-") as parent:
        folder = Path(parent) / name
        wanted = kit.Recording(
            folder, store_data=True, digest_every=1, state_every_s=0.1, message_bytes=1
        )
        options = {"steps": STEPS, "batch": model.BATCH, **kind.options}
        with cluster_of(ps=kind.ps, worker=kind.worker) as cluster:
            run = kit.train(
                kind.step,
                model.initial(),
                model.data(),
                cluster=cluster,
                record=wanted,
                **options,
            )
            kind.happens(cluster, run)
            run.wait(60)
            assert run.params
        for file in folder.glob("messages-*"):  # the replay needs none of them
            file.unlink()
        shutil.make_archive(str(path), "zip", folder)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or KINDS:
        make(chosen)
