"""Queues: elements that wait on a task, in order or not, until they are taken.

A `FIFOQueueV2` and its like give the queue itself; the others take it as such, and run
where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.dtypes import STRING, DType, name_of
from kit.graph.static import Shape, Static, merge
from kit.graph.table import Attrs, enter, infer_fixed


def _queue(
    call: Any,
    *,
    capacity: int,
    dtypes: Sequence[DType],
    shapes: Sequence[Shape] | None,
    shared_name: str = "",
    **kind: Any,
) -> Any:
    return call.queue(capacity, dtypes, shapes, shared_name, **kind)


def _check(inputs: Sequence[Static], attrs: Attrs, extra: int) -> None:
    """Compare components with those of the queue, which have `extra` axes before."""
    dtypes, shapes = attrs["dtypes"], attrs["shapes"]
    for number, (static, dtype) in enumerate(zip(inputs[1:], dtypes, strict=False)):
        if static.dtype != dtype:
            raise TypeError(
                f"component {number} of the queue is {name_of(dtype)}, not "
                f"{name_of(static.dtype)}."
            )
        if extra and static.shape is not None and len(static.shape) < extra:
            raise ValueError(f"component {number} needs a first axis to be split.")
        if shapes is not None and static.shape is not None:
            merge(
                static.shape[extra:], shapes[number], f"component {number} of the queue"
            )


def _infer_enqueue(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    _check(inputs, attrs, 0)
    return []


def _infer_enqueue_many(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    _check(inputs, attrs, 1)
    merged: Shape = (None,)
    for number, static in enumerate(inputs[1:]):
        if static.shape is not None:
            merged = merge(merged, static.shape[:1], f"the rows of component {number}")
    return []


def _enqueue(call: Any, queue: Any, *parts: Any, **_: Any) -> tuple[()]:
    _check_number(queue, parts)
    queue.enqueue(call, [tuple(np.asarray(part) for part in parts)])
    return ()


def _check_number(queue: Any, parts: Sequence[Any]) -> None:
    if len(parts) != len(queue.dtypes):
        raise ValueError(
            f"an element of this queue has {len(queue.dtypes)} components, not "
            f"{len(parts)}."
        )


def _enqueue_many(call: Any, queue: Any, *parts: Any, **_: Any) -> tuple[()]:
    _check_number(queue, parts)
    sizes = {part.shape[0] for part in parts}
    if len(sizes) > 1:
        raise ValueError(
            f"the components have {sorted(sizes)} elements; give all the same number."
        )
    rows = zip(*[[np.asarray(row) for row in part] for part in parts], strict=True)
    queue.enqueue(call, list(rows))
    return ()


def _infer_dequeue(_: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    dtypes = attrs["dtypes"]
    shapes = attrs["shapes"] or [None] * len(dtypes)
    return [Static(s, d) for s, d in zip(shapes, dtypes, strict=True)]


def _infer_dequeue_many(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    n = inputs[1].value
    first = None if n is None or attrs["at_most"] else int(n)
    return [
        Static(None if static.shape is None else (first, *static.shape), static.dtype)
        for static in _infer_dequeue(inputs, attrs)
    ]


def _dequeue(call: Any, queue: Any, **_: Any) -> Any:
    (element,) = queue.dequeue(call, 1)
    return element if len(element) > 1 else element[0]


def _dequeue_many(
    call: Any, queue: Any, n: Any, *, at_most: bool, shapes: Any, **_: Any
) -> Any:
    if shapes is None:
        raise ValueError(
            "elements are stacked only if the queue was made with their shapes."
        )
    rows = call.stacked(queue.dequeue(call, int(n), at_most=at_most), queue)
    return rows if len(rows) > 1 else rows[0]


def _size(_: Any, queue: Any) -> Any:
    return np.asarray(queue.size, np.int32)


def _is_closed(_: Any, queue: Any) -> Any:
    return np.asarray(queue.is_closed)


def _close(call: Any, queue: Any, *, cancel_pending: bool) -> tuple[()]:
    queue.end(call, cancel_pending=cancel_pending)
    return ()


def _n_components(attrs: Attrs) -> int:
    return len(attrs["dtypes"])


_USES: dict[str, Any] = {"stateful": True, "refs": (0,)}
_PUTS: dict[str, Any] = {**_USES, "blocking": True, "n_outputs": 0}
_TAKES: dict[str, Any] = {**_USES, "blocking": True, "n_outputs": _n_components}

_QUEUE, _SIZE = Static((), STRING), Static((), np.dtype(np.int32))
_FLAG = Static((), np.dtype(bool))

for _type in ("FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2"):
    enter(_type, infer_fixed(_QUEUE), _queue, stateful=True, gives_ref=True)
enter("QueueEnqueueV2", _infer_enqueue, _enqueue, **_PUTS)
enter("QueueEnqueueManyV2", _infer_enqueue_many, _enqueue_many, **_PUTS)
enter("QueueDequeueV2", _infer_dequeue, _dequeue, **_TAKES)
enter("QueueDequeueManyV2", _infer_dequeue_many, _dequeue_many, **_TAKES)
enter("QueueSizeV2", infer_fixed(_SIZE), _size, **_USES)
enter("QueueIsClosedV2", infer_fixed(_FLAG), _is_closed, **_USES)
enter("QueueCloseV2", infer_fixed(), _close, **_USES, n_outputs=0)
