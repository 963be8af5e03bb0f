"""`tf.train.MonitoredTrainingSession`: the session of a training, with all it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.hooks.checkpoint_saver import CheckpointSaverHook
from kit.hooks.hook import SessionRunHook
from kit.hooks.steps import StepCounterHook
from kit.hooks.writers import SummarySaverHook
from kit.tf1.train.monitored.monitored_session import MonitoredSession
from kit.tf1.train.monitored.scaffold import Scaffold
from kit.tf1.train.monitored.session_creators import (
    ChiefSessionCreator,
    WorkerSessionCreator,
)

USE_DEFAULT = object()
_CHECKPOINT_SECS, _SUMMARY_STEPS = 600, 100


def MonitoredTrainingSession(
    master: Any = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """Return the session of a training: the chief's, or that of a worker.

    The chief restores the newest checkpoint of `checkpoint_dir` or initialises, tells
    the steps per second, and saves at the start, every 600 seconds (or as the arguments
    say; two None: never) and at the end. A worker waits for it, `max_wait_secs` (by
    default 4 times the setting `run_deadline_s`), and calls only `hooks`.

    Raises `RuntimeError` with `checkpoint_dir` but without a global step, and as
    `MonitoredSession` does.
    """
    scaffold = scaffold or Scaffold()
    if not is_chief:
        waiting = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(waiting, hooks, stop_grace_period_secs)
    chosen = list(chief_only_hooks or [])
    if summary_dir or checkpoint_dir:
        folder = summary_dir or checkpoint_dir
        if log_step_count_steps and log_step_count_steps > 0:
            counter = StepCounterHook(log_step_count_steps, output_dir=folder)
            chosen.append(counter)
        steps, secs = _times(
            save_summaries_steps, save_summaries_secs, _SUMMARY_STEPS, None
        )
        if _is_on(steps) or _is_on(secs):
            chosen.append(SummarySaverHook(steps, secs, folder, scaffold=scaffold))
    if checkpoint_dir:
        steps, secs = _times(
            save_checkpoint_steps, save_checkpoint_secs, None, _CHECKPOINT_SECS
        )
        if _is_on(steps) or _is_on(secs):
            saver = CheckpointSaverHook(
                checkpoint_dir,
                save_steps=steps,
                save_secs=secs,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
            chosen.append(saver)
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(creator, [*chosen, *(hooks or [])], stop_grace_period_secs)


def _times(
    steps: Any, secs: Any, default_steps: int | None, default_secs: float | None
) -> tuple[int | None, float | None]:
    """Return both times: the defaults only count if neither was given."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default_steps, default_secs
    return (
        None if steps is USE_DEFAULT else steps,
        None if secs is USE_DEFAULT else secs,
    )


def _is_on(time: float | None) -> bool:
    return bool(time) and time is not None and time > 0
