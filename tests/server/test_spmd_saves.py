"""Trainings without anybody in the middle are saved, go on, and have hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.errors import FailedPreconditionError, MemberMismatch
from kit.hooks import LoggingTensorHook, StopAtStepHook
from tests.server.spmd_stage import MakeStage, error_of, in_turn, program
from tests.training.toy import replayed, same_bits

SGD = kit.GradientDescent()


@pytest.mark.slow
def test_training_of_equal_programs_goes_on_from_its_checkpoint(
    tmp_path: Path, stage: MakeStage
) -> None:
    saved = kit.Checkpoints(str(tmp_path / "saved"), every_steps=2)

    (_, leader), (_, other) = stage().results(
        in_turn(
            program(steps=4, checkpoint=saved),
            program(steps=7, checkpoint=saved, topology="ring"),
        )
    )

    for run in (leader, other):
        assert run.step == 7
        assert same_bits(run.params, replayed(7, 2, SGD))
    assert leader.resumed_from is not None
    assert leader.resumed_from.step == 4
    assert kit.load_checkpoint(tmp_path / "saved").step == 7


def test_hooks_of_the_first_worker_end_the_training_for_all(
    stage: MakeStage, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(server: kit.Server) -> kit.Run:
        logging = LoggingTensorHook(["global_step"], every_n_iter=1)
        hooks = [StopAtStepHook(last_step=3), logging]
        run: kit.Run = program(steps=100, hooks=hooks)(server)
        return run

    for run in stage().results(begin):
        assert (run.state, run.step) == ("done", 3)
        assert same_bits(run.params, replayed(3, 2, SGD))
    # Told once, by who leads.
    assert capsys.readouterr().out.count("global_step = 2") == 1


def test_folder_that_cannot_be_used_ends_it_for_all(
    tmp_path: Path, stage: MakeStage
) -> None:
    (tmp_path / "file").write_text("mine")

    for outcome in stage(start_deadline_s=2.0).begin(
        program(checkpoint=tmp_path / "file")
    ):
        error = error_of(outcome)
        assert isinstance(error, FailedPreconditionError)
        assert "file cannot be used for checkpoints" in error.message


def test_workers_that_name_different_folders_are_told_so(
    tmp_path: Path, stage: MakeStage
) -> None:
    programs = [program(checkpoint=tmp_path / name) for name in ("mine", "yours")]

    for outcome in stage().begin(*programs):
        error = error_of(outcome)
        assert isinstance(error, MemberMismatch)
        assert "checkpoint" in error.message
