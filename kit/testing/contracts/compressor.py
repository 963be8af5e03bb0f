"""What a training relies on in a compressor, as one quick check.

It is the same for the compressors of this package and for yours. No task is started:
the workers' exchanges are carried out side by side, and what they send is added up
here, in the order of the workers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kit.errors import InvalidArgumentError, KitError
from kit.exchange.compression.compressor import Arrays, Compressor, Turn
from kit.exchange.compression.feedback import RESIDUAL, Feedback
from kit.exchange.compression.stages import StageSpecs, checked_specs
from kit.exchange.layout import Spec
from kit.exchange.ports.memory import Array
from kit.training.worker import kept_state

MODELS: tuple[tuple[Spec, ...], ...] = (
    (Spec("w", (40, 30), "float32"), Spec("b", (30,), "float32")),
    (Spec("w", (12, 3, 5), "float64"), Spec("scale", (), "float32")),
    (Spec("none", (0, 4), "float32"), Spec("one", (1,), "float64")),
)
_STEPS = 6
_SAVED = 3  # the steps before a restart
_NEAR = 0.02  # of the largest element: what rounding to 16 bits may change in a sum


class _Outcome(NamedTuple):
    """What each worker has after a step: its mean gradient, and what it keeps."""

    means: list[Arrays]
    kept: list[dict[str, Any]]


def check_compressor(
    compressor: Compressor,
    *,
    workers: Iterable[int] = (1, 2, 5),
    models: Iterable[Sequence[Spec]] = MODELS,
    seed: int = 0,
) -> None:
    """Check that a compressor does what a training relies on.

    For each number of workers and each model, in steps with gradients of ordinary size,
    very small ones, zeros, and ones that differ between the workers, it checks that

    * `stages` says the same each time, and `exchange` gives just these arrays;
    * all workers come to the same mean gradient, bit for bit;
    * the mean gradient is near the mean of what the workers say they have sent: sums
      have room for all workers, and error feedback feeds back what is missing;
    * gradients are left as they were;
    * the same is done again from a copy of what was kept, as after a restart, and by
      another object of the class: what is kept is in `state` alone.

    Parameters
    ----------
    compressor : Compressor
        What `kit.train` is to be given as `compress`.
    workers, models : iterable
        Numbers of workers, and the specs of parameters.
    seed : int, default 0
        Decides the gradients.

    Raises
    ------
    AssertionError
        With what is wrong, where, and what a compressor has to do instead.

    Examples
    --------
    >>> import kit
    >>> from kit.testing import check_compressor
    >>> check_compressor(kit.TopK(0.1))

    One that forgets that all workers need the same mean:

    >>> from kit.exchange import Compressor, Exchanged
    >>> class Selfish(Compressor):
    ...     def stages(self, specs, n_workers):
    ...         return [specs]
    ...     def exchange(self, gradients, state, turn):
    ...         yield gradients
    ...         return Exchanged(gradients)
    >>> check_compressor(Selfish())
    Traceback (most recent call last):
    AssertionError: Selfish, 2 workers, step 0: the mean gradient of 'w' differs ...
    """
    for specs in models:
        for n in workers:
            _Check(compressor, tuple(specs), n, seed).all()


@dataclass
class _Check:
    """The check of one compressor with `n` workers."""

    compressor: Compressor
    specs: tuple[Spec, ...]
    n: int
    seed: int
    stages: StageSpecs = field(init=False)
    fresh: Compressor = field(init=False)

    def __post_init__(self) -> None:
        self.fresh = copy.deepcopy(self.compressor)  # as each worker gets a copy
        self.stages = self._stages(self.compressor)

    def all(self) -> None:
        """Do some steps, and from the middle on once more with what was kept."""
        again = self._stages(self.compressor)
        assert again == self.stages, (
            f"{self._where()}: stages() gave {again}, and {self.stages} before; it may "
            f"depend on its arguments alone."
        )
        compressors = [copy.deepcopy(self.fresh) for _ in range(self.n)]
        kept: list[dict[str, Any]] = [{} for _ in range(self.n)]
        outcomes = []
        for step in range(_STEPS):
            outcomes.append(self._step(compressors, kept, step))
            kept = [*map(dict, outcomes[-1].kept)]
        kept = [_restored(state) for state in outcomes[_SAVED - 1].kept]
        compressors = [copy.deepcopy(self.fresh) for _ in range(self.n)]
        for step in range(_SAVED, _STEPS):
            outcome = self._step(compressors, kept, step)
            kept = [*map(dict, outcome.kept)]
            self._compare_restored(outcomes[step], outcome, step)

    def _where(self, step: int | None = None) -> str:
        at = "" if step is None else f", step {step}"
        return f"{self.compressor}, {self.n} workers{at}"

    def _stages(self, compressor: Compressor) -> StageSpecs:
        try:
            return checked_specs(
                compressor.stages(self.specs, self.n), str(self.compressor)
            )
        except InvalidArgumentError as error:
            raise AssertionError(f"{self._where()}: {error.message}") from error

    def _step(
        self, compressors: list[Compressor], kept: list[dict[str, Any]], step: int
    ) -> _Outcome:
        gradients = [self._gradients(step, rank) for rank in range(self.n)]
        whole = [
            {name: g + old.get(RESIDUAL + name, 0) for name, g in own.items()}
            for own, old in zip(gradients, kept, strict=True)
        ]
        try:
            means = self._carried_out(compressors, gradients, kept, step)
        except KitError as error:
            raise AssertionError(f"{self._where(step)}: {error.message}") from error
        for rank, own in enumerate(gradients):
            self._same(
                own,
                self._gradients(step, rank),
                f"{self._where(step)}: the gradient of",
                "was changed; read it only",
            )
            self._same(
                means[rank],
                means[0],
                f"{self._where(step)}: the mean gradient of",
                f"differs between workers 0 and {rank}; make it of the sums alone",
            )
        self._compare_sent(means[0], whole, kept, step)
        return _Outcome(means, kept)

    def _carried_out(
        self,
        compressors: list[Compressor],
        gradients: list[Arrays],
        kept: list[dict[str, Any]],
        step: int,
    ) -> list[Arrays]:
        """Return each worker's mean gradient; what is kept changes in place."""
        running = [
            Feedback(
                compressor, self.specs, self.stages, old, f"worker:{rank}"
            ).exchange(own, Turn(step, rank, self.n))
            for rank, (compressor, own, old) in enumerate(
                zip(compressors, gradients, kept, strict=True)
            )
        ]
        sent = [next(generator) for generator in running]
        for number in range(len(self.stages)):
            sums = _sum(sent)
            if number < len(self.stages) - 1:
                sent = [generator.send(_copied(sums)) for generator in running]
        return [_result(generator, _copied(sums)) for generator in running]

    def _gradients(self, step: int, rank: int) -> Arrays:
        """Return gradients; in some steps tiny ones, zeros, or of one worker alone."""
        dice = np.random.default_rng([self.seed, step, rank])
        scale = (1.0, 1e-3, 0.0, 1.0, float(rank == 0), 1e-30)[step]
        return {
            name: np.asarray(scale * dice.normal(size=shape), dtype)
            for name, shape, dtype in self.specs
        }

    def _compare_sent(
        self,
        mean: Arrays,
        whole: list[Arrays],
        kept: list[dict[str, Any]],
        step: int,
    ) -> None:
        """Compare the mean gradient with what the workers have not kept back."""
        for name, value in mean.items():
            if RESIDUAL + name not in kept[0]:
                continue  # without error feedback nothing is said of what was sent
            pairs = zip(whole, kept, strict=True)
            sent = (
                sum(grad[name] - old[RESIDUAL + name] for grad, old in pairs) / self.n
            )
            most = max(np.max(np.abs(gradient[name]), initial=0) for gradient in whole)
            is_far = np.abs(value - sent) > _NEAR * most
            if np.any(is_far):
                at = np.flatnonzero(is_far)[0]
                raise AssertionError(
                    f"{self._where(step)}: the mean gradient of {name!r} is "
                    f"{np.ravel(value)[at]:g} at element {at}, where the workers have "
                    f"sent {np.ravel(sent)[at]:g} in the mean, by what they say is "
                    f"their own; leave room for the sum of all workers in a stage's "
                    f"dtype, and return `own` in the units of the gradient."
                )

    def _compare_restored(self, first: _Outcome, again: _Outcome, step: int) -> None:
        for mean, other in zip(first.means, again.means, strict=True):
            self._same(
                mean,
                other,
                f"{self._where(step)}: the mean gradient of",
                f"is another one when the training goes on from a copy of what was "
                f"kept after {_SAVED} steps; keep nothing but in `state`, and let it "
                f"depend on nothing else",
            )

    def _same(self, first: Arrays, other: Arrays, what: str, why: str) -> None:
        for name, value in first.items():
            assert value.tobytes() == other[name].tobytes(), f"{what} {name!r} {why}."


def _sum(sent: Sequence[Arrays]) -> Arrays:
    total = _copied(sent[0])
    for gradient in sent[1:]:
        for name, value in gradient.items():
            total[name] = np.asarray(total[name] + value, total[name].dtype)
    return total


def _copied(arrays: Arrays) -> Arrays:
    return {name: np.array(value) for name, value in arrays.items()}


def _restored(kept: dict[str, Any]) -> dict[str, Array]:
    """Return what comes back from a checkpoint."""
    return kept_state.unpack(kept_state.pack(kept))


def _result(running: Any, sums: Arrays) -> Arrays:
    try:
        running.send(sums)
    except StopIteration as end:
        return {name: np.array(value) for name, value in (end.value or {}).items()}
    raise AssertionError("an exchange went on after its last stage.")
