"""`tf.contrib.slim.prefetch_queue`: batches that threads compute ahead of the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.tf1.ops.arithmetic import multiply, to_float
from kit.tf1.queues import FIFOQueue, PaddingFIFOQueue
from kit.tf1.summary import scalar
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.train.queues.queue_runner import QueueRunner, add_queue_runner
from kit.tf1.variables.scopes import name_scope


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue | PaddingFIFOQueue:
    """Return a queue that threads fill with the values of a list or dict of tensors.

    `dequeue` gives them in the same form. With `dynamic_pad` sizes may be unknown.
    Raises `ValueError` for unknown sizes without it. The threads are those of
    `tf.train.start_queue_runners`.
    """
    names = sorted(tensors) if isinstance(tensors, Mapping) else None
    listed = tensors if names is None else [tensors[key] for key in names]
    with name_scope(name, "prefetch_queue", list(listed)):
        parts = [convert_to_tensor(part) for part in listed]
        dtypes, shapes = [x.dtype.base_dtype for x in parts], [x.shape for x in parts]
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queue = kind(capacity, dtypes, shapes, names, shared_name)
        values = parts if names is None else dict(zip(names, parts, strict=True))
        enqueue = queue.enqueue(values)
        add_queue_runner(QueueRunner(queue, [enqueue] * num_threads))
        share = multiply(to_float(queue.size()), 1.0 / capacity)
        scalar(f"fraction_of_{capacity}_full", share)
    return queue
