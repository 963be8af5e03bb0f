"""What a step costs that is compiled from a graph, beside the same step by hand.

    python -m benchmarks.graph_step [--quick] [--json FILE]

Loss and all gradients of one mini-batch, nothing exchanged: the model of `mlp.py` as
plain numpy, and as a graph that `kit.train` compiles for a worker. Both run in turn in
one process with one BLAS thread; each pair gives one ratio, and the median counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import mlp
from benchmarks.results import Table, arguments, median, report
from kit.graph.graph import Graph
from kit.graph.op import Tensor
from kit.graph.ops.nn.softmax import sparse_softmax_cross_entropy
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable
from kit.task import Task
from kit.training.features.graph_step.loss import work_of
from kit.training.features.graph_step.step import GraphStep

Step = Callable[..., Any]
_STEPS = {"small": 200, "large": 8}


def loss_of(params: dict[str, mlp.Floats], x: Tensor, labels: Tensor) -> Tensor:
    """Return the model's mean loss, written as one writes numpy."""
    last = len(params) // 2 - 1
    value: Any = x
    for number in range(last + 1):
        weights = Variable(params[f"w{number}"], name=f"w{number}")
        bias = Variable(params[f"b{number}"], name=f"b{number}")
        value = value @ weights + bias
        if number < last:
            value = np.maximum(value, 0)
    mean: Tensor = sparse_softmax_cross_entropy(labels, value).mean()
    return mean


def compiled(params: dict[str, mlp.Floats], in_parts: bool = False) -> Step:
    """Return the step that a worker compiles from the graph."""
    n = params["w0"].shape[0]
    with Graph().as_default():
        x, labels = placeholder("float32", (None, n)), placeholder("int64", (None,))
        data = {x: np.zeros((1, n), np.float32), labels: np.zeros(1, np.int64)}
        work = work_of(loss_of(params, x, labels), data)
    assert isinstance(work.step, GraphStep)
    return work.step.for_worker(Task("worker", 0), 0, 0, in_parts=in_parts)


def compare(name: str, rounds: int) -> dict[str, list[float]]:
    """Return the steps a second of each round, by hand and from the graph."""
    params = mlp.parameters(mlp.SIZES[name])
    x, labels = mlp.examples(mlp.SIZES[name])
    batch = (x[: mlp.BATCH], labels[: mlp.BATCH])
    both = {"by hand": mlp.step, "graph": compiled(params)}
    _check(both, params, batch)
    result: dict[str, list[float]] = {how: [] for how in both}
    for turn in range(rounds + 1):
        order = list(both.items())
        for how, step in order if turn % 2 else reversed(order):
            rate = _rate(step, params, batch, _STEPS[name])
            if turn:  # the first one warms up
                result[how].append(rate)
    return result


def _check(both: dict[str, Step], params: Any, batch: Any) -> None:
    (loss, gradients), (other, others) = (step(params, batch) for step in both.values())
    np.testing.assert_allclose(other, loss, rtol=1e-5)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(others[name], gradient, rtol=1e-3, atol=1e-6)


def _rate(step: Step, params: Any, batch: Any, steps: int) -> float:
    begin = time.perf_counter()
    for _ in range(steps):
        step(params, batch)
    return steps / (time.perf_counter() - begin)


def _row(name: str, result: dict[str, list[float]]) -> tuple[str, ...]:
    pairs = zip(result["graph"], result["by hand"], strict=True)
    ratios = [ours / theirs for ours, theirs in pairs]
    rates = [f"{median(result[how]):.1f}" for how in ("by hand", "graph")]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return (name, *rates, f"{median(ratios):.2f}", spread)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--models", nargs="+", choices=mlp.SIZES, default=[*mlp.SIZES])
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (5 if options.quick else 25)
    with threadpool_limits(1):
        result = {name: compare(name, rounds) for name in options.models}
    table = Table(
        "A step compiled from a graph, steps a second",
        (
            f"small is {mlp.SIZES['small']}, large {mlp.SIZES['large']}; batch "
            f"{mlp.BATCH}; ratios are of paired rounds.",
        ),
        ("model", "by hand", "graph", "graph / by hand", "all pairs"),
        tuple(_row(name, rates) for name, rates in result.items()),
    )
    report(table, {"steps_per_second": result}, options.json)


if __name__ == "__main__":
    main()
