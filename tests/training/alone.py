"""Workers that train by themselves, by plain numpy: the oracle of local steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kit.training.optimizers.rule import Optimizer
from tests.training.toy import BATCH, Array, Params, X, Y, fit, initial, rows, update

Move = Callable[[Array, Array, dict[str, Array]], Array]


def descend(value: Array, gradient: Array, kept: dict[str, Array]) -> Array:
    """Do what gradient descent at rate 0.01 does, by its definition."""
    moved: Array = value - gradient * value.dtype.type(0.01)
    return moved


def roll(value: Array, gradient: Array, kept: dict[str, Array]) -> Array:
    """Do what momentum of 0.5 at rate 0.01 does, by its definition."""
    last = kept.get("a", np.zeros_like(value))
    kept["a"] = last * value.dtype.type(0.5) + gradient
    return descend(value, kept["a"], {})


def by(rule: Optimizer) -> Move:
    """Return what one update of an optimizer does, which is tested elsewhere."""

    def move(value: Array, gradient: Array, kept: dict[str, Array]) -> Array:
        step = int(kept.get("updates", np.zeros(1))[0])
        kept["updates"] = np.full(1, step + 1)
        return update(rule, value, gradient, kept, step)

    return move


class Alone:
    """What each worker offers before each exchange."""

    def __init__(self, n_workers: int, n_steps: int, move: Move, pieces: int = 1):
        self._n, self._n_steps, self._move = n_workers, n_steps, move
        self._pieces = pieces
        self.kept: list[dict[str, Params]]
        self.kept = [{name: {} for name in initial()} for _ in range(n_workers)]

    def __call__(self, params: Params, step: int) -> list[Params]:
        return [self.offer(params, step, rank) for rank in range(self._n)]

    def offer(
        self, params: Params, step: int, rank: int, own: Params | None = None
    ) -> Params:
        """Return how far a worker comes from `params`, weighed; it begins at `own`."""
        there = self.walk(params if own is None else own, step, rank)
        n_examples = len(np.array_split(np.arange(BATCH), self._n)[rank])
        weight = self._n * n_examples / BATCH
        moved = {name: value - there[name] for name, value in params.items()}
        return {k: v * v.dtype.type(weight) for k, v in moved.items()}

    def walk(self, own: Params, step: int, rank: int) -> Params:
        """Return where a worker is after the local steps before an exchange."""
        kept = self.kept[rank]
        for number in range(step * self._n_steps, (step + 1) * self._n_steps):
            part = np.array_split(rows(number), self._n)[rank]
            result = self.mean(own, part)
            own = {k: self._move(v, result[k], kept[k]) for k, v in own.items()}
        return own

    def mean(self, own: Params, part: Array) -> Params:
        """Return the gradient of some examples, computed in pieces."""
        total: Params = {}
        for piece in np.array_split(part, self._pieces):
            share = len(piece) / len(part)
            for name, value in fit(own, (X[piece], Y[piece]))[1].items():
                weighed = value if share == 1 else value * value.dtype.type(share)
                total[name] = total[name] + weighed if name in total else weighed
        return total
