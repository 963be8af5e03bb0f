"""`tf.data.Dataset`: a description of elements, and of what is done with them.

It is plain data, which an iterator's operation keeps; nothing is computed before a run
takes an element. Functions become functions of the graph, computed for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as counting
from typing import Any, ClassVar, Final

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.dtypes import to_array
from kit.graph.ops.state.function import kept_by
from kit.graph.static import agrees
from kit.graph.subgraph import function_from
from kit.tf1.data.iterator import Formed, Iterator, begin_op, form_of
from kit.tf1.data.structure import flatten, flatten_up_to, mapped, packed_like
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops.random import get_seed
from kit.tf1.tensor.convert import convert_to_tensor, create
from kit.tf1.tensor.dtypes import bool_, int64, numpy_of, string
from kit.tf1.tensor.shape import TensorShape, as_shape, static_of
from kit.tf1.tensor.tensor import Tensor

_ids: Final = counting()


class Dataset(Formed):
    """Elements, each a tensor or a tuple or dict of tensors, in an order."""

    def __init__(self, stage: dict[str, Any], types: Any, shapes: Any) -> None:
        """Use `Dataset.from_tensor_slices` and its kin, and the methods of these."""
        # What a stage takes from the graph stands in it as a tensor.
        self._stage = {"id": next(_ids), **stage}
        self._types, self._shapes = types, shapes

    # -- where elements come from ------------------------------------------------------

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """Return a dataset of one element."""
        parts = _converted(tensors)
        return Dataset({"kind": "tensors", "parts": flatten(parts)}, *_form(parts))

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """Return a dataset of the rows of each component.

        Raises `ValueError` for a component without axes, and for different numbers of
        rows.
        """
        parts = _converted(tensors)
        sizes = TensorShape([None])
        for tensor in flatten(parts):
            if tensor.shape.ndims == 0:
                raise ValueError(
                    f"{tensor} has no axis along which it could be sliced."
                )
            if tensor.shape.ndims is not None:
                sizes = sizes.merge_with(tensor.shape[:1])
        types, shapes = _form(parts)
        rows = mapped(lambda item: item[1:], shapes)
        return Dataset({"kind": "slices", "parts": flatten(parts)}, types, rows)

    @staticmethod
    def range(*args: Any) -> Dataset:
        """Return a dataset of int64 numbers; the arguments are those of `range`."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Invalid arguments to RangeDataset: {args!r}")
        start, stop, step = (0, *args, 1)[-3:] if len(args) == 1 else (*args, 1)[:3]
        numbers = {"start": start, "stop": stop, "step": step}
        stage = {key: _number(number, key) for key, number in numbers.items()}
        return Dataset({"kind": "range", **stage}, int64, TensorShape([]))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any,
        output_shapes: Any = None,
        args: Any = None,
    ) -> Dataset:
        """Return a dataset of what `generator(*args)` yields, called for each pass.

        It runs in the process that made it; tasks of a `kit.Cluster` get it sent.
        Raises `TypeError` for what cannot be called.
        """
        if not callable(generator):
            raise TypeError("`generator` must be callable.")
        types, shapes = form_of(output_types, output_shapes)
        dtypes = [numpy_of(dtype) for dtype in flatten(types)]
        wanted = [static_of(shape) for shape in flatten(shapes)]
        form = mapped(lambda _: None, types)

        def elements(*arguments: Any) -> Any:
            return map(
                lambda element: _of_generator(element, form, dtypes, wanted),
                iter(generator(*arguments)),
            )

        stage = {
            "kind": "generator",
            "token": kept_by(get_default_graph(), elements),
            "args": [convert_to_tensor(value) for value in args or ()],
        }
        return Dataset(stage, types, shapes)

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Return a dataset of elements of several, as long as the shortest of them."""
        parts = flatten(datasets)
        for dataset in parts:
            if not isinstance(dataset, Dataset):
                raise TypeError(
                    f"The argument to Dataset.zip() must be a nested structure of "
                    f"datasets, as a tuple; not with {dataset!r}."
                )
        types = packed_like(datasets, [part.output_types for part in parts])
        shapes = packed_like(datasets, [part.output_shapes for part in parts])
        stage = {"kind": "zip", "all": [part._stage for part in parts]}
        return Dataset(stage, types, shapes)

    # -- what is done with them --------------------------------------------------------

    def concatenate(self, dataset: Dataset) -> Dataset:
        """Return the elements of this one, then those of another.

        Raises `TypeError` for another structure or other dtypes.
        """
        others = flatten_up_to(self._types, dataset.output_types)
        if others != flatten(self._types):
            raise TypeError(
                f"Two datasets to concatenate have different types {self._types!r} and "
                f"{dataset.output_types!r}"
            )
        pairs = zip(flatten(self._shapes), flatten(dataset.output_shapes), strict=True)
        shapes = [first.most_specific_compatible_shape(other) for first, other in pairs]
        stage = {"kind": "concatenate", "all": [self._stage, dataset._stage]}
        return Dataset(stage, self._types, packed_like(self._types, shapes))

    def repeat(self, count: Any = None) -> Dataset:
        """Return the elements `count` times over; None or -1: without end."""
        return self._with("repeat", count=_number(count, "count", -1))

    def take(self, count: Any) -> Dataset:
        """Return the first `count` elements; -1 means all."""
        return self._with("take", count=_number(count, "count"))

    def skip(self, count: Any) -> Dataset:
        """Return the elements after the first `count`; with -1 none."""
        return self._with("skip", count=_number(count, "count"))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Return every `num_shards`-th element, from number `index` on."""
        n, i = _number(num_shards, "num_shards"), _number(index, "index")
        if isinstance(n, int) and n < 1:
            raise ValueError(f"num_shards must be >= 1; got {n}")
        if isinstance(n, int) and isinstance(i, int) and not 0 <= i < n:
            raise ValueError(f"index must be between 0 and {n - 1}; got {i}")
        return self._with("shard", n=n, index=i)

    def shuffle(
        self,
        buffer_size: Any,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = None,
    ) -> Dataset:
        """Return the elements in a random order, drawn from `buffer_size` at a time.

        Seeds repeat the order, with other numbers than the original's. Each time that
        a later `repeat` begins again the order is another one, unless
        `reshuffle_each_iteration` is False.
        """
        seeds = get_seed(seed)
        return self._with(
            "shuffle",
            size=_number(buffer_size, "buffer_size"),
            seeds=None if seeds[0] is None and seeds[1] is None else list(seeds),
            anew=reshuffle_each_iteration is not False,
        )

    def batch(self, batch_size: Any, drop_remainder: Any = False) -> Dataset:
        """Return `batch_size` elements at a time, stacked; the last may be smaller."""
        first, whole = _batch_sizes(batch_size, drop_remainder)
        shapes = mapped(
            lambda shape: TensorShape([first]).concatenate(shape), self._shapes
        )
        return self._batched(batch_size, whole, None, shapes)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any,
        padding_values: Any = None,
        drop_remainder: Any = False,
    ) -> Dataset:
        """Return `batch_size` elements at a time, padded to one shape and stacked.

        An axis that `padded_shapes` leaves open is as long as the longest of the batch.
        By default the padding is 0, or the empty string.
        """
        wanted = [
            as_shape(shape) for shape in flatten_up_to(self._types, padded_shapes)
        ]
        types = flatten(self._types)
        values: list[Any] = [None] * len(types)
        if padding_values is not None:
            value_list = flatten_up_to(self._types, padding_values)
            values = [
                None if value is None else convert_to_tensor(value, dtype)
                for value, dtype in zip(value_list, types, strict=True)
            ]
        first, whole = _batch_sizes(batch_size, drop_remainder)
        paddings = [
            (None if shape.ndims is None else shape.as_list(), value)
            for shape, value in zip(wanted, values, strict=True)
        ]
        shapes = [TensorShape([first]).concatenate(shape) for shape in wanted]
        packed = packed_like(self._types, shapes)
        return self._batched(batch_size, whole, paddings, packed)

    def _batched(self, size: Any, whole: Any, paddings: Any, shapes: Any) -> Dataset:
        stage = {
            **{"kind": "batch", "of": self._stage, "paddings": paddings},
            **{"size": _number(size, "batch_size"), "whole": whole},
        }
        return Dataset(stage, self._types, shapes)

    def map(
        self, map_func: Callable[..., Any], num_parallel_calls: Any = None
    ) -> Dataset:
        """Return what a function makes of each element.

        It is called once, with tensors (the parts of a tuple as several arguments), and
        adds to the graph what is computed for each element. Elements come in order.
        """
        made, function, captured = self._traced(map_func, "map")
        stage = {
            **{"kind": "map", "of": self._stage},
            **{"function": function, "captured": captured},
        }
        return Dataset(stage, *_form(made))

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """Return the elements of the datasets that a function makes, in order.

        Raises `TypeError` if it makes anything else; see `map`.
        """
        return self.interleave(map_func, 1, 2**62)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = -1,
        block_length: Any = 1,
        num_parallel_calls: Any = None,
    ) -> Dataset:
        """Return elements of datasets that a function makes, by turns.

        `cycle_length` of them are open at a time, by default as many as the task has
        processors, and `block_length` elements are taken of each. See `flat_map`.
        """
        inner: Dataset | None = None
        plan: Any = None

        def tensors(*element: Any) -> Any:
            nonlocal inner, plan
            inner = map_func(*element)
            if not isinstance(inner, Dataset):
                raise TypeError("`map_func` must return a `Dataset` object.")
            plan, captured = inner._plan()
            return tuple(captured)

        _, function, captured = self._traced(tensors, "flatMap")
        assert inner is not None, "the function was called"
        stage = {
            **{"kind": "interleave", "of": self._stage, "tokens": plan["tokens"]},
            **{"function": function, "captured": captured},
            "inner": plan["dataset"]["root"],
            "block": _number(block_length, "block_length"),
            "cycle": _number(cycle_length, "cycle_length"),
        }
        return Dataset(stage, inner.output_types, inner.output_shapes)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """Return the elements for which a function gives True; see `map`.

        Raises `ValueError` if it gives anything but one bool.
        """
        made, function, captured = self._traced(predicate, "filter")
        if isinstance(made, tuple | dict) or made.dtype.base_dtype != bool_:
            raise ValueError("`predicate` must return a scalar boolean tensor.")
        return self._with("filter", function=function, captured=captured)

    def cache(self, filename: str = "") -> Dataset:
        """Return the same elements, kept in memory after the first pass.

        Raises `NotImplementedError` for a file.
        """
        if filename != "":
            raise NotImplementedError(
                "elements are cached in memory only; leave the file name out, or save "
                "them with numpy.save."
            )
        return self._with("cache")

    def prefetch(self, buffer_size: Any) -> Dataset:
        """Return the same elements; they are computed when a run takes them."""
        return self._with("prefetch", size=_number(buffer_size, "buffer_size"))

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Any:
        """Return what a function makes of this dataset."""
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError("`transformation_func` must return a Dataset.")
        return made

    # -- what it gives -----------------------------------------------------------------

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """Return an iterator that begins when its `initializer` is run."""
        resource = create(
            "IteratorV2", name="Iterator", shared_name=shared_name or "", dataset=None
        )
        initializer = begin_op(resource, self, None)
        return Iterator(resource, initializer, self._types, self._shapes)

    def make_one_shot_iterator(self) -> Iterator:
        """Return an iterator that begins by itself and passes once.

        Raises `ValueError` for a dataset that depends on placeholders or variables.
        """
        plan, captured = self._plan()
        if captured:
            prelude, _ = _prelude(captured)
            plan["dataset"]["prelude"] = prelude
            plan["tokens"] = [*plan["tokens"], *prelude["tokens"]]
        resource = create("OneShotIterator", name="OneShotIterator", **plan)
        return Iterator(resource, None, self._types, self._shapes)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} shapes: {self._shapes}, "
            f"types: {mapped(lambda dtype: dtype.name, self._types)}>"
        )

    def _with(self, kind: str, **stage: Any) -> Dataset:
        """Return a dataset whose elements have the same form."""
        stage_made = {"kind": kind, "of": self._stage, **stage}
        return Dataset(stage_made, self._types, self._shapes)

    def _traced(self, function: Callable[..., Any], what: str) -> Any:
        """Return what a function makes of an element, as tensors and as plain data."""
        graph = get_default_graph()
        begin = graph.version
        pairs = zip(flatten(self._types), flatten(self._shapes), strict=True)
        with (
            graph.name_scope(f"{what.capitalize()}Dataset"),
            graph.control_dependencies(None),
            graph.device(None),
        ):
            inputs = [
                create(
                    "Placeholder",
                    name="arg",
                    dtype=numpy_of(dtype),
                    shape=static_of(two),
                )
                for dtype, two in pairs
            ]
            element = packed_like(self._types, inputs)
            is_spread = isinstance(element, tuple) and not hasattr(element, "_fields")
            made = function(*element) if is_spread else function(element)
            if made is None:
                raise TypeError(f"the function given to {what}() returned nothing.")
            made = _converted(made, names=False)
        traced, captured = function_from(begin, inputs, flatten(made))
        return made, traced, captured

    def _plan(self) -> tuple[dict[str, Any], list[Any]]:
        """Return the attributes of an iterator, and the tensors that it takes."""
        captured: list[Any] = []
        tokens: list[str] = []

        def plain(stage: Any) -> Any:
            match stage:
                case Tensor():
                    if stage not in captured:
                        captured.append(stage)
                    return {"from": captured.index(stage)}
                case dict():
                    tokens.extend([stage["token"]] if "token" in stage else [])
                    tokens.extend(stage.get("tokens", []))
                    return {
                        key: value if key == "function" else plain(value)
                        for key, value in stage.items()
                    }
                case list() | tuple():
                    return [plain(part) for part in stage]
            return stage

        root = plain(self._stage)
        functions = [stage["function"]["tokens"] for stage in _mapping(root)]
        tokens += [token for item in functions for token in item]
        dataset = {"root": root, "prelude": None}
        return {"dataset": dataset, "tokens": tokens}, captured


