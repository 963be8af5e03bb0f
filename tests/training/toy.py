"""A small model, its data, and its training in one process, for the tests of trainings.

The replay uses nothing of the exchange: the rows of each mini-batch, their split over
the workers, and the sum in the promised order are done again with plain numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import kit
from kit.testing.cluster import LocalCluster, local_cluster
from kit.trace.traffic import TransferKind
from kit.training.data.splits import shuffled
from kit.training.optimizers.rule import Optimizer
from tests.exchange import replay

Array = npt.NDArray[Any]
Params = dict[str, Array]

N, BATCH = 60, 10
DICE = np.random.default_rng(7)
X = DICE.normal(size=(N, 3)).astype(np.float32)
Y = (X @ np.array([1, -2, 3]) + 0.5).astype(np.float32)
DATA = (X, Y)


def initial() -> Params:
    """Return parameters of both dtypes, one without elements, one without axes."""
    return {
        "w": np.array([0.1, 0.2, -0.3], np.float32),
        "none": np.zeros((0, 2), np.float32),
        "b": np.array([0.25, -0.125], np.float64),
        "scale": np.array(1.0, np.float64),
    }


def fit(params: Params, batch: Sequence[Array]) -> tuple[float, Params]:
    """Return the mean squared error of scale * (x @ w) + sum(b), and its gradients."""
    x, y = batch
    inner = (x * params["w"]).sum(axis=1)
    error = params["scale"] * inner + params["b"].sum() - y
    slope = 2 * error / len(y)
    return float((error**2).mean()), {
        "w": (slope[:, None] * params["scale"] * x).sum(axis=0).astype(np.float32),
        "none": np.zeros((0, 2), np.float32),
        "b": np.full(2, slope.sum()),
        "scale": np.array((slope * inner).sum()),
    }


class Hasty(kit.GradientDescent):
    """A user's rule: it writes `out` before it has read the gradient."""

    def _update(self, v: Any, g: Any, slots: Any, out: Any, *_: Any) -> None:
        out[...] = v
        out -= g * v.dtype.type(0.002)


def rows(step: int, batch: int = BATCH, seed: int = 0) -> Array:
    """Return the examples of a mini-batch, in their order."""
    pass_index, index = divmod(step, N // batch)
    return shuffled(N, seed, pass_index)[index * batch : (index + 1) * batch]


def gradients(
    params: Params,
    step: int,
    n_workers: int,
    batch: int = BATCH,
    function: Callable[..., Any] = fit,
    n_pieces: int = 1,
) -> list[Params]:
    """Return each worker's weighted gradients, each added up of those of its pieces."""
    result = []
    for part in np.array_split(rows(step, batch), n_workers):
        total: Params = {}
        for piece in np.array_split(part, n_pieces):
            weight = n_workers * len(part) / batch * (len(piece) / len(part))
            for name, value in function(params, (X[piece], Y[piece]))[1].items():
                weighed = value if weight == 1.0 else value * value.dtype.type(weight)
                total[name] = total[name] + weighed if name in total else weighed
        result.append(total)
    return result


def replayed(
    steps: int,
    n_workers: int,
    optimizer: Optimizer,
    *,
    batch: int = BATCH,
    bucket: int = 0,
    of_workers: Callable[[Params, int], list[Params]] | None = None,
) -> Params:
    """Return the parameters after `steps` steps, bit for bit.

    `of_workers(params, step)` gives their weighted gradients; `fit` does by default.
    """

    def plain(params: Params, step: int) -> list[Params]:
        return gradients(params, step, n_workers, batch)

    by = partial(update, optimizer)
    return replay.train(initial(), steps, of_workers or plain, by, bucket)


def update(
    rule: Optimizer, value: Array, mean: Array, kept: dict[str, Array], step: int
) -> Array:
    """Return a tensor after an update of an optimizer, whose slots are `kept`."""
    flat, mean = (np.ascontiguousarray(item).ravel() for item in (value, mean))
    slots = [kept.setdefault(s.name, np.full_like(flat, s.initial)) for s in rule.slots]
    out = np.empty_like(flat)
    rule.apply(flat, mean, slots, out, step)
    return out.reshape(value.shape)


def by_kind(run: kit.Run, kind: TransferKind) -> int:
    """Return the bytes of all transfers of a kind."""
    totals = run.trace.totals
    return int(totals["bytes"][totals["kind"] == kind].sum())


def same_bits(first: Params, other: Params) -> bool:
    """Whether names, shapes, dtypes and every bit are equal."""
    return list(first) == list(other) and all(
        (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
        for a, b in zip(first.values(), other.values(), strict=True)
    )


@contextmanager
def quick_cluster(
    ps: int = 1, worker: int = 2, **changes: Any
) -> Iterator[LocalCluster]:
    """Give a cluster whose members hear of a failure in a twentieth of a second.

    They compare their parameters after each step: none may ever differ.
    """
    options = {"heartbeat_s": 0.05, "digest_every": 1} | changes
    with (
        kit.settings(**options) as chosen,
        local_cluster(ps, worker, settings=chosen) as cluster,
    ):
        yield cluster


def begin(
    cluster: Any, step: Any = fit, *, data: Any = DATA, **changes: Any
) -> kit.Run:
    """Begin to train the toy: six steps, if nothing else is said."""
    options: dict[str, Any] = {"steps": 6, "batch": BATCH} | changes
    return kit.train(step, initial(), data, cluster=cluster, **options)


def trained(n_ps: int, n_workers: int, step: Any = fit, **changes: Any) -> kit.Run:
    """Train the toy to its end, on a cluster of its own."""
    with quick_cluster(n_ps, n_workers) as cluster:
        return begin(cluster, step, **changes).wait(30)


def share(examples: Any) -> float:
    """Return a number that depends on which examples it is of."""
    return float((examples[:, 0] > 0).mean())


def telling(params: Params, batch: Any) -> Any:
    return (*fit(params, batch), {"accuracy": share(batch[0]), "n": len(batch[0])})
