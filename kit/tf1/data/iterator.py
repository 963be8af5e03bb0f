"""`tf.data.Iterator`: each run that fetches what `get_next` returns takes an element.

An iterator lives on the task on which its operation is placed, and there its dataset's
functions are computed.
"""

from __future__ import annotations

from typing import Any

from kit.tf1.data.structure import flatten, flatten_up_to, mapped, packed_like
from kit.tf1.tensor.convert import convert_to_tensor, create, create_op, op_scope
from kit.tf1.tensor.dtypes import as_dtype, numpy_of, string
from kit.tf1.tensor.shape import TensorShape, as_shape, static_of
from kit.tf1.tensor.tensor import Tensor


class Formed:
    """What has elements of one form: a dataset, and what goes over it."""

    _types: Any
    _shapes: Any

    @property
    def output_types(self) -> Any:
        """The dtype of each component, in the form of an element."""
        return self._types

    @property
    def output_shapes(self) -> Any:
        """The shape of each component, in the form of an element."""
        return self._shapes

    @property
    def output_classes(self) -> Any:
        """`tf.Tensor` for each component, in the form of an element."""
        return mapped(lambda _: Tensor, self._types)


class Iterator(Formed):
    """Gives the elements of a dataset, one a run."""

    def __init__(
        self, resource: Any, initializer: Any, types: Any, shapes: Any
    ) -> None:
        """Datasets make iterators, and `Iterator.from_structure`."""
        self._resource, self._initializer = resource, initializer
        self._types, self._shapes = types, shapes

    @staticmethod
    def from_structure(
        output_types: Any,
        output_shapes: Any = None,
        shared_name: str | None = None,
        output_classes: Any = None,
    ) -> Iterator:
        """Return an iterator that `make_initializer` gives a dataset of this form."""
        types, shapes = form_of(output_types, output_shapes)
        resource = create(
            "IteratorV2", name="Iterator", shared_name=shared_name or "", dataset=None
        )
        return Iterator(resource, None, types, shapes)

    @staticmethod
    def from_string_handle(
        string_handle: Any,
        output_types: Any,
        output_shapes: Any = None,
        output_classes: Any = None,
    ) -> Iterator:
        """Return the iterator that a run chooses by a handle; see `string_handle`."""
        types, shapes = form_of(output_types, output_shapes)
        handle = convert_to_tensor(string_handle, string)
        resource = create("IteratorFromStringHandleV2", handle, name=None)
        return Iterator(resource, None, types, shapes)

    def string_handle(self, name: str | None = None) -> Any:
        """Return a text by which `Iterator.from_string_handle` finds this iterator.

        Run it in the session that uses it, which must be on the same task.
        """
        with op_scope(name, "IteratorToStringHandle", [self._resource]) as scope:
            return create("IteratorToStringHandle", self._resource, name=scope)

    @property
    def initializer(self) -> Any:
        """The operation that begins a pass over the dataset.

        Raises `ValueError` for an iterator that needs none.
        """
        if self._initializer is None:
            raise ValueError(
                "Iterator does not have an initializer. A one-shot iterator begins by "
                "itself; one of from_structure is begun by make_initializer(dataset)."
            )
        return self._initializer

    def make_initializer(self, dataset: Any, name: str | None = None) -> Any:
        """Return an operation that begins a pass over `dataset`.

        Raises `TypeError` for components of other dtypes or another structure,
        `ValueError` for other shapes.
        """
        types = flatten_up_to(self._types, dataset.output_types)
        if types != flatten(self._types):
            raise TypeError(
                f"Expected output types {self._types!r} but got dataset with output "
                f"types {dataset.output_types!r}."
            )
        shapes = flatten_up_to(self._types, dataset.output_shapes)
        pairs = zip(flatten(self._shapes), shapes, strict=True)
        if not all(mine.is_compatible_with(other) for mine, other in pairs):
            raise TypeError(
                f"Expected output shapes compatible with {self._shapes!r} but got "
                f"dataset with output shapes {dataset.output_shapes!r}."
            )
        return begin_op(self._resource, dataset, name)

    def get_next(self, name: str | None = None) -> Any:
        """Return the next element, in the form that the dataset's elements have.

        Each run takes one, however often its tensors are used in it; each call of
        `get_next` stands for an element of its own. Raises in a run: `OutOfRangeError`
        after the last element, `FailedPreconditionError` before the initializer has
        run.
        """
        with op_scope(name, "IteratorGetNext", [self._resource]) as scope:
            op = create_op(
                "IteratorGetNext",
                self._resource,
                name=scope,
                dtypes=tuple(numpy_of(dtype) for dtype in flatten(self._types)),
                shapes=tuple(static_of(shape) for shape in flatten(self._shapes)),
            )
        return packed_like(self._types, op.outputs)


def form_of(types: Any, shapes: Any) -> tuple[Any, Any]:
    """Return the dtypes and shapes of an element; unknown ones without `shapes`."""
    dtypes = mapped(as_dtype, types)
    if shapes is None:
        return dtypes, mapped(lambda _: TensorShape(None), dtypes)
    return dtypes, packed_like(dtypes, map(as_shape, flatten_up_to(dtypes, shapes)))


def begin_op(resource: Any, dataset: Any, name: str | None) -> Any:
    """Return the operation that gives an iterator a dataset from its beginning."""
    plan, captured = dataset._plan()
    with op_scope(name, "MakeIterator", [resource]) as scope:
        return create_op("MakeIterator", resource, *captured, name=scope, **plan)
