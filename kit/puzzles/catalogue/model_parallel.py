"""Puzzles in which a network is too large for one task: split by layers, or within.

Pure. Huang et al., "GPipe", NeurIPS 2019; Narayanan et al., "PipeDream", SOSP 2019 (one
forward, one backward); Shoeybi et al., "Megatron-LM", 2019 (within a layer).
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from kit.puzzles.catalogue.collectives import N, workers
from kit.puzzles.catalogue.network import (
    LAYER,
    RATE,
    WIDTH,
    backward,
    batch,
    forward,
    gradients,
    linear,
    linear_backward,
    weights,
)
from kit.puzzles.figures import Figures
from kit.puzzles.puzzle import Given, Puzzle
from kit.puzzles.task import Array, Piece

_ROWS = 100  # of a micro-batch, so as many bytes as a layer's weights
_N_GPIPE, _N_1F1B, _N_BOTH = 4, 8, 4
_FEW_ROWS = 10
_N_STAGES = 2  # of the last puzzle, twice


def load(i: int, rows: int = _ROWS) -> Array:
    """Return micro-batch number i."""
    return batch(np.random.default_rng(1_000 + i), rows)


def target(i: int, rows: int = _ROWS) -> Array:
    """Return the wanted output of the network for micro-batch number i."""
    return batch(np.random.default_rng(2_000 + i), rows)


def _pieces(rows: int) -> dict[str, Piece]:
    return {
        "load": (partial(load, rows=rows), 0.0),
        "target": (partial(target, rows=rows), 0.0),
        "forward": (forward, 1.0),
        "backward": (backward, 2.0),
    }


def _stages(dice: np.random.Generator) -> Given:
    return [{"w": weights(dice)} for _ in range(N)]


def _summed(layers: list[Array], which: range, rows: int) -> list[Array]:
    """Return the gradient of each layer, added up over some micro-batches."""
    slopes = [gradients(layers, load(i, rows), target(i, rows)) for i in which]
    return [np.sum([slope[k] for slope in slopes], axis=0) for k in range(len(layers))]


def _stage_gradients(n_batches: int, inputs: Given) -> Given:
    layers = [held["w"] for held in inputs]
    return [{"g": g} for g in _summed(layers, range(n_batches), _ROWS)]


_PIPELINE = (
    "Worker k of four holds 'w', the weights of layer k. There are {n} micro-batches: "
    "task.load(i) returns the i-th, task.target(i) what the last layer should make of "
    "it. task.forward(w, x) takes 1 ms, task.backward(w, x, y, dy) 2 ms, messages take "
    "no time. In the end worker k holds 'g', the gradient of its layer, added up over "
    "all micro-batches; that of the last output y is y - target."
)

GPIPE = Puzzle(
    name="GPipe",
    goal=_PIPELINE.format(n="four"),
    tasks=workers(N),
    inputs=_stages,
    wanted=partial(_stage_gradients, _N_GPIPE),
    target=Figures(n_bytes=2 * _N_GPIPE * LAYER, idle=0.45),
    best_known={
        "GPipe": Figures(
            n_bytes=2 * _N_GPIPE * LAYER, n_in_a_row=12, memory=12 * LAYER, idle=3 / 7
        )
    },
    pieces=_pieces(_ROWS),
    bytes_per_ms=math.inf,
)

ONE_F_ONE_B = Puzzle(
    name="1F1B",
    goal=_PIPELINE.format(n="eight")
    + " As soon as it can, a worker does one backward for each forward, so that it "
    "need not keep the inputs and outputs of all micro-batches.",
    tasks=workers(N),
    inputs=_stages,
    wanted=partial(_stage_gradients, _N_1F1B),
    target=Figures(n_bytes=2 * _N_1F1B * LAYER, memory=14 * LAYER, idle=0.3),
    best_known={
        "1F1B": Figures(
            n_bytes=2 * _N_1F1B * LAYER, n_in_a_row=19, memory=13 * LAYER, idle=3 / 11
        )
    },
    pieces=_pieces(_ROWS),
    bytes_per_ms=math.inf,
)


def _slices(dice: np.random.Generator) -> Given:
    x, t = batch(dice, WIDTH), batch(dice, WIDTH)
    return [
        {"x": x, "t": t, "w1": weights(dice), "w2": weights(dice) / 2} for _ in range(N)
    ]


def _sliced_result(inputs: Given) -> Given:
    x, t = inputs[0]["x"], inputs[0]["t"]
    w1 = np.concatenate([held["w1"] for held in inputs], axis=1)
    w2 = np.concatenate([held["w2"] for held in inputs], axis=0)
    h = forward(w1, x)
    y = h @ w2
    dh, g2 = linear_backward(w2, h, y - t)
    dx, g1 = backward(w1, x, h, dh)
    parts = zip(np.split(g1, N, axis=1), np.split(g2, N), strict=True)
    return [{"y": y, "dx": dx, "g1": first, "g2": two} for first, two in parts]


TENSOR_PARALLEL = Puzzle(
    name="tensor parallel",
    goal=(
        "A network of two layers, y = tanh(x @ W1) @ W2, is cut within its layers: "
        "worker k of four holds 'w1', the k-th quarter of W1's columns, and 'w2', that "
        "of W2's rows; each holds 'x' and 't'. task.forward(w, x) and "
        "task.backward(w, x, y, dy) are a layer with tanh, task.linear(w, x) and "
        "task.linear_backward(w, x, dy) one without. In the end each holds 'y' and "
        "'dx', whole, where the gradient of y is y - t, and the gradients 'g1' and "
        "'g2' of its own quarters."
    ),
    tasks=workers(N),
    inputs=_slices,
    wanted=_sliced_result,
    target=Figures(n_bytes=6 * LAYER, n_in_a_row=8, memory=12 * LAYER, idle=0.6),
    best_known={
        "doubling": Figures(
            n_bytes=4 * LAYER, n_in_a_row=4, memory=11 * LAYER, idle=0.4
        ),
        "halving": Figures(n_bytes=3 * LAYER, n_in_a_row=8, memory=420_000, idle=1 / 3),
    },
    pieces={
        "forward": (forward, 1.0),
        "backward": (backward, 2.0),
        "linear": (linear, 1.0),
        "linear_backward": (linear_backward, 2.0),
    },
    bytes_per_ms=float(LAYER),
)


def _replicas(dice: np.random.Generator) -> Given:
    layers = [weights(dice) for _ in range(_N_STAGES)]
    return [{"w": w} for w in (*layers, *layers)]


def _replicas_updated(inputs: Given) -> Given:
    layers = [held["w"] for held in inputs[:_N_STAGES]]
    total = _summed(layers, range(2 * _N_BOTH), _FEW_ROWS)
    new = [
        {"w": w - RATE * g / (2 * _N_BOTH)} for w, g in zip(layers, total, strict=True)
    ]
    return [*new, *new]


COMBINED = Puzzle(
    name="both at once",
    goal=(
        "Two pipelines of two layers train the same network: worker:0 and worker:2 "
        "hold the first layer as 'w', worker:1 and worker:3 the second. The pipeline "
        "of workers 0 and 1 gets micro-batches 0 to 3, the other one gets 4 to 7. In "
        "the end 0.1 times the mean of the gradients of all eight micro-batches is "
        "subtracted from each 'w'. task.load, task.target, task.forward and "
        "task.backward are those of the pipelines before; a gradient takes 1 ms to "
        "send."
    ),
    tasks=workers(2 * _N_STAGES),
    inputs=_replicas,
    wanted=_replicas_updated,
    target=Figures(n_bytes=LAYER * 3 // 2, memory=200_000, idle=0.3),
    best_known={
        "two ahead": Figures(
            n_bytes=LAYER * 7 // 5, n_in_a_row=6, memory=156_000, idle=7 / 27
        ),
        "one ahead": Figures(
            n_bytes=LAYER * 7 // 5, n_in_a_row=6, memory=148_000, idle=11 / 41
        ),
    },
    pieces=_pieces(_FEW_ROWS),
    bytes_per_ms=float(LAYER),
)

MODEL_PARALLEL = (GPIPE, ONE_F_ONE_B, TENSOR_PARALLEL, COMBINED)
