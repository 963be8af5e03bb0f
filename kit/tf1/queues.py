"""`tf.FIFOQueue` and others: elements that wait on a task until they are taken.

A queue lives where its operation is placed; equal `shared_name`s mean the same queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.errors import InvalidArgumentError
from kit.tf1.graph.graph import Graph
from kit.tf1.ops.random import get_seed
from kit.tf1.ops.write import settled
from kit.tf1.tensor.convert import (
    argument,
    convert_to_tensor,
    create,
    create_op,
    op_scope,
)
from kit.tf1.tensor.dtypes import DType, as_dtype, int32, numpy_of
from kit.tf1.tensor.shape import TensorShape, static_of

_PADDING = "PaddingFIFOQueueV2"


class QueueBase:
    """What all queues have in common."""

    def __init__(self, dtypes: list[DType], shapes: Any, names: Any, ref: Any) -> None:
        """Users make a `tf.FIFOQueue` or one of the others."""
        self._dtypes, self._shapes, self._names = dtypes, shapes, names
        self.queue_ref = ref
        # Where its operations are added, that scope is before their names.
        self._name = ref.op.name.split("/")[-1]
        self._attrs = {
            "dtypes": tuple(numpy_of(dtype) for dtype in dtypes),
            "shapes": shapes,
        }

    @staticmethod
    def from_list(index: Any, queues: Sequence[Any]) -> QueueBase:
        """Return the queue at an index that is known when the graph is built.

        Raises `TypeError` for anything that is not a list of queues with the same
        components, `InvalidArgumentError` for an index out of range,
        `NotImplementedError` for one that is known only in a run.
        """
        if not (
            queues
            and isinstance(queues, list)
            and all(isinstance(item, QueueBase) for item in queues)
        ):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if any(
            (item.dtypes, item.names) != (first.dtypes, first.names) for item in queues
        ):
            raise TypeError("Queues do not have matching component dtypes and names.")
        try:
            position = settled("RefSelect", "index", index)
        except ValueError as exc:
            raise NotImplementedError(
                "choose the queue in Python, by its place in a list."
            ) from exc
        if not 0 <= position < len(queues):
            raise InvalidArgumentError(
                None, None, f"there is no queue {position} among {len(queues)}."
            )
        queue: QueueBase = queues[position]
        return queue

    @property
    def name(self) -> str:
        """The name of its operation."""
        name: str = self.queue_ref.op.name
        return name

    @property
    def dtypes(self) -> list[DType]:
        """The types of the components."""
        return list(self._dtypes)

    @property
    def shapes(self) -> list[TensorShape]:
        """The shapes of the components."""
        shapes = self._shapes or [None] * len(self._dtypes)
        return [TensorShape(shape) for shape in shapes]

    @property
    def names(self) -> list[str] | None:
        """The names of the components, None if they have none."""
        return self._names  # type: ignore[no-any-return]

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        graph: Graph = self.queue_ref.graph
        return graph

    def enqueue(self, vals: Any, name: str | None = None) -> Any:
        """Return an operation that enqueues one element, and waits while it is full.

        An element is a tensor, a tuple of components, or a dict of them if they have
        names. Raises `ValueError` for other components than the queue's. In a run:
        `CancelledError` on a closed queue.
        """
        return self._put("QueueEnqueueV2", vals, name, f"{self._name}_enqueue")

    def enqueue_many(self, vals: Any, name: str | None = None) -> Any:
        """Return an operation that enqueues the rows of each component, one by one."""
        default = f"{self._name}_EnqueueMany"
        return self._put("QueueEnqueueManyV2", vals, name, default)

    def _put(self, op_type: str, vals: Any, name: str | None, default: str) -> Any:
        components = self._components(vals)
        with op_scope(name, default, [self.queue_ref, *components]) as scope:
            parts = [
                convert_to_tensor(component, dtype, name=f"component_{number}")
                for number, (component, dtype) in enumerate(
                    zip(components, self._dtypes, strict=False)
                )
            ]
            return create_op(op_type, self.queue_ref, *parts, name=scope, **self._attrs)

    def _components(self, vals: Any) -> list[Any]:
        if isinstance(vals, dict):
            if self._names is None:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals, key=str):
                raise ValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue. "
                    f"Dictionary: {sorted(vals)}, Queue: {sorted(self._names)}"
                )
            return [vals[name] for name in self._names]
        if self._names is not None:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        # A list holds components; those that the queue does not have are left out.
        return list(vals) if isinstance(vals, list | tuple) else [vals]

    def dequeue(self, name: str | None = None) -> Any:
        """Return the next element, and wait until there is one.

        One component comes as a tensor, several as a list, named ones as a dict. Raises
        in a run: `OutOfRangeError` on a closed queue that is empty.
        """
        with op_scope(name, f"{self._name}_Dequeue", [self.queue_ref]) as scope:
            components = create(
                "QueueDequeueV2", self.queue_ref, name=scope, **self._attrs
            )
        return self._element(components)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Return `n` elements at once, stacked, and wait until they are there.

        Raises in a run: `InvalidArgumentError` for a queue without shapes,
        `OutOfRangeError` on a closed queue with fewer.
        """
        return self._many(n, name, f"{self._name}_DequeueMany", at_most=False)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Return `n` elements at once, or those that a closed queue still has."""
        return self._many(n, name, f"{self._name}_DequeueUpTo", at_most=True)

    def _many(self, n: Any, name: str | None, default: str, *, at_most: bool) -> Any:
        op_type = "QueueDequeueManyV2"
        with op_scope(name, default, [self.queue_ref, n]) as scope:
            count = argument(op_type, "n", n, int32)
            static_count = count.static.value
            if (
                not at_most
                and static_count is not None
                and static_count.ndim == 0
                and static_count < 0
            ):
                raise ValueError(f"n is {static_count}; it must be 0 or more.")
            attrs = {**self._attrs, "at_most": at_most}
            return self._element(
                create(op_type, self.queue_ref, count, name=scope, **attrs)
            )

    def _element(self, components: Any) -> Any:
        if self._names is None:
            return components
        parts = components if isinstance(components, list) else [components]
        return dict(zip(self._names, parts, strict=True))

    def size(self, name: str | None = None) -> Any:
        """Return the number of elements in it."""
        with op_scope(name, f"{self._name}_Size", [self.queue_ref]) as scope:
            return create("QueueSizeV2", self.queue_ref, name=scope)

    def is_closed(self, name: str | None = None) -> Any:
        """Return whether it was closed."""
        with op_scope(name, f"{self._name}_Is_Closed", [self.queue_ref]) as scope:
            return create("QueueIsClosedV2", self.queue_ref, name=scope)

    def close(
        self, cancel_pending_enqueues: bool = False, name: str | None = None
    ) -> Any:
        """Return an operation that closes it to new elements; the others can be taken.

        Raises in a run: `CancelledError` for a queue that is closed.
        """
        with op_scope(name, f"{self._name}_Close", [self.queue_ref]) as scope:
            return create_op(
                "QueueCloseV2",
                self.queue_ref,
                name=scope,
                cancel_pending=bool(cancel_pending_enqueues),
            )


class FIFOQueue(QueueBase):
    """First in, first out; at most `capacity` elements, any number if it is -1."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        """Add the queue's operation to the default graph.

        Raises `ValueError` for shapes or names that are not one for each dtype, for
        shapes with an unknown size, and without a dtype.
        """
        queue = _made("FIFOQueueV2", capacity, dtypes, shapes, names, shared_name, name)
        super().__init__(*queue)


class PaddingFIFOQueue(QueueBase):
    """Like `tf.FIFOQueue`; of elements taken together, shorter ones end with zeros."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        """Add the queue's operation to the default graph; see `tf.FIFOQueue`.

        A size in `shapes` may be None. What is short there is padded with zeros, empty
        texts or False. Raises `ValueError` for an unknown number of axes.
        """
        super().__init__(
            *_made(
                _PADDING,
                capacity,
                dtypes,
                shapes,
                names,
                shared_name,
                name,
                {"pads": True},
            )
        )


class RandomShuffleQueue(QueueBase):
    """Gives its elements in random order; at most `capacity` are in it."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        """Add the queue's operation to the default graph; see `tf.FIFOQueue`.

        `min_after_dequeue` elements stay in it until it is closed, so that there is a
        choice. Equal seeds repeat an order, which is not the original's. Raises
        `InvalidArgumentError` if that many do not fit.
        """
        if not 0 <= min_after_dequeue < capacity:
            raise InvalidArgumentError(
                None,
                None,
                f"min_after_dequeue is {min_after_dequeue}; it must be 0 or more, and "
                f"less than the capacity, {capacity}.",
            )
        first, two = get_seed(seed)
        seeds = None if first is None else (int(first), int(two or 0))
        super().__init__(
            *_made(
                "RandomShuffleQueueV2",
                capacity,
                dtypes,
                shapes,
                names,
                shared_name,
                name,
                {"n_kept": int(min_after_dequeue), "seeds": seeds},
            )
        )


def _made(
    op_type: str,
    capacity: int,
    dtypes: Any,
    shapes: Any,
    names: Any,
    shared_name: str | None,
    name: str,
    kind: dict[str, Any] | None = None,
) -> tuple[list[DType], Any, Any, Any]:
    """Add a queue's operation, and return what `QueueBase` is made of."""
    kinds = dtypes if isinstance(dtypes, list | tuple) else [dtypes]
    components = [as_dtype(item) for item in kinds]
    if not components:
        raise ValueError("a queue has at least one component.")
    if isinstance(capacity, str):
        raise TypeError(f"the capacity is a whole number, not {capacity!r}.")
    shapes_listed = _shapes(shapes, len(components))
    for shape in shapes_listed or ():
        if shape is None or (None in shape and op_type != _PADDING):
            raise ValueError(
                f"All shapes must be fully defined: {shapes!r}. A "
                f"tf.PaddingFIFOQueue takes elements of different sizes."
            )
    labels = _names(names, len(components))
    ref = create(
        op_type,
        name=name,
        capacity=int(capacity),
        dtypes=tuple(numpy_of(component) for component in components),
        shapes=shapes_listed,
        shared_name=shared_name or "",
        **(kind or {}),
    )
    return components, shapes_listed, labels, ref


def _shapes(wanted: Any, count: int) -> tuple[Any, ...] | None:
    if wanted is None:
        return None
    is_one = isinstance(wanted, TensorShape) or not any(
        shape is None or isinstance(shape, list | tuple | TensorShape)
        for shape in wanted
    )
    shapes = [wanted] if is_one and count == 1 else list(wanted)
    if len(shapes) != count:
        raise ValueError(f"Queue shapes must have the same length as dtypes: {count}.")
    return tuple(map(static_of, shapes))


def _names(names: Any, count: int) -> list[str] | None:
    if names is None:
        return None
    listed = [names] if isinstance(names, str) else list(names)
    if len(listed) != count:
        raise ValueError("List of queue names must have the same length as dtypes")
    return listed