def _mapping(stage: Any) -> list[Any]:
    """Return the stages that have a function."""
    below = [stage[key] for key in ("of",) if key in stage] + stage.get("all", [])
    own = [stage] if "function" in stage else []
    return [*own, *(item for part in below for item in _mapping(part))]


def _prelude(captured: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return what computes the tensors that a one-shot iterator takes."""
    stack, seen = [tensor.op for tensor in captured], set[Any]()
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type == "Placeholder":
            raise ValueError(
                f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by "
                f"value. Use make_initializable_iterator(), and feed it when its "
                f"initializer runs."
            )
        if op.op_def.gives_ref:
            raise ValueError(
                f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by "
                f"value. Use make_initializable_iterator()."
            )
        stack += [tensor.op for tensor in op.inputs]
    return function_from(0, [], captured)


def _converted(nest: Any, *, names: bool = True) -> Any:
    parts = flatten(nest)
    tensors = [
        convert_to_tensor(part, name=f"component_{i}" if names else None)
        for i, part in enumerate(parts)
    ]
    return packed_like(nest, tensors)


def _form(tensors: Any) -> tuple[Any, Any]:
    types = mapped(lambda tensor: tensor.dtype.base_dtype, tensors)
    return types, mapped(lambda tensor: tensor.shape, tensors)


def _number(count: Any, name: str, default: int | None = None) -> Any:
    """Return a whole number as itself, and a tensor of one as that."""
    if count is None and default is not None:
        return default
    if isinstance(count, int | np.integer) and not isinstance(count, bool):
        return int(count)
    number = convert_to_tensor(count, name=name)
    if not number.dtype.is_integer:
        raise TypeError(f"{name} is a whole number, not {count!r}.")
    if number.shape.ndims not in (None, 0):
        raise ValueError(f"{name} is one number, not of shape {number.shape}.")
    value = number.static.value
    return number if value is None else int(value)


def _batch_sizes(size: Any, drop_remainder: Any) -> tuple[Any, Any]:
    """Return the first axis of a batch, if known, and whether small ones are left out.

    That may be a tensor too.
    """
    number = _number(size, "batch_size")
    whole: Any = drop_remainder
    if not isinstance(drop_remainder, bool | np.bool_):
        is_dropped = convert_to_tensor(drop_remainder, bool_)
        whole = (
            is_dropped
            if is_dropped.static.value is None
            else bool(is_dropped.static.value)
        )
    is_known = whole is True and isinstance(number, int) and number > 0
    return (number if is_known else None), (
        whole if isinstance(whole, Tensor) else bool(whole)
    )


def _of_generator(
    element: Any, form: Any, dtypes: Sequence[Any], shapes: Sequence[Any]
) -> tuple[Any, ...]:
    try:
        parts = flatten_up_to(form, element)
    except (TypeError, ValueError) as exc:
        raise InvalidArgumentError(
            f"TypeError: `generator` yielded an element that did not match the "
            f"expected structure. The expected structure was {form!r}, but the yielded "
            f"element was {element!r}."
        ) from exc
    made = []
    for part, dtype, shape in zip(parts, dtypes, shapes, strict=True):
        try:
            array = to_array(part, dtype)
        except (TypeError, ValueError) as exc:
            raise InvalidArgumentError(
                f"TypeError: `generator` yielded an element that could not be "
                f"converted to the expected type. The expected type was {dtype}, but "
                f"the yielded element was {element!r}."
            ) from exc
        if not agrees(shape, array.shape):
            raise InvalidArgumentError(
                f"ValueError: `generator` yielded an element of shape {array.shape} "
                f"where an element of shape {TensorShape(shape)} was expected."
            )
        made.append(array)
    return tuple(made)


class _Files(Dataset):
    """The records of files, on the task of the iterator."""

    _reader: ClassVar[str]

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        **sizes: int,
    ) -> None:
        """Take one path or several; the compression is "GZIP", "ZLIB" or ""."""
        stage = {
            **{"kind": "files", "reader": self._reader, "sizes": sizes},
            "paths": convert_to_tensor(filenames, string, name="filenames"),
            "compression": ""
            if compression_type is None
            else convert_to_tensor(compression_type, string),
        }
        super().__init__(stage, string, TensorShape([]))


class TextLineDataset(_Files):
    """The lines of text files, each without its end."""

    _reader = "TextLineReaderV2"


class TFRecordDataset(_Files):
    """The records that a `tf.python_io.TFRecordWriter` has written."""

    _reader = "TFRecordReaderV2"


class FixedLengthRecordDataset(_Files):
    """The pieces of `record_bytes` of files, of each between two ends."""

    _reader = "FixedLengthRecordDatasetV2"

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        """Take one path or several, and whole numbers of bytes.

        In a run `InvalidArgumentError` for a file that is not of whole records.
        """
        sizes = {
            "record_bytes": int(record_bytes),
            "header_bytes": int(header_bytes or 0),
            "footer_bytes": int(footer_bytes or 0),
        }
        super().__init__(filenames, compression_type, **sizes)


# --------------------------------------------------------------------------------------
# The same as functions, which the last releases have.


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """Return an iterator that begins by itself and passes once."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(
    dataset: Dataset, shared_name: str | None = None
) -> Iterator:
    """Return an iterator that begins when its `initializer` is run."""
    return dataset.make_initializable_iterator(shared_name)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Return the dtype of each component of an element."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Return the shape of each component of an element."""
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """Return `tf.Tensor` for each component of an element."""
    return dataset_or_iterator.output_classes
