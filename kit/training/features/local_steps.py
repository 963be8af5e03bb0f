"""Local steps: a worker trains by itself for a while before the workers exchange.

    agreed parameters  p ──► p1 ──► p2 ──► ... ──► pH      updates of its own optimizer
                       │                           │
                       └───────── p - pH ──────────┘       travels as a gradient does

The exchange adds what the workers offer and divides by their number, and the owner of a
range applies the *outer* optimizer to that mean. Gradient descent at rate 1 makes it
the mean of the workers' parameters (McMahan et al., "Communication-efficient learning
of deep networks from decentralized data", 2017; Stich, "Local SGD converges fast and
communicates little", 2019); Nesterov's momentum makes it DiLoCo (Douillard et al.,
"DiLoCo: Distributed low-communication training of language models", 2023).

The slots of the worker's own optimizer stay with it from exchange to exchange, as its
`state` does: an elastic training copies them, and a checkpoint holds them.

Where workers do not agree (`Topology.agrees`), a worker offers its parameters
themselves and goes on from the mean of its neighbourhood's. These stay with it as the
slots do, and the agreed parameters remain those on which all have agreed last. The next
step in which all agree begins where each worker is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kit.errors import InvalidArgumentError, StepFailed
from kit.exchange.layout import Layout, Range
from kit.exchange.plan import GRAD, NEXT, NOW
from kit.exchange.ports.memory import Array
from kit.training.core.axes import LocalTraining
from kit.training.optimizers.rule import MeanUpdate, updated_ranges
from kit.training.worker.accumulation import (
    Accumulation,
    Means,
    Measured,
    OwnGradient,
    Read,
)
from kit.training.worker.gradient_buffer import StepArrays

if TYPE_CHECKING:
    from kit.training.core.job import Job
    from kit.training.worker.worker import Compute

PREFIX: Final = "optimizer/"  # of the names under which the slots are kept
UPDATES: Final = f"{PREFIX}updates"  # how many updates have been made
OWN: Final = "parameters/"  # of those under which a worker's parameters are kept


class LocalSteps(OwnGradient):
    """A worker's own parameters, its optimizer's slots, and the steps on them."""

    def __init__(self, job: Job, arrays: StepArrays, state: dict[str, Any]) -> None:
        """`state` holds the slots and `kept` together between two exchanges.

        It is read in the first step: what a checkpoint holds is put there before that.
        """
        super().__init__(job, arrays, state)
        work, layout = job.own_work, job.layout
        assert isinstance(work, LocalTraining), "a job with local steps has it"
        self._arrays, self._state, self._n_steps = arrays, state, work.n_steps
        self._own = np.zeros(layout.n_bytes, np.uint8)
        self._slots = [np.zeros(layout.n_bytes, np.uint8) for _ in work.optimizer.slots]
        update = MeanUpdate(work.optimizer, 1)
        ranges = updated_ranges(work.optimizer, layout)
        self._moves = [(part, update.over(layout, part)) for part in ranges]
        views = _named_views(self._own, layout)
        for view in views.values():
            view.flags.writeable = False
        self.params = lambda: views
        self._own_named = _named_views(self._own, layout, OWN)
        self._named: dict[str, Array] = {}  # the slots
        for slot, flat in zip(work.optimizer.slots, self._slots, strict=True):
            self._named |= _named_views(flat, layout, f"{PREFIX}{slot.name}/")
            for part in layout.stretches:
                _typed(flat, part, layout.dtype_at(part.lo))[...] = slot.initial
        self._has_begun, self._updates = False, 0
        if self._named:
            self.kept = {}  # without the slots

    def run(
        self,
        step: int,
        read: Read,
        compute: Compute | Accumulation,
        ready: Callable[[int], None],
    ) -> tuple[float, Measured]:
        """See `OwnGradient`: do the local steps before exchange `step`."""
        self._set_out()
        if not self._has_begun:
            self._begin()
        loss, examples, total, means = 0.0, 0, 0, Means()
        # Mini-batches are numbered through all steps, so that a step that is done again
        # reads the same ones.
        for number in range(step * self._n_steps, (step + 1) * self._n_steps):
            batch, n, n_of_all = read(number)
            # Weight 1: a local step is an update by this worker's examples alone.
            loss += n * compute(step, batch, 1.0, lambda bucket: None, number=number)
            self._move(number)
            means.add(compute.measures, n)
            examples += n
            total += n_of_all
        self._offer(step, self._n * examples / total)
        self._keep(step)
        return loss / examples, (means.result(), examples)

    def take_mean(self, n: int) -> None:
        """See `OwnGradient`: the sum of these workers is in NEXT."""
        memory, region = self._arrays.memory, self._arrays.stamp.where(NEXT)
        for part in memory.layout.stretches:
            dtype = memory.layout.dtype_at(part.lo)
            own, total = _typed(self._own, part, dtype), memory.typed(region, part)
            np.divide(total, total.dtype.type(n), out=own)
        # Views: whatever copies or saves the state sees the newest values.
        self._state.update(self._own_named)

    def _set_out(self) -> None:
        """Be where this worker is: at what all have agreed on, or what it has kept."""
        state, memory = self._state, self._arrays.memory
        # Taken out: they are kept exactly while they differ from the agreed ones.
        held = {name: state.pop(name) for name in [*state] if name.startswith(OWN)}
        if not held:
            whole = Range(0, memory.layout.n_bytes)
            self._own.data[:] = memory.raw(self._arrays.stamp.where(NOW), whole)
            return
        shapes_now, shapes = (
            {name: np.shape(value) for name, value in some.items()}
            for some in (held, self._own_named)
        )
        if shapes_now != shapes:
            raise InvalidArgumentError(
                f"{self._arrays.task}: this worker's own parameters were kept as "
                f"{', '.join(sorted(shapes_now))}, and the model has "
                f"{', '.join(sorted(shapes))}; go on with the same model, or begin in "
                f"another folder."
            )
        for name, value in held.items():
            if value is not self._own_named[name]:  # it comes from a checkpoint
                self._own_named[name][...] = value

    def _move(self, number: int) -> None:
        """Let the worker's optimizer make one update, in place.

        Without slots, the number of the mini-batch stands for that of the update:
        nothing is kept then that could count updates.
        """
        step = self._updates if self._named else number
        self._updates += 1
        memory, region = self._arrays.memory, self._arrays.stamp.where(GRAD)
        for part, update in self._moves:
            dtype = memory.layout.dtype_at(part.lo)
            now = _typed(self._own, part, dtype)
            slots = [_typed(slot, part, dtype) for slot in self._slots]
            with np.errstate(all="ignore"):  # see `_offer`
                update(now, memory.typed(region, part), slots, now, step)

    def _offer(self, step: int, weight: float) -> None:
        """Write how far the parameters have moved, checked and weighed.

        Where workers do not agree, write the parameters as they are.
        """
        arrays, memory = self._arrays, self._arrays.memory
        is_apart = arrays.stamp.stays
        buffer = arrays.gradients()
        buffer.begin(step, 1.0 if is_apart else weight)
        now, to = (arrays.stamp.where(region) for region in (NOW, GRAD))
        with np.errstate(all="ignore"):  # what is not finite is refused below, by name
            for part in memory.layout.stretches:
                own = _typed(self._own, part, memory.layout.dtype_at(part.lo))
                out = memory.typed(to, part)
                if is_apart:
                    np.copyto(out, own)
                else:
                    np.subtract(memory.typed(now, part), own, out=out)
        buffer.all_written()
        buffer.end()

    def _begin(self) -> None:
        """Take the slots and what the step function keeps out of what was restored."""
        self._has_begun = True
        held = {name for name in self._state if name.startswith(PREFIX)}
        if not self._named and not held:
            return
        shapes = {name: np.shape(own) for name, own in self._slots_by_name().items()}
        shapes_held = {name: np.shape(self._state[name]) for name in held}
        if self._state and shapes_held != shapes:
            there, here = (
                ", ".join(sorted(some)) or "nothing" for some in (held, shapes)
            )
            raise InvalidArgumentError(
                f"{self._arrays.task}: the optimizer of the local steps has kept "
                f"{there}, and this one keeps {here}; go on with the same optimizer "
                f"and model, or begin in another folder."
            )
        for name in held - {UPDATES}:
            self._named[name][...] = self._state[name]
        self._updates = int(self._state.get(UPDATES, 0))
        self.kept.update({k: v for k, v in self._state.items() if k not in held})

    def _slots_by_name(self) -> dict[str, Any]:
        """Return what is kept of the optimizer; nothing of one without slots."""
        return {**self._named, UPDATES: self._updates} if self._named else {}

    def _keep(self, step: int) -> None:
        for name in self.kept:
            if name.startswith((PREFIX, OWN)):
                task = self._arrays.task
                raise StepFailed(
                    f"{task}, step {step}: state[{name!r}] has a name that is kept for "
                    f"what the local steps carry on; call it something that does not "
                    f"begin with {PREFIX!r} or {OWN!r}.",
                    task=task,
                    step=step,
                )
        if self._named:
            self._state.clear()
            self._state.update(self.kept | self._slots_by_name())


def _named_views(flat: Array, layout: Layout, prefix: str = "") -> dict[str, Array]:
    """Return the parameters' arrays inside a flat buffer, by prefix and name."""
    return {
        f"{prefix}{leaf.spec.name}": _typed(flat, leaf.range, leaf.spec.dtype).reshape(
            leaf.spec.shape
        )
        for leaf in layout.leaves
    }


def _typed(flat: Array, part: Range, dtype: str) -> Array:
    return flat[part.lo : part.hi].view(dtype)
