"""A worker's side of a compressor: error feedback, and a check of all that it gives.

Pure: what is sent, and what the sums become, is a function of the gradients, the step,
the worker and what has been kept so far. So a step can be computed again anywhere.

Error feedback: what a worker's gradient lost when it was compressed is added to its
next gradient, so nothing is lost; it only comes late. Seide et al., "1-bit stochastic
gradient descent", Interspeech 2014; Karimireddy et al., "Error feedback fixes SignSGD
and other gradient compression schemes", ICML 2019.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from kit.errors import GradientMismatch, KitError, NotFinite, StepFailed
from kit.exchange.compression.compressor import (
    Arrays,
    Compressor,
    Exchange,
    Exchanged,
    Turn,
)
from kit.exchange.compression.stages import StageSpecs
from kit.exchange.layout import Spec
from kit.exchange.ports.memory import Array

RESIDUAL: Final = "residual/"  # and the parameter's name: what has not been sent yet
STATE: Final = "state/"  # and a name that the compressor chose
# The mean at the end; None where no update is to be made.
StageSums: TypeAlias = Generator[Arrays, Arrays, Arrays | None]


class Feedback:
    """One worker's compressor, and what it keeps from step to step."""

    def __init__(
        self,
        compressor: Compressor,
        specs: Iterable[Spec],
        stages: StageSpecs,
        kept: dict[str, Any],
        task: str,
    ) -> None:
        """`kept` is changed in place by each step; it is empty before the first.

        `task` is what errors call the worker.
        """
        self._compressor, self._stages, self._kept = compressor, stages, kept
        self._specs = {spec.name: spec for spec in specs}
        self._task = task

    def exchange(self, gradients: Mapping[str, Array], turn: Turn) -> StageSums:
        """Yield the arrays of each stage, to get their sums; return the mean gradient.

        None is returned where the step makes no update.

        `gradients` are this worker's of the step, and only read. Raises
        `GradientMismatch`, `NotFinite` or `StepFailed`, which name the compressor,
        worker and step, with what was due and what was given.
        """
        corrected = {name: self._corrected(name, g) for name, g in gradients.items()}
        state = {
            name.removeprefix(STATE): value
            for name, value in self._kept.items()
            if name.startswith(STATE)
        }
        steps = self._begun(corrected, state, turn)
        sums: Arrays | None = None
        for number, stage in enumerate(self._stages):
            exchanged = self._next(steps, sums, turn)
            if isinstance(exchanged, Exchanged):
                raise self._mismatch(
                    turn, f"returned after {number} of {len(self._stages)} stages"
                )
            sums = yield self._checked(f"in stage {number}", exchanged, stage, turn)
        result = self._next(steps, sums, turn)
        if not isinstance(result, Exchanged):
            raise self._mismatch(
                turn,
                f"gave one more stage than the {len(self._stages)} of its stages(); "
                f"return kit.exchange.Exchanged(mean, own)",
            )
        return self._finished(result, corrected, state, turn)

    def _corrected(self, name: str, gradient: Array) -> Array:
        residual = self._kept.get(RESIDUAL + name)
        corrected = gradient.copy() if residual is None else gradient + residual
        corrected = np.asarray(
            corrected
        )  # numpy returns a sum without axes as a scalar
        # A compressor that wrote to it would falsify its own residual.
        corrected.flags.writeable = False
        return corrected

    def _begun(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """Begin only with the first `next`, which is where errors are caught.

        An `exchange` that is not a generator function runs when it is called.
        """
        return (yield from self._compressor.exchange(gradients, state, turn))

    def _next(
        self, steps: Exchange, sums: Arrays | None, turn: Turn
    ) -> Mapping[str, Array] | Exchanged:
        compressor, task, step = self._compressor, self._task, turn.step
        try:
            return next(steps) if sums is None else steps.send(sums)
        except StopIteration as end:
            if isinstance(end.value, Exchanged):
                return end.value
            raise self._mismatch(
                turn,
                f"returned {type(end.value).__name__}; return "
                f"kit.exchange.Exchanged(mean, own)",
            ) from None
        except KitError:
            raise
        except BaseException as error:  # sys.exit() must end the training, not the task
            raise StepFailed(
                f"{task}: compress={compressor} raised {type(error).__name__}: {error} "
                f"in step {step}; all members were stopped.",
                task=task,
                step=step,
                remote_traceback="".join(traceback.format_exception(error)),
            ) from error

    def _finished(
        self, result: Exchanged, corrected: Arrays, state: Arrays, turn: Turn
    ) -> Arrays | None:
        specs, mean = tuple(self._specs.values()), None
        if result.mean is not None:
            mean = self._checked("as mean", result.mean, specs, turn)
        own = {}
        if result.own is not None:
            own = self._checked("as own", result.own, specs, turn)
        # All is checked before anything is kept, so a step that fails leaves the state
        # as it was.
        states = {name: self._plain(name, value, turn) for name, value in state.items()}
        owed = {k: v for k, v in self._kept.items() if k.startswith(RESIDUAL)}
        self._kept.clear()
        if mean is None:
            self._kept.update(owed)  # nothing of it was used
        self._kept.update({STATE + name: value for name, value in states.items()})
        for name, sent in own.items():
            self._kept[RESIDUAL + name] = np.asarray(corrected[name] - sent)
        return mean

    def _plain(self, name: object, value: Any, turn: Turn) -> Array:
        is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
        if not is_array or not isinstance(name, str):
            raise self._mismatch(
                turn, f"keeps state[{name!r}] as {type(value).__name__}; keep arrays"
            )
        return np.array(value, order="C")  # a copy: it may be a view

    def _checked(
        self, where: str, sent: Mapping[str, Any], wanted: Iterable[Spec], turn: Turn
    ) -> Arrays:
        """Return as arrays what a compressor gave; all that is due, and finite."""
        specs = {spec.name: spec for spec in wanted}
        if not isinstance(sent, Mapping) or sent.keys() != specs.keys():
            names = sorted(map(str, sent)) if isinstance(sent, Mapping) else sent
            raise self._mismatch(
                turn, f"gave {names} {where}, where {sorted(specs)} were due"
            )
        arrays = {name: np.asarray(sent[name]) for name in specs}
        for name, (_, shape, dtype) in specs.items():
            value = arrays[name]
            if value.shape != shape or value.dtype != dtype:
                raise self._mismatch(
                    turn,
                    f"gave {value.dtype}{list(value.shape)} for {name!r} {where}, "
                    f"where {dtype}{list(shape)} was due",
                )
            if not _is_finite(value):
                raise self._not_finite(name, value, where, turn)
        return arrays

    def _not_finite(self, name: str, value: Array, where: str, turn: Turn) -> KitError:
        n_wrong = int(value.size - np.isfinite(value).sum())
        most = f"; {value.dtype} holds numbers up to {np.finfo(value.dtype).max:g}"
        return NotFinite(
            f"{self._task}, step {turn.step}: compress={self._compressor} gave "
            f"{n_wrong} NaN or infinite values of {value.size} for {name!r} "
            f"{where}{most}. Lower the learning rate, or compress less.",
            task=self._task,
            step=turn.step,
        )

    def _mismatch(self, turn: Turn, what: str) -> KitError:
        return GradientMismatch(
            f"{self._task}, step {turn.step}: compress={self._compressor} {what}.",
            task=self._task,
            step=turn.step,
        )


def following(stages: StageSums, sums: Arrays) -> Arrays | None:
    """Return the next stage's arrays, or the mean after the last stage."""
    try:
        return stages.send(sums)
    except StopIteration as end:
        mean: Arrays | None = end.value
        return mean


def put(arrays: Arrays, places: Arrays) -> None:
    """Copy arrays to their places in a stage or among the gradients."""
    for name, target in places.items():
        np.copyto(target, arrays[name])


def _is_finite(value: Array) -> bool:
    if value.dtype == np.float16:  # by its exponents: isfinite takes ten times as long
        exponents = np.ascontiguousarray(value).view(np.uint16) & 0x7C00
        return not np.any(exponents == 0x7C00)
    return bool(np.isfinite(value).all())


def shared_out(kept: Sequence[Arrays]) -> tuple[Arrays, list[str]]:
    """Return what each worker keeps where there were others, and what is lost.

    What some workers had yet to send is what each has now that is their mean: the mean
    gradient of all gets the same by it, whatever their number. What a compressor keeps
    besides stays if all had the same.

    >>> first, second = {"residual/w": np.ones(2)}, {"residual/w": np.zeros(2)}
    >>> shared_out([first, second])
    ({'residual/w': array([0.5, 0.5])}, [])
    """
    shared, lost = dict[str, Array](), list[str]()
    for name in dict.fromkeys(name for arrays in kept for name in arrays):
        values = [arrays[name] for arrays in kept if name in arrays]
        if name.startswith(RESIDUAL):
            total = sum(values[1:], start=values[0])
            shared[name] = total * total.dtype.type(1 / len(kept))
        elif len(values) == len(kept) and all(
            np.array_equal(values[0], value) for value in values
        ):
            shared[name] = values[0]
        else:
            lost.append(name)
    return shared, lost
