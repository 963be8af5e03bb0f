"""Input that queues bring: `tf.train.shuffle_batch`, `tf.train.slice_input_producer`.

Each function adds a queue and its queue runner to the default graph, and the summary of
how full it is. Nothing comes before `tf.train.start_queue_runners`; a monitored session
does that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.control import control_dependencies
from kit.tf1.ops.arithmetic import cast, identity, maximum
from kit.tf1.ops.creation import range as range_of
from kit.tf1.ops.index import gather
from kit.tf1.ops.random import random_shuffle
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from kit.tf1.readers import matching_files
from kit.tf1.signature import with_options
from kit.tf1.summary.ops import scalar
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.dtypes import float32, int64, string
from kit.tf1.tensor.shape import TensorShape, as_shape
from kit.tf1.train.queues.queue_runner import QueueRunner, add_queue_runner
from kit.tf1.variables.assigning import count_up_to
from kit.tf1.variables.scopes import name_scope
from kit.tf1.variables.variables import Variable

_Make: TypeAlias = Callable[[Any, Any], QueueBase]

# --------------------------------------------------------------------------------------
# From a list of elements to a queue that gives one after the other, for some epochs


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: Any = None) -> Any:
    """Return a tensor that can be had `num_epochs` times, None for any number.

    Then a run raises `OutOfRangeError`. The count is a local variable: run
    `tf.local_variables_initializer()`. Raises `ValueError` for no epochs.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = Variable(
            convert_to_tensor(0, int64),
            name="epochs",
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )
        with control_dependencies([count_up_to(epochs, num_epochs)]):
            return identity(tensor, name=scope)


def match_filenames_once(pattern: Any, name: str | None = None) -> Any:
    """Return the names of matching files, a local variable; see `tf.matching_files`.

    Run `tf.local_variables_initializer()`.
    """
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        return Variable(
            matching_files(pattern),
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
            validate_shape=False,
            name=scope,
        )


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """Return a queue that gives the rows of a tensor, each epoch in another order.

    After `num_epochs` (see `limit_epochs`) it is closed. Raises `ValueError` for rows
    of an unknown shape.
    """
    with name_scope(name, "input_producer", [input_tensor]) as scope:
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        row_shape = rows.shape[1:].merge_with(as_shape(element_shape))
        if not row_shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or "
                "`element_shape` must be specified"
            )
        if shuffle:
            rows = random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        dtypes = [rows.dtype.base_dtype]
        queue = FIFOQueue(capacity, dtypes, [row_shape], None, shared_name, scope)
        runner = QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op)
        add_queue_runner(runner)
        if summary_name is not None:
            _show(summary_name, queue.size(), capacity)
        return queue


@dataclass
class _Epochs:
    """What producers of one kind of elements take besides these."""

    num_epochs: int | None = None
    shuffle: bool = True
    seed: int | None = None
    capacity: int = 32
    shared_name: str | None = None
    name: str | None = None

    def queue(self, rows: Any, **how: Any) -> FIFOQueue:
        """Return the queue of the rows, with a summary of how full it is."""
        full = f"fraction_of_{self.capacity}_full"
        return input_producer(rows, [], **vars(self), summary_name=full, **how)


@with_options(_Epochs)
def string_input_producer(
    string_tensor: Any, *, cancel_op: Any = None, options: _Epochs
) -> FIFOQueue:
    """Return a queue that gives texts, such as names of files; see `input_producer`.

    Raises `ValueError` without any.
    """
    texts = convert_to_tensor(string_tensor, string)
    if texts.shape.num_elements() == 0:
        raise ValueError("string_input_producer requires a non-null input tensor")
    return options.queue(texts, cancel_op=cancel_op)


@with_options(_Epochs)
def range_input_producer(limit: Any, options: _Epochs) -> FIFOQueue:
    """Return a queue that gives 0, 1, ... `limit` - 1; see `input_producer`."""
    with name_scope(options.name, "input_producer", [limit]) as scope:
        return replace(options, name=scope).queue(range_of(limit))


@with_options(_Epochs)
def slice_input_producer(tensor_list: Sequence[Any], options: Any) -> list[Any]:
    """Return a row of each tensor, the same one of all; see `input_producer`.

    Raises `ValueError` for no tensors.
    """
    with name_scope(options.name, "input_producer", list(tensor_list)):
        tensors = [convert_to_tensor(tensor) for tensor in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        how = vars(replace(options, name=None))
        index = range_input_producer(shape_of(tensors[0])[0], **how).dequeue()
        return [gather(tensor, index) for tensor in tensors]


# --------------------------------------------------------------------------------------
# From single elements to batches


@dataclass
class _Batches:
    """What all functions take that make batches of elements."""

    enqueue_many: bool = False
    shapes: Any = None
    allow_smaller_final_batch: bool = False
    shared_name: str | None = None
    name: str | None = None


@with_options(_Batches)
def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    *,
    dynamic_pad: bool = False,
    options: Any,
) -> Any:
    """Return batches of elements in their order: a tensor, a list or a dict of them.

    `tensors`, a list or a dict, is an element, or several with `enqueue_many`.
    `num_threads` threads compute them. With `dynamic_pad` they may differ in size and
    are padded with zeros. Raises `ValueError` for shapes that are not known. In a run:
    `OutOfRangeError` at the end of the input.
    """
    made = _in_order(capacity, options.shared_name, pads=dynamic_pad)
    return _batches("batch", [tensors], batch_size, made, options, num_threads)


