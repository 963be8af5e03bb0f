"""Named places where a task can be made to die or to freeze, for tests of faults.

A crash plan is a text: `worker:1@5:exchange.reduced:SIGKILL` sends this process the
signal when the task worker:1 reaches the point `exchange.reduced` of step 5; `5+` means
step 5 and all later ones, for asynchronous workers, which skip steps. It is part of the
product, behind the setting `crash`, because it cannot be added from outside. A point
without a plan costs one comparison.

Points of a training, in the order in which a step reaches them:

    step.begun  compute.done  exchange.reduced  exchange.done  step.done
    epoch.prepared  epoch.committed  run.connected

Around a checkpoint, where the step is the number of steps done: its copy was taken; the
coordinator is about to rename the draft, or has done so:

    ckpt.copied  ckpt.before_rename  ckpt.after_rename

Around a copy of an elastic training: it was taken; the next process has it, too:

    copy.made  copy.sent

In an elastic training a plan applies only to the first generation: later ones repeat
steps, and would crash again.
"""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass

from kit.errors import InvalidArgumentError
from kit.task import Task

POINTS = (
    "run.connected",
    "epoch.prepared",
    "epoch.committed",
    "step.begun",
    "compute.done",
    "exchange.reduced",
    "exchange.done",
    "step.done",
    "ckpt.copied",
    "ckpt.before_rename",
    "ckpt.after_rename",
    "copy.made",
    "copy.sent",
)
_SIGNALS = ("SIGKILL", "SIGSTOP", "SIGTERM")


@dataclass(frozen=True)
class Crash:
    """Which task gets which signal, at which point of which step."""

    task: Task
    step: int
    point: str
    signal: str
    or_later: bool = False

    @classmethod
    def parse(cls, text: str) -> Crash | None:
        """Read a crash plan; None for an empty one. Raises `InvalidArgumentError`.

        >>> Crash.parse("worker:1@5:step.done:SIGKILL").step
        5
        """
        if not text:
            return None
        try:
            task, rest = text.split("@")
            step, point, name = rest.split(":")
            or_later = step.endswith("+")
            number = int(step.removesuffix("+"))
            plan = cls(Task.parse(task), number, point, name, or_later)
        except (ValueError, InvalidArgumentError):
            plan = None
        if plan is None or plan.point not in POINTS or plan.signal not in _SIGNALS:
            raise InvalidArgumentError(
                f"{text!r} is not a crash plan; write 'worker:1@5:POINT:SIGNAL' with a "
                f"POINT of {', '.join(POINTS)} and a SIGNAL of {', '.join(_SIGNALS)}."
            )
        return plan


def reach(plan: Crash | None, point: str, task: Task, step: int) -> None:
    """Send this process the plan's signal, if the plan is for this point."""
    if plan is None or (plan.point, plan.task) != (point, task):
        return
    if step == plan.step or (plan.or_later and step > plan.step):
        # To this thread: a signal to the process may take effect a little later, after
        # the point.
        signal.pthread_kill(threading.get_ident(), getattr(signal, plan.signal))
