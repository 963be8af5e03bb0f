"""Saves a training: at its start, now and then, and at its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kit.hooks import environment
from kit.hooks.environment import CheckpointBackend
from kit.hooks.hook import (
    SessionRunContext,
    SessionRunValues,
)
from kit.hooks.steps import StepHook
from kit.hooks.timer import SecondOrStepTimer


class CheckpointSaverListener:
    """Base of what a `CheckpointSaverHook` calls when it saves.

    Derive a class and override the moments that it needs. `session` is the one that is
    being saved, and `global_step_value` the number of steps that are done.

    Examples
    --------
    Stop when the third checkpoint is written::

        class Three(kit.hooks.CheckpointSaverListener):
            n_saved = 0

            def after_save(self, session, global_step_value):
                self.n_saved += 1
                return self.n_saved == 3

        kit.hooks.CheckpointSaverHook("run-1", save_steps=10, listeners=[Three()])
    """

    def begin(self) -> None:
        """Get ready for a training that is about to begin."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Do what is due before a checkpoint is written."""

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """Do what is due after a checkpoint is written.

        In `kit.train` that is some steps later, as it is written beside them. It is
        not called for a checkpoint that could not be written.

        Returns
        -------
        bool or None
            True asks for the end of the training. After the first checkpoint, made
            before any step, that is ignored.
        """

    def end(self, session: Any, global_step_value: int) -> None:
        """Do what is due when the training has ended, after the last checkpoint."""


class CheckpointSaverHook(StepHook):
    """Writes a checkpoint when a session begins, every so often, and at the end.

    At the end only if the step has moved since. The files are
    `<checkpoint_dir>/<checkpoint_basename>-<step>.*`.

    Parameters
    ----------
    checkpoint_dir : str
        Folder of the files.
    save_secs : float, optional
        After how many seconds.
    save_steps : int, optional
        After how many steps. Give one of the two.
    saver, scaffold : optional
        Say what is saved; by default all that a saver of the graph saves. Give at most
        one of them.
    checkpoint_basename : str, default "model.ckpt"
        How the names of the files begin.
    listeners : sequence of CheckpointSaverListener, optional
        Called before and after each checkpoint.
    save_graph_def : bool, default True
        Also write down the graph.

    Raises
    ------
    ValueError
        Both or neither of the times are given, or both `saver` and `scaffold`.
    RuntimeError
        When it begins, no global step is counted.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._folder, self._basename = os.fspath(checkpoint_dir), checkpoint_basename
        self._saver, self._scaffold = saver, scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or [])
        self._describes = save_graph_def
        self._backend: CheckpointBackend | None = None
        self._asked: list[tuple[int, bool]] = []  # step, and whether it may be the last

    def begin(self) -> None:
        """Find out what counts the steps, and where to write."""
        super().begin()
        self._backend = environment.current().checkpoint_backend(
            self._folder, self._basename, self._saver, self._scaffold
        )
        self._backend.begin()
        self._asked = []
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Write the graph and a first checkpoint."""
        assert self._backend is not None
        step = int(session.run(self._step))
        if self._describes:
            self._backend.describe(session, step)
        self._save(session, step)
        # As in TensorFlow, a listener cannot end a training at its first checkpoint,
        # even if that is written only some steps later.
        self._asked = [(saver, False) for saver, _ in self._asked]
        self._timer.update_last_triggered_step(step)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Save if it is time, and report what was written meanwhile."""
        if self._asked and self._notify(run_context.session):
            run_context.request_stop()
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        # What came along may be of before the update; a file's name must be exact.
        step = int(run_context.session.run(self._step))
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Any) -> None:
        """Save what has changed since."""
        step = int(session.run(self._step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        self._notify(session)
        for listener in self._listeners:
            listener.end(session, step)
        assert self._backend is not None
        self._backend.end()

    def _save(self, session: Any, step: int) -> bool:
        """Save, and return whether a listener asks for the end."""
        assert self._backend is not None
        where = environment.current()
        where.info(f"Saving checkpoints for {step} into {self._folder}.")
        for listener in self._listeners:
            listener.before_save(session, step)
        self._backend.save(session, step)
        self._asked.append((step, True))
        return self._notify(session)

    def _notify(self, session: Any) -> bool:
        """Report what is written by now; whether a listener asks for the end."""
        assert self._backend is not None
        wants_end = False
        while self._asked:
            step, may_end = self._asked[0]
            is_written = self._backend.is_written(step)
            if is_written is None:
                break  # those after it are later still: listeners hear them in order
            del self._asked[0]
            for listener in self._listeners if is_written else ():
                if listener.after_save(session, step) and may_end:
                    name = type(listener).__name__
                    environment.current().info(f"{name} asks for the end at {step}.")
                    wants_end = True
        return wants_end
