"""The table of ops: shape rule, computation and gradient of each kind of op.

Pure. An entry (`OpDef`) has the shape rule, which runs when a line is written, the
computation on `xp` (numpy or cupy), which runs on a task, and the gradient, which adds
ops to the graph. The entries themselves stand in `kit.graph.ops`; `lookup` finds them.

    forward(xp, *arrays, **attrs)      of an ordinary op: an array, or a tuple of them
    forward(call, *values, **attrs)    of a stateful op: `call` gives access to its task
    bind(xp, attrs)(*arrays)           the same as the first, with less work per call
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from kit.graph.static import Static

if TYPE_CHECKING:
    from kit.graph.op import Op, Tensor

Attrs: TypeAlias = Mapping[str, Any]
Infer: TypeAlias = Callable[[Sequence[Static], Attrs], Sequence[Static]]
Forward: TypeAlias = Callable[..., Any]
Bind: TypeAlias = Callable[[ModuleType, Attrs], Callable[..., Any]]
# From the gradients of the op's outputs (None: nothing depends on it) to those of its
# inputs (None: no gradient flows there; an IndexedSlices where it is sparse).
Gradient: TypeAlias = Callable[["Op", Sequence["Tensor | None"]], Sequence[Any]]


@dataclass(frozen=True)
class OpDef:
    """One kind of op.

    Attributes
    ----------
    name : str
        The op's type, as in TensorFlow: "MatMul".
    infer : callable
        Shapes and dtypes of the outputs from those of the inputs. Raises `ValueError`
        for shapes and `TypeError` for dtypes that do not fit.
    forward : callable
        The computation; see the head of this file.
    gradient : callable or None
        None: gradients silently stop here (argmax, comparisons). `missing`: asking for
        a gradient is an error.
    stateful : bool
        Is given a `kit.session.worker.call.StepCall`, runs at most once a step, and is
        never folded.
    refs : tuple of int
        Numbers of the inputs that take a variable itself, not its value.
    blocking : bool
        May wait for another client, so it runs after all ops that do not.
    gives_ref : bool
        The output is the variable itself.
    n_outputs : int or callable
        The number of outputs, or a function that finds it from the attributes.
    bind : callable or None
        Makes the computation for fixed attributes. Called once a program, so that each
        run is as fast as the array function itself.
    hosted : bool
        Computes with numpy on the host, never on a GPU.
    sizes_from : int or None
        From this input on, inputs are sizes and positions, which the computation reads
        as Python numbers. They are numpy's arrays on a GPU too.
    of_shape : bool
        Asks its input for its shape alone, so the result is numpy's on a GPU too.
    rows : bool
        The gradient accepts an `IndexedSlices` and passes it on.
    takes : str
        Numpy's letters for the kinds of numbers that TensorFlow's op takes, where these
        are fewer than numpy's: b bool, i and u whole, f floating point, c complex, O
        text. Empty: all that the shape rule takes.
    call : str
        TensorFlow's function that is this op alone, with the names of its inputs:
        "exp(x)", "nn.relu(features)". `kit.tf1` makes it of this entry.
    doc : str
        What that function returns, in words.
    """

    name: str
    infer: Infer
    forward: Forward
    gradient: Gradient | None = None
    stateful: bool = False
    refs: tuple[int, ...] = ()
    blocking: bool = False
    gives_ref: bool = False
    n_outputs: int | Callable[[Attrs], int] = 1
    bind: Bind | None = None
    hosted: bool = False
    sizes_from: int | None = None
    of_shape: bool = False
    rows: bool = False
    takes: str = ""
    call: str = ""
    doc: str = ""

    def kernel(self, xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
        """Return the computation of an ordinary op: from arrays to its output."""
        if self.bind is not None:
            return self.bind(xp, attrs)
        return partial(self.forward, xp, **attrs)


def infer_like(n: int) -> Infer:
    """Return the shape rule of an op whose result has the shape of input `n`.

    Its dtype is that of the first input.
    """
    return lambda inputs, _: [Static(inputs[n].shape, inputs[0].dtype)]


def infer_fixed(*statics: Static) -> Infer:
    """Return the shape rule of an op whose results are always these."""
    return lambda inputs, _: statics


def missing(op: Op, gradients: Sequence[Tensor | None]) -> Sequence[Any]:
    """Raise `LookupError`: the gradient of an op that has none yet."""
    raise LookupError(
        f"op {op.name!r} of type {op.type} has no gradient; put kit.stop_gradient "
        f"around its result if none is wanted."
    )


TABLE: dict[str, OpDef] = {}


def register(op_def: OpDef) -> OpDef:
    """Add an entry to the table; raises `ValueError` if its name is taken."""
    if op_def.name in TABLE:
        raise ValueError(f"the table has an op {op_def.name!r} already.")
    TABLE[op_def.name] = op_def
    return op_def


def enter(
    name: str,
    infer: Infer,
    forward: Forward,
    gradient: Gradient | None = None,
    **more: Any,
) -> None:
    """Add an entry; `more` are further fields of `OpDef`."""
    register(OpDef(name, infer, forward, gradient, **more))


def register_bound(
    name: str, infer: Infer, bind: Bind, gradient: Gradient | None = None, **more: Any
) -> None:
    """Add an entry that has a `bind` only; `more` are further fields."""

    def forward(xp: ModuleType, *inputs: Any, **attrs: Any) -> Any:
        return bind(xp, attrs)(*inputs)

    enter(name, infer, forward, gradient, bind=bind, **more)


def lookup(name: str) -> OpDef:
    """Return the entry of a type; raises `LookupError` for an unknown one."""
    try:
        return TABLE[name]
    except KeyError:
        raise LookupError(
            f"there is no op of type {name!r}; use the same release of psring on all "
            f"tasks and in the client."
        ) from None
