"""Device scopes inside and outside of colocation, and groups that say where they go."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import run


def case_group_that_wants_this_task_runs(tf: Any) -> Any:
    free = tf.constant(1.0)
    with tf.colocate_with(free), tf.device("/cpu:0"):
        made = tf.identity(free)
    return run(tf, made)