@with_options(_Batches)
def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    *,
    options: Any,
) -> Any:
    """Return batches of elements in random order; see `batch` and `RandomShuffleQueue`.

    Raises `ValueError` if `capacity` is not bigger than `min_after_dequeue`.
    """
    made = _shuffled(capacity, min_after_dequeue, seed, options.shared_name)
    return _batches("shuffle_batch", [tensors], batch_size, made, options, num_threads)


@with_options(_Batches)
def batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int = 32,
    *,
    dynamic_pad: bool = False,
    options: Any,
) -> Any:
    """Return batches of elements from several sources, one thread for each."""
    made = _in_order(capacity, options.shared_name, pads=dynamic_pad)
    return _batches("batch_join", tensors_list, batch_size, made, options)


@with_options(_Batches)
def shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    *,
    options: Any,
) -> Any:
    """Return batches in random order from several sources, one thread for each."""
    made = _shuffled(capacity, min_after_dequeue, seed, options.shared_name)
    return _batches("shuffle_batch_join", tensors_list, batch_size, made, options)


def _in_order(capacity: int, shared_name: str | None, *, pads: bool) -> _Make:
    """Return what makes the queue of dtypes and shapes, and its summary."""

    def make(dtypes: Any, shapes: Any) -> QueueBase:
        kind = PaddingFIFOQueue if pads else FIFOQueue
        queue = kind(capacity, dtypes, shapes, None, shared_name)
        _show(f"fraction_of_{capacity}_full", queue.size(), capacity)
        return queue

    return make


def _shuffled(
    capacity: int, n_kept: int, seed: int | None, shared_name: str | None
) -> _Make:
    room = capacity - n_kept
    if room <= 0:
        raise ValueError(
            f"capacity {capacity} must be bigger than min_after_dequeue {n_kept}."
        )

    def make(dtypes: Any, shapes: Any) -> QueueBase:
        queue = RandomShuffleQueue(
            capacity, n_kept, dtypes, shapes, None, seed, shared_name
        )
        n_free = maximum(0, queue.size() - n_kept)
        _show(f"fraction_over_{n_kept}_of_{room}_full", n_free, room)
        return queue

    return make


def _show(name: str, size: Any, capacity: int) -> None:
    scalar(name, cast(size, float32) * (1.0 / capacity))


def _batches(
    default: str,
    sources: Sequence[Any],
    batch_size: Any,
    make: _Make,
    options: _Batches,
    n_threads: int = 1,
) -> Any:
    """Return batches of the elements of several sources, each in `n_threads`."""
    if not sources:
        raise ValueError("there is nothing to make batches of; give tensors.")
    keys = sorted(sources[0]) if isinstance(sources[0], Mapping) else None
    rows_listed = [_components(source, keys) for source in sources]
    name, is_many = options.name or default, options.enqueue_many
    with name_scope(
        None, name, [component for row in rows_listed for component in row]
    ) as scope:
        rows = [
            [convert_to_tensor(component) for component in row] for row in rows_listed
        ]
        dtypes = [tensor.dtype.base_dtype for tensor in rows[0]]
        queue = make(dtypes, _element_shapes(rows, options.shapes, is_many=is_many))
        put = queue.enqueue_many if is_many else queue.enqueue
        add_queue_runner(QueueRunner(queue, [put(row) for row in rows] * n_threads))
        may_be_smaller = options.allow_smaller_final_batch
        take = queue.dequeue_up_to if may_be_smaller else queue.dequeue_many
        taken = take(batch_size, name=scope)
    if keys is None:
        return taken
    return dict(zip(keys, taken if len(keys) > 1 else [taken], strict=True))


def _components(element: Any, keys: Sequence[Any] | None) -> list[Any]:
    if keys is not None:
        return [element[key] for key in keys]
    return list(element) if isinstance(element, list | tuple) else [element]


def _element_shapes(
    rows: Sequence[Sequence[Any]], shapes: Any, *, is_many: bool
) -> list[TensorShape]:
    """Return the shapes of an element's components, which all sources agree on."""
    if shapes is not None:
        is_one = isinstance(shapes, TensorShape) or not any(
            isinstance(shape, list | tuple | TensorShape) for shape in shapes
        )
        alone = is_one and len(rows[0]) == 1
        return [as_shape(shape) for shape in ([shapes] if alone else shapes)]
    shapes_of_elements = []
    for parts in zip(*rows, strict=True):
        element_shapes = [part.shape[1:] if is_many else part.shape for part in parts]
        shapes_of_elements.append(_common(element_shapes))
    return shapes_of_elements


def _common(shapes: Sequence[TensorShape]) -> TensorShape:
    """Return a shape that all fit: sizes that differ are unknown."""
    if any(shape.ndims != shapes[0].ndims or shape.ndims is None for shape in shapes):
        return TensorShape(None)
    sizes = zip(*[shape.as_list() for shape in shapes], strict=True)
    return TensorShape([size[0] if len(set(size)) == 1 else None for size in sizes])
