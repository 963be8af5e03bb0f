"""The one table of ops: what each kind of op needs, makes and means.

Pure. An entry (`OpDef`) has the shape rule, which runs when a line is written, the
computation on `xp` (numpy or cupy), which runs on a task, and the gradient, which adds
ops to the graph. The entries themselves stand in `kit.graph.ops`; `lookup` finds them.

    forward(xp, *arrays, **attrs)      of an ordinary op: an array, or a tuple of them
    forward(call, *values, **attrs)    of a stateful op: `call` is its task's
    bind(xp, attrs)(*arrays)           the same as the first, with less to do each time
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

    Attributes:
        name: the op's type, as in TensorFlow: `MatMul`.
        infer: shapes and dtypes of the outputs from those of the inputs. Raises
            `ValueError` for shapes and `TypeError` for dtypes that do not fit.
        forward: the computation; see the head of this file.
        gradient: None: gradients stop here in silence (argmax, comparisons). The value
            `MISSING`: an error when a gradient is asked for.
        stateful: is given a `kit.session.worker.call.StepCall`, runs at most once a
            step, is never folded.
        refs: numbers of the inputs that take a variable itself, not its value.
        blocking: may wait for another client, so it runs after all that need not.
        gives_ref: the output is the variable itself.
        n_outputs: how many outputs there are, or how the attributes tell.
        bind: makes the computation for fixed attributes; called once a program, so
            that each run is as quick as the array function itself.
        hosted: computes with numpy on the host, never on a GPU.
        rows: the gradient may be given an `IndexedSlices` and hands it on.
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
    rows: bool = False

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
    """Stand for a gradient that should exist and does not: `LookupError`."""
    raise LookupError(
        f"op {op.name!r} of type {op.type} has no gradient; put kit.stop_gradient "
        f"around its result if none is wanted."
    )


_TABLE: dict[str, OpDef] = {}


def register(op_def: OpDef) -> OpDef:
    """Add an entry to the table; raises `ValueError` when there is one by its name."""
    if op_def.name in _TABLE:
        raise ValueError(f"the table has an op {op_def.name!r} already.")
    _TABLE[op_def.name] = op_def
    return op_def


def register_bound(
    name: str, infer: Infer, bind: Bind, gradient: Gradient | None = None, **more: Any
) -> None:
    """Add an entry that has a `bind` only; `more` are further fields."""

    def forward(xp: ModuleType, *inputs: Any, **attrs: Any) -> Any:
        return bind(xp, attrs)(*inputs)

    register(OpDef(name, infer, forward, gradient, bind=bind, **more))


def lookup(name: str) -> OpDef:
    """Return the entry of a type; raises `LookupError` for an unknown one."""
    try:
        return _TABLE[name]
    except KeyError:
        raise LookupError(f"there is no op of type {name!r}.") from None


def entries() -> Mapping[str, OpDef]:
    """Return the whole table by name."""
    return _TABLE
