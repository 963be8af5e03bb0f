"""`CheckpointSaverHook` in a training: when it saves, and what its listeners hear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kit
from kit.checkpoint import Files, write_shard
from kit.errors import CheckpointFailed
from kit.hooks import CheckpointSaverHook, CheckpointSaverListener, StopAtStepHook
from kit.testing.cluster import LocalCluster
from kit.training.features.checkpointing import writer
from tests.training.hook_scene import Event, Listener, begin
from tests.training.saved import Patient, names, resumed_at
from tests.training.toy import replayed, same_bits


@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_saver_saves_at_the_begin_every_so_many_steps_and_at_the_end(
    cluster: LocalCluster, tmp_path: Path, topology: str
) -> None:
    book: list[Event] = []
    hook = CheckpointSaverHook(str(tmp_path), save_steps=3, listeners=[Listener(book)])
    step = Patient(cluster, 2, {0, 3, 6})

    begin(cluster, hook, topology=topology, steps=8, step=step).wait(30)

    assert names(tmp_path) == ["step-0", "step-3", "step-6", "step-8"]
    assert [row for row in book if row[0] != "after"] == [
        ("begin",), ("before", 0), ("before", 3), ("before", 6), ("before", 8),
        ("end", 8),
    ]  # fmt: skip
    assert [row for row in book if row[0] == "after"] == [
        ("after", step) for step in (0, 3, 6, 8)
    ]
    assert all(
        book.index(("before", n)) < book.index(("after", n)) for n in (0, 3, 6, 8)
    )
    for number in (0, 3, 6, 8):
        result = dict(kit.load_checkpoint(tmp_path / f"step-{number}"))
        want = replayed(number, 2, kit.GradientDescent())
        assert same_bits({name: result[name] for name in want}, want)


def test_training_with_a_saver_goes_on_from_what_it_saved(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    def saver() -> CheckpointSaverHook:
        return CheckpointSaverHook(str(tmp_path), save_steps=100)

    begin(cluster, saver(), steps=3).wait(30)
    run = begin(cluster, saver(), StopAtStepHook(num_steps=2), steps=99).wait(30)

    assert (resumed_at(run), run.step) == (3, 5)
    assert same_bits(run.params, replayed(5, 2, kit.GradientDescent()))


@pytest.mark.slow
def test_after_save_is_told_when_the_checkpoint_is_on_disk(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Steps go on while it is written: a listener that reads it must find it."""
    result: list[tuple[int, int]] = []

    class Reading(CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            result.append((global_step_value, kit.load_checkpoint(tmp_path).step))

    hook = CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[Reading()])

    begin(cluster, hook, steps=30).wait(30)

    assert [asked for asked, _ in result] == sorted({asked for asked, _ in result})
    assert result[0][0] == 0
    assert result[-1] == (30, 30)
    assert all(there >= asked for asked, there in result)


def test_nothing_is_told_of_a_save_that_failed(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_at_first(path: Path, pieces: Any, files: Files) -> Any:
        if path.parent.name.startswith("step-0."):
            raise CheckpointFailed("No space left on device.")
        return write_shard(path, pieces, files)

    monkeypatch.setattr(writer, "write_shard", full_at_first)
    book: list[Event] = []
    hook = CheckpointSaverHook(str(tmp_path), save_steps=99, listeners=[Listener(book)])

    run = begin(cluster, hook, steps=5).wait(30)

    assert run.checkpoints.n_failed == 1
    assert book == [("begin",), ("before", 0), ("before", 5), ("after", 5), ("end", 5)]


@pytest.mark.slow
@pytest.mark.parametrize(("last", "steps"), [(0, 30), (4, 100_000)])
def test_listener_may_ask_for_the_end_but_not_at_the_begin(
    cluster: LocalCluster, tmp_path: Path, last: int, steps: int
) -> None:
    book: list[Event] = []
    listener = Listener(book, last=last)
    hook = CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[listener])

    run = begin(cluster, hook, steps=steps).wait(30)

    assert (run.step == steps) == (last == 0)
    assert ("after", last) in book
    assert kit.load_checkpoint(tmp_path).step == run.step


def test_saver_by_the_clock_saves_at_the_begin_and_at_the_end(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    begin(cluster, CheckpointSaverHook(str(tmp_path), save_secs=3600)).wait(30)

    assert names(tmp_path) == ["step-0", "step-4"]


def test_saver_and_the_trainings_own_saves_share_a_folder(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    own = kit.Checkpoints(str(tmp_path), every_steps=5)
    step = Patient(cluster, 2, {0, 4, 5})

    begin(
        cluster,
        CheckpointSaverHook(str(tmp_path), save_steps=4),
        steps=7,
        checkpoint=own,
        step=step,
    ).wait(30)

    assert names(tmp_path) == ["step-0", "step-4", "step-5", "step-7"]
