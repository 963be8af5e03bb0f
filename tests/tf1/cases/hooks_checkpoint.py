"""Hooks that save: when, under which name, and whom they tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt, raising
from tests.tf1.folders import checkpoints, in_folder
from tests.tf1.look import Case, makes_case, tf

STAGES = ("begin", "before_save", "after_save", "end")


def listener(log: list[Any], name: str = "", **replies: Any) -> Any:
    """Return a listener that notes its calls with the steps."""

    def method(stage: str) -> Any:
        def call(self: Any, *arguments: Any) -> Any:
            log.append([f"{name} {stage}", *map(int, arguments[1:])])
            return replies[stage](*arguments) if stage in replies else None

        return call

    stages = {stage: method(stage) for stage in STAGES}
    return type("Noting", (tf.train.CheckpointSaverListener,), stages)()


def trained(hooks: list[Any], n_steps: int, by: int = 1) -> list[Any]:
    """Train so many steps with these hooks, or until one stops it."""
    train = tf.train.get_or_create_global_step().assign_add(by)
    result: list[Any] = []
    with tf.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop() and len(result) < n_steps:
            result.append(session.run(train))
    return result


@makes_case
def saved(folder: Path, n_steps: int, by: int = 1, **named: Any) -> Any:
    """Return a case: which checkpoints there are after so many steps."""
    tf.train.get_or_create_global_step()
    hook = tf.train.CheckpointSaverHook(str(folder), **named)
    runs = trained([hook], n_steps, by)
    return [len(runs), checkpoints(folder)]


def case_with_a_saver(folder: Path) -> Any:
    tf.train.get_or_create_global_step()
    saver = tf.train.Saver(max_to_keep=1)
    hook = tf.train.CheckpointSaverHook(str(folder), save_steps=1, saver=saver)
    trained([hook], 3)
    return [
        checkpoints(folder),
        [Path(last_checkpoint).name for last_checkpoint in saver.last_checkpoints],
    ]


def listened(n_steps: int, n_listeners: int = 1, **replies: Any) -> Any:
    """Return a case: what listeners are told."""

    def body(folder: Path) -> Any:
        log: list[Any] = []
        tf.train.get_or_create_global_step()
        names = [str(index) for index in range(n_listeners)]
        listeners = [listener(log, name, **replies) for name in names]
        hook = tf.train.CheckpointSaverHook(
            str(folder), save_steps=2, listeners=listeners
        )
        runs = attempt(trained, [hook], n_steps)
        return [runs, log, checkpoints(folder)]

    return in_folder(body)


def stopped_at(step: int) -> Callable[[Any, Any], bool]:
    """Return a reply that asks to stop at a step."""
    return lambda session, value: bool(value == step)


def case_what_a_listener_finds(folder: Path) -> Any:
    """A listener has the session; the file of the step is there after the save."""
    result: list[Any] = []
    v = tf.Variable(3.0)
    tf.train.get_or_create_global_step()

    def look(session: Any, step: Any) -> None:
        result.append([session.run(v), type(step).__name__ != "", checkpoints(folder)])

    hook = tf.train.CheckpointSaverHook(
        *(str(folder), None, 1),
        listeners=[listener([], before_save=look, after_save=look)],
    )
    trained([hook], 1)
    return result


def case_restored_by_the_next_program(folder: Path) -> Any:
    """What it has saved is restored by the next program."""
    result = []
    for _ in range(2):
        with tf.Graph().as_default():
            train = tf.train.get_or_create_global_step().assign_add(1)
            hook = tf.train.CheckpointSaverHook(str(folder), save_steps=100)
            creator = tf.train.ChiefSessionCreator(checkpoint_dir=str(folder))
            with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
                result += [session.run(train) for _ in range(3)]
    return [result, checkpoints(folder)]


@makes_case
def made(**named: Any) -> Any:
    return type(tf.train.CheckpointSaverHook("/nowhere", **named)).__name__


def case_made_of_a_saver_and_a_scaffold() -> Any:
    tf.Variable(1.0)
    return tf.train.CheckpointSaverHook(
        *("/nowhere", None, 1), saver=tf.train.Saver(), scaffold=tf.train.Scaffold()
    )


CASES: dict[str, Case] = {
    "every_two_steps": saved(5, save_steps=2),
    "every_step": saved(3, save_steps=1),
    "every_many_steps": saved(3, save_steps=100),
    "every_many_seconds": saved(3, save_secs=1000),
    "steps_of_three": saved(4, by=3, save_steps=4),
    "without_a_run": saved(0, save_steps=1),
    "another_base_name": saved(1, save_steps=1, checkpoint_basename="other"),
    "a_listener": listened(3),
    "two_listeners": listened(2, 2),
    "a_listener_that_stops": listened(9, after_save=stopped_at(4)),
    "a_listener_that_stops_at_once": listened(9, after_save=stopped_at(0)),
    "a_listener_that_returns_no_bool": listened(3, after_save=lambda *_: "yes"),
    "a_listener_that_fails_before": listened(3, before_save=raising(ValueError("a"))),
    "a_listener_that_fails_after": listened(3, after_save=raising(ValueError("a"))),
    "made_of_nothing": made(),
    "made_of_both_rules": made(save_secs=1, save_steps=1),
    "made_of_steps": made(save_steps=1),
}
