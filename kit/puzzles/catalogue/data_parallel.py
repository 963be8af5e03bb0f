"""Puzzles of data-parallel training: where gradients are added, and what is kept.

Pure. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
models", SC 20, has the three stages of sharding.
"""

from __future__ import annotations

import numpy as np

from kit.puzzles.catalogue.collectives import N, S, normal, ring, workers
from kit.puzzles.catalogue.network import (
    DECAY,
    LAYER,
    N_LAYERS,
    RATE,
    backward,
    batch,
    forward,
    gradient,
    gradients,
    weights,
)
from kit.puzzles.figures import Figures
from kit.puzzles.puzzle import Given, Puzzle
from kit.puzzles.task import Array, Piece

_ROWS = 32  # of each worker's batch
_N_SERVERS, _N_CLIENTS = 2, 3
_PAIR = 2
_ALL_LAYERS = N_LAYERS * LAYER  # bytes


def _served(dice: np.random.Generator) -> Given:
    halves = [{"params": normal(dice, S // 8)} for _ in range(_N_SERVERS)]
    return [*halves, *({"gradient": normal(dice, S // 4)} for _ in range(_N_CLIENTS))]


def _updated(inputs: Given) -> Given:
    mean = np.mean([arrays["gradient"] for arrays in inputs[_N_SERVERS:]], axis=0)
    whole = np.concatenate([arrays["params"] for arrays in inputs[:_N_SERVERS]])
    new = whole - RATE * mean
    halves = [{"params": half} for half in np.split(new, _N_SERVERS)]
    return [*halves, *({"params": new} for _ in range(_N_CLIENTS))]


PARAMETER_SERVER = Puzzle(
    name="parameter server",
    goal=(
        "ps:0 and ps:1 (ranks 0 and 1) hold 'params', each one half of S = 400,000 "
        "bytes. Three workers (ranks 2 to 4) hold 'gradient', S bytes each. In the end "
        "0.1 times the mean of the gradients' halves is subtracted from each server's "
        "'params', and each worker holds 'params', both halves one after the other. "
        "Workers send only to servers, and servers only to workers."
    ),
    tasks=("ps:0", "ps:1", *workers(_N_CLIENTS)),
    inputs=_served,
    wanted=_updated,
    target=Figures(n_bytes=3 * S // 2, n_in_a_row=6, memory=2 * S),
    best_known={
        "turns": Figures(n_bytes=3 * S // 2, n_in_a_row=6, memory=3 * S // 2, idle=0.2)
    },
    links=frozenset(
        pair
        for server in range(_N_SERVERS)
        for worker in range(_N_SERVERS, _N_SERVERS + _N_CLIENTS)
        for pair in ((server, worker), (worker, server))
    ),
)


def _after_forward(dice: np.random.Generator) -> Given:
    layers = [weights(dice) for _ in range(N_LAYERS)]
    inputs = []
    for _ in range(_PAIR):
        seen = [batch(dice, _ROWS)]
        for w in layers:
            seen.append(forward(w, seen[-1]))
        arrays = {f"w{k}": w for k, w in enumerate(layers)}
        arrays |= {f"a{k}": a for k, a in enumerate(seen)}
        inputs.append({**arrays, "dy": seen[-1] - batch(dice, _ROWS)})
    return inputs


def _mean_gradients(inputs: Given) -> Given:
    slopes = []
    for held in inputs:
        layers = [held[f"w{k}"] for k in range(N_LAYERS)]
        t = held[f"a{N_LAYERS}"] - held["dy"]
        slopes.append(gradients(layers, held["a0"], t))
    mean = {
        f"g{k}": np.mean([slope[k] for slope in slopes], 0) for k in range(N_LAYERS)
    }
    return [mean for _ in inputs]


OVERLAP = Puzzle(
    name="overlap",
    goal=(
        "Two workers have done the forward pass of a network of four layers: they hold "
        "the weights w0 to w3, a0 to a4 (ak goes into layer k) and dy, the gradient of "
        "a4. task.backward(w, x, y, dy) returns the gradients of x and of w and takes "
        "1 ms, a gradient of w takes 1 ms to send. In the end both hold g0 to g3, the "
        "means of their gradients of w0 to w3."
    ),
    tasks=workers(_PAIR),
    inputs=_after_forward,
    wanted=_mean_gradients,
    target=Figures(n_bytes=_ALL_LAYERS, idle=0.25),
    best_known={
        "layer by layer": Figures(
            n_bytes=_ALL_LAYERS, n_in_a_row=4, memory=449_600, idle=0.2
        )
    },
    pieces={"backward": (backward, 1.0)},
    bytes_per_ms=float(LAYER),
)


def _whole(dice: np.random.Generator) -> Given:
    params = np.concatenate([weights(dice).ravel() for _ in range(N_LAYERS)])
    return [
        {
            "params": params,
            "x": batch(dice, _ROWS),
            "t": batch(dice, _ROWS),
            "m": normal(dice, LAYER // 4) / 10,
        }
        for _ in range(N)
    ]


def _whole_updated(inputs: Given) -> Given:
    params = inputs[0]["params"]
    mean = np.mean([gradient(params, held["x"], held["t"]) for held in inputs], axis=0)
    slots = DECAY * np.concatenate([held["m"] for held in inputs]) + mean
    new = params - RATE * slots
    return [{"params": new, "m": m} for m in np.split(slots, N)]


ZERO_1 = Puzzle(
    name="ZeRO-1",
    goal=(
        "Four workers hold 'params' (S = 160,000 bytes), 'x' and 't', and worker k the "
        "k-th quarter of the momentum, 'm'. task.gradient(params, x, t) returns the "
        "gradient, S bytes. In the end m = 0.9 m + (its quarter of the mean gradient), "
        "and each holds all of params - 0.1 m. A worker can send only to the next one."
    ),
    tasks=workers(N),
    inputs=_whole,
    wanted=_whole_updated,
    target=Figures(n_bytes=3 * _ALL_LAYERS // 2, n_in_a_row=6, memory=450_000),
    best_known={
        "round the ring": Figures(
            n_bytes=3 * _ALL_LAYERS // 2, n_in_a_row=6, memory=400_000, idle=0.6
        )
    },
    pieces={"gradient": (gradient, 4.0)},
    bytes_per_ms=float(LAYER),
    links=ring(N),
)


def _layers(dice: np.random.Generator) -> Given:
    layers = {f"w{k}": weights(dice) for k in range(N_LAYERS)}
    return [
        {
            **layers,
            "x": batch(dice, _ROWS),
            "t": batch(dice, _ROWS),
            "m": weights(dice) / 10,
        }
        for _ in range(N)
    ]


def _new_layers(layers: list[Array], inputs: Given) -> tuple[list[Array], list[Array]]:
    """Return the new momentum and the new weights of each layer."""
    slopes = [gradients(layers, held["x"], held["t"]) for held in inputs]
    slots = [
        DECAY * held["m"] + np.mean([each[k] for each in slopes], axis=0)
        for k, held in enumerate(inputs)
    ]
    return slots, [w - RATE * m for w, m in zip(layers, slots, strict=True)]


def _layers_updated(inputs: Given) -> Given:
    slots, new = _new_layers([inputs[0][f"w{k}"] for k in range(N_LAYERS)], inputs)
    layers = {f"w{k}": w for k, w in enumerate(new)}
    return [{**layers, "m": m} for m in slots]


_PIECES: dict[str, Piece] = {"forward": (forward, 1.0), "backward": (backward, 2.0)}

ZERO_2 = Puzzle(
    name="ZeRO-2",
    goal=(
        "Four workers hold the weights w0 to w3 (S = 160,000 bytes together), 'x' and "
        "'t', and worker k the momentum 'm' of layer k. task.forward(w, x) takes 1 ms, "
        "task.backward(w, x, y, dy) 2 ms; the gradient of the output y is y - t. No "
        "worker keeps all gradients: only worker k wants that of layer k. In the end m "
        "= 0.9 m + the mean gradient, and each holds w0 to w3, less 0.1 m."
    ),
    tasks=workers(N),
    inputs=_layers,
    wanted=_layers_updated,
    target=Figures(n_bytes=3 * _ALL_LAYERS // 2, memory=400_000),
    best_known={
        "nothing kept twice": Figures(
            n_bytes=3 * _ALL_LAYERS // 2, n_in_a_row=8, memory=316_800, idle=1 / 3
        )
    },
    pieces=_PIECES,
    bytes_per_ms=float(LAYER),
)


def _sharded(dice: np.random.Generator) -> Given:
    return [
        {
            "w": weights(dice),
            "m": weights(dice) / 10,
            "x": batch(dice, _ROWS),
            "t": batch(dice, _ROWS),
        }
        for _ in range(N)
    ]


def _sharded_updated(inputs: Given) -> Given:
    slots, new = _new_layers([held["w"] for held in inputs], inputs)
    return [{"w": w, "m": m} for w, m in zip(new, slots, strict=True)]


ZERO_3 = Puzzle(
    name="ZeRO-3",
    goal=(
        "As before, but worker k holds only the weights of layer k, 'w'. The others "
        "get them when they need them, forward and backward, and do not keep them. In "
        "the end m = 0.9 m + the mean gradient of layer k, and 0.1 m is subtracted "
        "from w."
    ),
    tasks=workers(N),
    inputs=_sharded,
    wanted=_sharded_updated,
    target=Figures(n_bytes=9 * _ALL_LAYERS // 4, memory=320_000),
    best_known={
        "fetched twice": Figures(
            n_bytes=9 * _ALL_LAYERS // 4, n_in_a_row=24, memory=236_800, idle=7 / 11
        )
    },
    pieces=_PIECES,
    bytes_per_ms=float(LAYER),
)

DATA_PARALLEL = (PARAMETER_SERVER, OVERLAP, ZERO_1, ZERO_2, ZERO_3)
