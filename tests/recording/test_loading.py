"""A recording as a finished run: what boards, tables and reports take."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    NotFoundError,
    VersionMismatch,
)
from tests.cases import for_each
from tests.recording.conftest import STEPS, Recorded
from tests.recording.toy_training import begin, train
from tests.training.toy import DATA, fit, quick_cluster, same_bits


class Unstorable(kit.GradientDescent):
    """A rule that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("it has a lock")


def test_loaded_run_tells_the_same_as_the_run(recorded: Recorded) -> None:
    run, loaded = recorded.run, kit.load_run(recorded.folder)

    assert loaded.done
    assert loaded.state == "done"
    assert loaded.step == STEPS
    assert loaded.metrics == run.metrics
    assert loaded.frame().equals(run.frame())
    assert loaded.loss == run.loss
    assert same_bits(loaded.params, run.params)
    assert loaded.trace.epochs == run.trace.epochs
    assert loaded.traffic == run.traffic
    assert all(topology.agrees for topology in loaded.traffic)
    assert loaded.moved_once == run.moved_once
    for name in ("transfers", "spans", "steps", "totals"):
        first, other = (getattr(each.trace, name) for each in (loaded, run))
        assert np.sort(first).tobytes() == np.sort(other).tobytes(), name


def test_loaded_run_says_what_it_was_computed_with_wherever_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then, quick_cluster(1, 2) as cluster:
        # As if a step function in the tasks had imported it.
        then.setitem(sys.modules, "torch", SimpleNamespace(__version__="1.2+cpu"))
        then.setattr(kit.training.client.statement, "commit", lambda: "0123abcd")
        run = train(cluster, tmp_path / "run", steps=3)
        environment, statement = run.environment, run.statement()
    monkeypatch.setattr(platform, "python_version", lambda: "4.0")
    monkeypatch.setattr(kit.training.client.statement, "commit", lambda: "another")

    loaded = kit.load_run(tmp_path / "run")

    assert environment["torch"] == "1.2+cpu"
    assert loaded.environment == environment
    assert loaded.statement() == statement
    assert "torch 1.2+cpu" in statement
    assert "commit 0123abcd" in statement


def test_another_version_of_torch_is_named_by_replay_and_diff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "older", tmp_path / "newer"]
    for folder in folders:
        library = SimpleNamespace(__version__=folder.name)
        monkeypatch.setitem(sys.modules, "torch", library)
        with quick_cluster(1, 2) as cluster:
            train(cluster, folder, steps=3)

    with pytest.warns(UserWarning, match="torch was older and is newer here"):
        kit.replay(folders[0], step=fit, data=DATA)
    said = str(kit.diff(*folders))

    assert "torch is older in the first and newer in the second" in said


COMMANDS: dict[str, Callable[[kit.Run], object]] = {
    "topology": lambda run: setattr(run, "topology", "mesh"),
    "link": lambda run: setattr(run, "link", "1gbit"),
    "synchronous": lambda run: setattr(run, "synchronous", True),
    "switch": lambda run: run.switch("ring", at=3),
    "pause": lambda run: run.pause(),
    "advance": lambda run: run.advance(),
    "resume": lambda run: run.resume(),
    "save": lambda run: run.save(),
    "record": lambda run: run.record("again"),
    "resize": lambda run: run.resize(worker=1),
    "rebalance": lambda run: run.rebalance({"worker:0": 2.0}),
    "leave": lambda run: run.leave("worker:0"),
}


@for_each("name", COMMANDS)
def test_loaded_run_takes_no_commands(recorded: Recorded, name: str) -> None:
    loaded = kit.load_run(recorded.folder)

    with pytest.raises(FailedPreconditionError, match="over"):
        COMMANDS[name](loaded)


def test_every_public_name_of_a_run_answers_for_a_loaded_one(
    recorded: Recorded,
) -> None:
    loaded = kit.load_run(recorded.folder)

    for name in dir(kit.Run):
        if not name.startswith("_"):
            with suppress(KitError):  # refused in words
                getattr(loaded, name)
    for quiet in (loaded.stop, loaded.look, loaded.close, loaded.wait):
        quiet()
    assert loaded.state == "done"


def test_recording_that_was_cut_off_has_all_up_to_its_last_complete_part(
    recorded: Recorded, copied: Callable[[], Path]
) -> None:
    folder = copied()
    whole = (folder / "run.log").read_bytes()
    (folder / "run.log").write_bytes(whole[:-100])  # in the last part, the end

    loaded = kit.load_run(folder)

    assert loaded.state == "failed"
    assert isinstance(loaded.error, AbortedError)
    assert "not finished" in str(loaded.error)
    assert loaded.metrics == recorded.run.metrics
    with pytest.raises(FailedPreconditionError, match="last parameters"):
        _ = loaded.params
    with pytest.raises(AbortedError, match="not finished"):
        loaded.wait()


def test_what_is_no_recording_is_refused(copied: Callable[[], Path]) -> None:
    log = copied() / "run.log"
    whole = log.read_bytes()

    def refused(error: type[KitError], said: str) -> None:
        with pytest.raises(error, match=said):
            kit.load_run(log.parent)
        log.unlink(missing_ok=True)

    log.write_bytes(b"something else, and longer than a header")
    refused(InvalidArgumentError, "not a file of a recording")
    log.write_bytes(whole[:8] + b"\x63" + whole[9:])
    refused(VersionMismatch, "version 99")
    log.symlink_to(log.parent / "final.safetensors")
    refused(InvalidArgumentError, "symbolic link")
    os.mkfifo(log)
    refused(InvalidArgumentError, "FIFO")
    refused(NotFoundError, "no recording")


def test_folder_that_cannot_be_used_begins_no_training(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("something")
    cases: list[tuple[Any, type[Exception]]] = [
        (tmp_path, AlreadyExistsError),
        (tmp_path / "mine", FailedPreconditionError),
        (7, InvalidArgumentError),
    ]
    storing, storing_step = (
        kit.Recording(tmp_path / "new", **{name: True})
        for name in ("store_data", "store_step")
    )
    with quick_cluster(1, 2) as cluster:
        for inputs, error in cases:
            with pytest.raises(error):
                begin(cluster, inputs)
        with pytest.raises(InvalidArgumentError, match="store_data"):
            begin(cluster, storing, data=lambda: iter([DATA]))
        with pytest.raises(InvalidArgumentError, match="batch"):
            begin(cluster, tmp_path / "new", batch=1)
        with pytest.raises(InvalidArgumentError, match="cannot be stored"):
            begin(cluster, storing_step, optimizer=Unstorable(0.1))
        assert not (tmp_path / "new").exists()


def test_recording_is_small_and_bounded(tmp_path: Path) -> None:
    wanted = kit.Recording(
        tmp_path / "run", message_bytes=40_000, state_bytes=6_000, state_every_s=0.01
    )
    with quick_cluster(1, 2) as cluster:
        run = train(cluster, wanted, steps=500)

    sizes = {path.name: path.stat().st_size for path in wanted.path.iterdir()}
    states = sum(size for name, size in sizes.items() if name.startswith("state"))
    messages = sum(size for name, size in sizes.items() if name.startswith("mess"))
    loaded = kit.load_run(wanted.path)
    assert states <= 6_000
    assert messages < 50_000
    assert loaded.metrics == run.metrics  # what decides is whole
    assert len(loaded.trace.transfers) < len(run.trace.transfers)
    assert "transfers and spans from" in str(loaded.trace.kept)
    assert np.array_equal(loaded.trace.totals, run.trace.totals)
