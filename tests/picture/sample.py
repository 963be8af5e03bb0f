"""Graphs to draw."""

from __future__ import annotations

from typing import Any

import numpy as np

import kit


def two_towers() -> tuple[kit.Graph, Any]:
    """A model of one layer on ps:0 and its gradient on two workers; and what to run."""
    graph, gradients = kit.Graph(), []
    with graph.as_default():
        with kit.device("/job:ps/task:0"):
            w = kit.Variable(np.ones((4, 3), np.float32), name="w")
        for i in range(2):
            with kit.device(f"/job:worker/task:{i}"), kit.name_scope(f"tower_{i}"):
                x = kit.placeholder("float32", (None, 4), name="x")
                loss = np.mean(np.square(x @ w))
                gradients += kit.gradients(loss, [w])
        with kit.device("/job:ps/task:0"):
            step = w.assign_sub((gradients[0] + gradients[1]) * 0.5)
    return graph, step
