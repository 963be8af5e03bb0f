"""The original's `Tensor`.

Pure. `kit.graph` does the work; this adds names, strict dtypes and texts.
"""

from __future__ import annotations

from typing import Any

from kit.graph.op import Tensor as NativeTensor
from kit.tf1.tensor.dtypes import DType, as_dtype
from kit.tf1.tensor.operator_table import Operators
from kit.tf1.tensor.shape import TensorShape, static_of

# What changes a variable gives that variable.
PASS_ON = frozenset(
    [
        "Assign",
        "AssignAdd",
        "AssignSub",
        "StridedSliceAssign",
        *(
            f"Scatter{kind}"
            for kind in ["Add", "Sub", "Update", "Mul", "Div", "Min", "Max"]
        ),
        *(f"ScatterNd{kind}" for kind in ("Add", "Sub", "Update")),
    ]
)


class Reference:
    """Stands for a tensor or variable as a key; equal if it stands for the same one."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def deref(self) -> Any:
        """Return what it stands for."""
        return self._of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._of is other._of

    def __hash__(self) -> int:
        return id(self._of)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._of!r}>"


class Tensor(Operators, NativeTensor):
    """One output of an operation, which has a value only in a session's run."""

    _public_shape: tuple[Any, TensorShape] = ((), TensorShape([]))

    @property
    def dtype(self) -> DType:
        """The element type; of a variable itself the reference to it."""
        base = as_dtype(self.static.dtype)
        is_ref = self.op.op_def.gives_ref or self.op.type in PASS_ON
        return base._as_ref if is_ref else base

    @property
    def shape(self) -> TensorShape:
        """The shape, as far as it is known."""
        # One object while nothing more is known: an unknown size equals itself alone.
        shape_seen, made = self._public_shape
        if shape_seen is not self.static.shape:
            made = TensorShape(self.static.shape)
            self._public_shape = self.static.shape, made
        return made

    def get_shape(self) -> TensorShape:
        """Return the shape, as far as it is known."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Add to what the graph has inferred about the shape."""
        super().set_shape(static_of(shape))

    @property
    def value_index(self) -> int:
        """The index among its operation's outputs."""
        return self.index

    def consumers(self) -> list[Any]:
        """Return the operations that take it, once for each time they do."""
        later = self.graph.ops[self.op.number + 1 :]
        return [op for op in later for tensor in op.inputs if tensor is self]

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Return its value, computed by `session` or the default one.

        Raises `ValueError` without a session, or with one of another graph.
        """
        from kit.tf1.session.running import session_for  # it needs this module first

        return session_for(self, session, "eval").run(self, feed_dict)

    def experimental_ref(self) -> Reference:
        """Return a key for dictionaries and sets, whose `deref()` is the tensor."""
        return Reference(self)

    def _shape_as_list(self) -> list[int | None] | None:
        return None if self.shape.ndims is None else self.shape.as_list()

    def __str__(self) -> str:
        shape = "" if self.shape.ndims is None else f", shape={self.shape}"
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}{device})'

    def __repr__(self) -> str:
        return f"<tf.Tensor {self.name!r} shape={self.shape} dtype={self.dtype.name}>"

    def __len__(self) -> int:
        raise TypeError(
            f"len is not well defined for {self}; use tensor.shape, or "
            f"tf.shape(tensor) in the graph."
        )
