"""Restores a session from the newest checkpoint of a folder, or from a given one."""

from __future__ import annotations

from typing import Any

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.tf1.train.checkpointing.checkpoint_state import get_checkpoint_state
from kit.tf1.train.global_step import get_global_step
from kit.tf1.train.monitored.patience import Patience


def restore(
    session: Any,
    saver: Any,
    folder: str | None,
    path: str | None,
    patience: Patience | None,
) -> str | None:
    """Restore all that `saver` saves; return from where, None if from nowhere.

    `patience` waits for a checkpoint in the folder; without it, none there is none.
    Raises what the saver raises, and then nothing has changed.
    """
    if saver is None or not (folder or path):
        return None
    if path:
        saver.restore(session, path)
        return path
    assert folder is not None
    state = get_checkpoint_state(folder)
    while not (state and state.model_checkpoint_path):
        if patience is None or not patience.left_s:
            return None
        patience.pause(f"there is no checkpoint in {folder!r}.")
        state = get_checkpoint_state(folder)
    saver.restore(session, state.model_checkpoint_path)
    saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
    return str(state.model_checkpoint_path)


def step_in(session: Any) -> int | None:
    """Return the global step of a session; None if there is none, or no value of it."""
    try:
        step = get_global_step(session.graph)
        return None if step is None else int(session.run(step))
    except (FailedPreconditionError, InvalidArgumentError, TypeError):
        return None
