"""A model whose gradients are compressed, and its training again in plain numpy.

Nothing here uses the compressors or the exchange: each oracle is written from the
published algorithm, and its sums are those of `tests.exchange.replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kit.crc import crc32
from kit.training.optimizers.rule import Optimizer
from tests.exchange import replay
from tests.training.toy import BATCH, Array, N, Params, rows, update

DICE = np.random.default_rng(11)
X = DICE.normal(size=(N, 8)).astype(np.float32)
Y = (X @ DICE.normal(size=(8, 6)) + 0.5).astype(np.float32)
DATA = (X, Y)

Kept = dict[str, Any]  # what a compressor keeps, the same at every worker
Oracle = Callable[[list[Params], int, Kept], tuple[Params, list[Params]]]


def initial() -> Params:
    """Return a matrix, a vector of the other dtype, one number, and one of nothing."""
    return {
        "w": np.zeros((8, 6), np.float32),
        "none": np.zeros((0, 2), np.float32),
        "b": np.zeros(6, np.float64),
        "scale": np.array(1.0, np.float64),
    }


def fit(params: Params, batch: Sequence[Array]) -> tuple[float, Params]:
    """Return the mean squared error of scale * (x @ w + b), and its gradients."""
    x, y = batch
    inner = (x[:, :, None] * params["w"]).sum(axis=1) + params["b"]
    error = params["scale"] * inner - y
    slope = 2 * params["scale"] * error / len(y)
    return float((error**2).sum(axis=1).mean()), {
        "w": (x[:, :, None] * slope[:, None, :]).sum(axis=0).astype(np.float32),
        "none": np.zeros((0, 2), np.float32),
        "b": slope.sum(axis=0),
        "scale": np.array((2 * error * inner).sum() / len(y)),
    }


def gradients(params: Params, step: int, n_workers: int) -> list[Params]:
    """Return each worker's gradients, weighted by its number of examples."""
    result = []
    for part in np.array_split(rows(step), n_workers):
        _, own = fit(params, (X[part], Y[part]))
        weight = n_workers * len(part) / BATCH
        result.append({name: g * g.dtype.type(weight) for name, g in own.items()})
    return [{name: np.asarray(g) for name, g in text.items()} for text in result]


def replayed(
    steps: int, n_workers: int, optimizer: Optimizer, oracle: Oracle
) -> Params:
    """Return the parameters after `steps` steps with error feedback, bit for bit."""
    params, kept = initial(), Kept()
    residuals = [
        {name: np.zeros_like(value) for name, value in params.items()}
        for _ in range(n_workers)
    ]
    slots: dict[str, dict[str, Array]] = {name: {} for name in params}
    for step in range(steps):
        pairs = zip(gradients(params, step, n_workers), residuals, strict=True)
        whole = [
            {name: np.asarray(row[name] + rest[name]) for name in params}
            for row, rest in pairs
        ]
        mean, own = oracle(whole, step, kept)
        residuals = [
            {name: np.asarray(row[name] - sent[name]) for name in params}
            for row, sent in zip(whole, own, strict=True)
        ]
        for name, value in params.items():
            params[name] = update(optimizer, value, mean[name], slots[name], step)
    return params


def float16(rows: list[Params], step: int, kept: Kept) -> tuple[Params, list[Params]]:
    """Divide by n, round to float16, and add in float16."""
    n, like = len(rows), rows[0]
    share = {name: g.dtype.type(1 / n) for name, g in like.items()}
    sent = [{k: (g * share[k]).astype("e") for k, g in text.items()} for text in rows]
    total = replay.total(sent)
    mean = {name: total[name].astype(g.dtype) for name, g in like.items()}
    return mean, [{k: h.astype(like[k].dtype) * n for k, h in s.items()} for s in sent]


def int8(rows: list[Params], step: int, kept: Kept) -> tuple[Params, list[Params]]:
    """Round to multiples of the sum of all largest magnitudes / (126 - n/2)."""
    n, like = len(rows), rows[0]
    mosts = [
        {
            k: np.array(max(map(abs, g.flat), default=0), g.dtype)
            for k, g in text.items()
        }
        for text in rows
    ]
    scale = {
        name: most / most.dtype.type(126 - n / 2)
        for name, most in replay.total(mosts).items()
    }
    numbers = [
        {k: np.rint(g / (scale[k] or 1)).astype(int) for k, g in text.items()}
        for text in rows
    ]
    total = {
        name: np.sum([number[name] for number in numbers], axis=0) for name in like
    }
    assert all(np.all(np.abs(value) <= 127) for value in total.values())
    mean = {k: total[k].astype(g.dtype) * (scale[k] / n) for k, g in like.items()}
    own = [
        {k: q.astype(like[k].dtype) * scale[k] for k, q in m.items()} for m in numbers
    ]
    return mean, own


def top_k(rows: list[Params], step: int, kept: Kept) -> tuple[Params, list[Params]]:
    """Send what all have in the places of the largest elements of the step's leader.

    Of 48 elements 3, of 6 one: a twentieth, rounded up.
    """
    n, masks = len(rows), dict[str, Array]()
    for name, count in {"w": 3, "b": 1}.items():
        sizes = np.abs(rows[step % n][name])
        order = sorted(range(sizes.size), key=lambda at: (-sizes.flat[at], at))
        masks[name] = np.isin(np.arange(sizes.size), order[:count]).reshape(sizes.shape)
    total = replay.total(
        [row | {name: row[name][mask] for name, mask in masks.items()} for row in rows]
    )
    for name, mask in masks.items():
        values, total[name] = total[name], np.zeros_like(rows[0][name])
        total[name][mask] = values
    mean = {name: tensor * tensor.dtype.type(1 / n) for name, tensor in total.items()}
    return mean, [
        row | {name: row[name] * mask for name, mask in masks.items()} for row in rows
    ]


def power_sgd(rows: list[Params], step: int, kept: Kept) -> tuple[Params, list[Params]]:
    """Send the matrix as two factors of rank 2; the rest whole, beside the first."""
    n = len(rows)
    if "q" not in kept:
        bits = np.random.Philox(key=[crc32(b"w"), 2])
        start = np.random.Generator(bits).random((6, 2)) - 0.5
        kept["q"] = start.astype(np.float32)
    total = replay.total([row | {"w": row["w"] @ kept["q"]} for row in rows])
    mean = {name: tensor * tensor.dtype.type(1 / n) for name, tensor in total.items()}
    first, two = mean["w"].T.copy()
    first = first / length(first)
    for _ in range(2):
        two = two - first * (first * two).sum()
    basis = np.stack([first, two / length(two)]).T.copy()
    factors = [g["w"].T @ basis for g in rows]
    summed = replay.total([{"w": factor} for factor in factors])["w"]
    kept["q"] = summed * np.float32(1 / n)
    mean["w"] = basis @ kept["q"].T
    own = [
        item | {"w": basis @ factor.T}
        for item, factor in zip(rows, factors, strict=True)
    ]
    return mean, own


def length(values: Array) -> Any:
    """Return the Euclidean norm, without overflow."""
    most = np.abs(values).max()
    return most * np.sqrt(((values / most) ** 2).sum())
