"""Trainings without anybody in the middle are saved, go on, and have hooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kit
from kit.errors import FailedPreconditionError, MemberMismatch
from kit.hooks import LoggingTensorHook, StopAtStepHook
from kit.wire.handshake.credentials import Credentials
from tests.server.spmd_stage import Stage, error_of, program, stage
from tests.training.toy import replayed, same_bits

SGD = kit.GradientDescent()


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return Credentials.new()


def runs_of(play: Stage, *each: Any) -> list[kit.Run]:
    """Let two workers perform programs one after the other; return their last runs."""

    def perform(server: kit.Server) -> kit.Run:
        *_, last = [function(server) for function in each]
        assert isinstance(last, kit.Run)
        return last

    outcomes = [play.play(play.server("worker", n), perform) for n in (0, 1)]
    return [outcome.result(60) for outcome in outcomes]


@pytest.mark.slow
def test_training_of_equal_programs_goes_on_from_its_checkpoint(
    tmp_path: Path, credentials: Credentials
) -> None:
    saved = kit.Checkpoints(str(tmp_path / "saved"), every_steps=2)
    with stage(tmp_path, credentials, 1) as play:
        play.server("ps", 0)

        runs = runs_of(
            play,
            program(steps=4, checkpoint=saved),
            program(steps=7, checkpoint=saved, topology="ring"),
        )

    for run in runs:
        assert run.step == 7
        assert same_bits(run.params, replayed(7, 2, SGD))
    leader, _ = runs
    assert leader.resumed_from is not None
    assert leader.resumed_from.step == 4
    assert kit.load_checkpoint(tmp_path / "saved").step == 7


def test_hooks_of_the_first_worker_end_the_training_for_all(
    tmp_path: Path, credentials: Credentials, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(server: kit.Server) -> kit.Run:
        hooks = [
            StopAtStepHook(last_step=3),
            LoggingTensorHook(["global_step"], every_n_iter=1),
        ]
        run = program(steps=100, hooks=hooks)(server)
        assert isinstance(run, kit.Run)
        return run

    with stage(tmp_path, credentials, 1) as play:
        play.server("ps", 0)
        runs = runs_of(play, begin)

    for run in runs:
        assert (run.state, run.step) == ("done", 3)
        assert same_bits(run.params, replayed(3, 2, SGD))
    # Told once, by who leads.
    assert capsys.readouterr().out.count("global_step = 2") == 1


def test_folder_that_cannot_be_used_ends_it_for_all(
    tmp_path: Path, credentials: Credentials
) -> None:
    (tmp_path / "file").write_text("mine")
    with stage(tmp_path, credentials, 1) as play:
        play.settings = play.settings.replace(start_deadline_s=2.0)
        play.server("ps", 0)
        inputs = program(checkpoint=tmp_path / "file")
        leader, other = (play.play(play.server("worker", n), inputs) for n in (0, 1))

        for outcome in (leader, other):
            error = error_of(outcome)
            assert isinstance(error, FailedPreconditionError)
            assert "file cannot be used for checkpoints" in error.message


def test_workers_that_name_different_folders_are_told_apart(
    tmp_path: Path, credentials: Credentials
) -> None:
    with stage(tmp_path, credentials, 1) as play:
        play.server("ps", 0)
        outcomes = [
            play.play(
                play.server("worker", n), program(checkpoint=tmp_path / f"folder-{n}")
            )
            for n in (0, 1)
        ]

        errors = [error_of(outcome) for outcome in outcomes]

    assert all(isinstance(error, MemberMismatch) for error in errors)
    assert all("checkpoint" in error.message for error in errors)
