"""One process of the benchmark of convolutions: the same program, over either system.

`python -m benchmarks.convolutions_rank`; arguments: rank, number of ranks, and `kit` or
`tensorflow`. Both compute with one thread, and say how much of a processor's time one
run took: on a busy machine that tells more than a clock.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import numpy as np

from benchmarks.rank_group import obey

BATCH = 50
_MODULES = {"kit": "kit.tf1", "tensorflow": "tensorflow.compat.v1"}
_WINDOWS: Any = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
_LAYERS = {
    "5x5x1x32": ((BATCH, 28, 28, 1), (5, 5, 1, 32)),
    "5x5x32x64": ((BATCH, 14, 14, 32), (5, 5, 32, 64)),
}


class Images:
    """A graph with each op by itself, and with a step of a network; its session."""

    def __init__(self, system: str) -> None:
        self._tf: Any = importlib.import_module(_MODULES[system])
        if system == "tensorflow":
            self._tf.disable_v2_behavior()
        self._rng = np.random.default_rng(0)
        self._cases: dict[str, Any] = {}
        for name, shapes in _LAYERS.items():
            self._add_convolution(name, *shapes)
        for name in ("max_pool", "avg_pool"):
            self._add_pool(name)
        self._feed = self._add_step()
        config = self._tf.ConfigProto(
            intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
        )
        self._session = self._tf.Session(config=config)
        self._session.run(self._tf.global_variables_initializer())

    def measure(self, case: str, repeats: int) -> list[float]:
        """Run a case; returns the milliseconds of each run."""
        took = []
        for _ in range(repeats):
            begin = time.process_time()
            self._session.run(self._cases[case], self._feed if case == "step" else None)
            took.append(1e3 * (time.process_time() - begin))
        return took

    def losses(self, steps: int) -> list[float]:
        """Return the network's loss after each of some steps from its start."""
        self._session.run(self._tf.global_variables_initializer())
        result = []
        for _ in range(steps):
            self._session.run(self._cases["step"], self._feed)
            result.append(float(self._session.run(self._loss, self._feed)))
        return result

    def _normal(self, shape: tuple[int, ...], scale: float = 1.0) -> Any:
        values = scale * self._rng.standard_normal(shape)
        return self._tf.Variable(values.astype(np.float32))

    def _add_convolution(
        self, name: str, x_shape: tuple[int, ...], w_shape: tuple[int, ...]
    ) -> None:
        tf = self._tf
        x, w = self._normal(x_shape), self._normal(w_shape)
        dy = self._normal((*x_shape[:3], w_shape[3]))
        y = tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
        dx, dw = tf.gradients(y, [x, w], dy)
        self._cases[f"{name} result"] = y.op
        self._cases[f"{name} by images"] = dx.op
        self._cases[f"{name} by filters"] = dw.op

    def _add_pool(self, name: str) -> None:
        x = self._normal((BATCH, 28, 28, 32))
        y = getattr(self._tf.nn, name)(x, **_WINDOWS)
        dy = self._normal((BATCH, 14, 14, 32))
        self._cases[name] = y.op
        self._cases[f"{name} and gradient"] = self._tf.gradients(y, x, dy)[0].op

    def _add_step(self) -> dict[Any, Any]:
        """Add a step of the usual network for MNIST; returns what is fed."""
        tf = self._tf
        x = tf.placeholder(tf.float32, [None, 784])
        labels = tf.placeholder(tf.float32, [None, 10])
        hidden = tf.reshape(x, [-1, 28, 28, 1])
        for _, w_shape in _LAYERS.values():
            w, b = self._normal(w_shape, 0.1), self._normal(w_shape[3:], 0.1)
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, w, [1, 1, 1, 1], "SAME") + b)
            hidden = tf.nn.max_pool(hidden, **_WINDOWS)
        w, b = self._normal((7 * 7 * 64, 1024), 0.02), self._normal((1024,), 0.1)
        hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, 7 * 7 * 64]), w) + b)
        w, b = self._normal((1024, 10), 0.02), self._normal((10,), 0.1)
        logits = tf.matmul(hidden, w) + b
        self._loss = tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        step = tf.train.GradientDescentOptimizer(1e-3).minimize(self._loss)
        self._cases["step"] = step
        images = self._rng.random((BATCH, 784), dtype=np.float32)
        classes = np.eye(10, dtype=np.float32)[self._rng.integers(0, 10, BATCH)]
        return {x: images, labels: classes}


def main() -> None:
    images = Images(sys.argv[3])
    obey(int(sys.argv[1]), {"measure": images.measure, "losses": images.losses})


if __name__ == "__main__":
    main()
