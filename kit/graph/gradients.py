"""Gradients as ops: reverse accumulation over the graph.

Pure. The result is more graph, which runs where its forward ops run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.convert import make, tensor
from kit.graph.op import Guards, IndexedSlices, Op, Tensor
from kit.graph.static import agrees, is_known, text

_FLOATS = "fc"


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    *,
    colocate: bool = True,
    stop_gradients: Any = None,
    unconnected: str = "none",
    name: str = "gradients",
    gated: bool = False,
) -> list[Any]:
    """Return the gradient of the sum of `ys` with respect to each of `xs`.

    Parameters
    ----------
    ys, xs : Tensor, or a list of these
        Floating point. A complex y needs `grad_ys`. The gradient by a complex x + iy is
        that by x plus i times that by y: conj(f'(z)) of an ordinary function f.
    grad_ys : Tensor or array-like, or a list of these, optional
        Weights of the elements of each y; by default 1.
    colocate : bool, default True
        Place each new op where its forward op is; else in the current scopes.
    stop_gradients : Tensor, or a list of these, optional
        Tensors that count as constants.
    unconnected : {"none", "zero"}
        What the gradient is where no path leads from an x to a y: None, or zeros.
    name : str, default "gradients"
        Name scope of the new ops.
    gated : bool, default False
        Let the gradient by an x of an op that has several be an op of its own, such as
        `MatMul_grad/tuple/control_dependency_1`, as TensorFlow does.

    Returns
    -------
    list of Tensor, IndexedSlices or None
        One for each x. The gradient of gathered rows is an `IndexedSlices`.

    Raises
    ------
    LookupError
        An op on the way has no gradient.
    TypeError
        A y is not floating point, or is complex and has no weights.
    ValueError
        A y or x belongs to another graph, or `grad_ys` has another length than `ys`.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default(), kit.Session() as session:
    ...     x = kit.constant(3.0)
    ...     (slope,) = kit.gradients(x * x, [x])
    ...     float(session.run(slope))
    6.0
    """
    if unconnected not in ("none", "zero"):
        raise ValueError(f"unconnected is {unconnected!r}; give 'none' or 'zero'.")
    targets = [_target(x) for x in _listed(xs)]
    sources = [tensor(y) for y in _listed(ys)]
    weights = _listed(grad_ys) if grad_ys is not None else [None] * len(sources)
    if len(weights) != len(sources):
        raise ValueError(
            f"grad_ys has {len(weights)} entries for {len(sources)} ys; give one each."
        )
    stops = {_target(item) for item in _listed(stop_gradients or [])}
    if not sources and not targets:
        return []
    graph = (sources or targets)[0].graph
    with graph.as_default(), graph.name_scope(name):
        flow = _Flow(targets, sources, stops, colocate, gated)
        for y, weight in zip(sources, weights, strict=True):
            with flow.at(y.op):
                flow.add(y, _seed(y, weight))
        flow.run()
        return [_result(flow, x, unconnected) for x in targets]


class _Flow:
    """The gradients found so far, by tensor."""

    def __init__(
        self,
        targets: Sequence[Tensor],
        sources: Sequence[Tensor],
        stops: set[Tensor],
        colocate: bool,
        gated: bool,
    ) -> None:
        self._gated = gated
        self._slopes: dict[Tensor, list[Any]] = {}
        self._colocate = colocate
        self._stops = {stop.op for stop in stops}
        self._wanted = set(targets)
        self._ops = _between(self._wanted, sources)
        self._summed: dict[Tensor, Any] = {}

    def add(self, to: Tensor, gradient: Any) -> None:
        self._slopes.setdefault(to, []).append(gradient)

    def run(self) -> None:
        # An op's number is greater than those of all its inputs.
        # A stopped op still receives gradients, since it may be a target itself.
        passed = self._ops - self._stops
        for op in sorted(passed, key=lambda op: op.number, reverse=True):
            gradients = [self.total(output) for output in op.outputs]
            if all(grad is None for grad in gradients) or op.op_def.gradient is None:
                continue
            with self.at(op), op.graph.gradient_scope(op):
                if not op.op_def.rows:
                    gradients = [
                        grad if grad is None else dense(grad) for grad in gradients
                    ]
                by_input = op.op_def.gradient(op, gradients)
                if self._gated:
                    by_input = self._behind_gates(op, by_input)
                self._fill_up(op, gradients)
            pairs = list(zip(op.inputs, by_input, strict=True))
            for to, gradient in reversed(pairs):
                # A gradient by an input that leads to no target is never used.
                if gradient is not None:
                    gradient = self._of_every_run(to, gradient)
                    # In the end the terms stand in the order of the ops they come from.
                    self._slopes.setdefault(to, []).insert(0, gradient)

    def _fill_up(self, op: Op, gradients: Sequence[Any]) -> None:
        """Give zeros to target outputs without a gradient, if another output has one.

        They count as connected: all come from one op.
        """
        for output, gradient in zip(op.outputs, gradients, strict=True):
            is_wanted = (
                output in self._wanted and kind_of(output.static.dtype) in _FLOATS
            )
            if gradient is None and is_wanted:
                self._summed[output] = make("ZerosLike", output)

    def _behind_gates(self, op: Op, by_input: Sequence[Any]) -> Sequence[Any]:
        """Make separate ops of an op's gradients by targets, if it has several."""
        results = list(by_input)
        present = [i for i, gradient in enumerate(results) if gradient is not None]
        for number, i in enumerate(present if len(present) > 1 else ()):
            if isinstance(results[i], Tensor) and self._is_of_target(op.inputs[i]):
                suffix = f"_{number}" if number else ""
                with op.graph.colocate_with(results[i].op):
                    name = f"tuple/control_dependency{suffix}"
                    results[i] = make("Identity", results[i], name=name)
        return results

    def _is_of_target(self, candidate: Tensor) -> bool:
        """Whether a tensor is a target, or a variable's value where that is one."""
        if (
            candidate.op.type == "Identity"
            and candidate.op.inputs[0].op.op_def.gives_ref
        ):
            candidate = candidate.op.inputs[0]
        return candidate in self._wanted

    def total(self, of: Tensor) -> Any:
        """Return the sum of all gradients of a tensor, None if there are none."""
        # Summed once, when all terms are there: every op asks for its outputs, and the
        # end asks for the targets again.
        if of not in self._summed:
            parts = self._slopes.get(of)
            if not parts:
                return None
            with self.at(of.op):
                self._summed[of] = add_up(self._sums_by_device(parts))
        return self._summed[of]

    def _sums_by_device(self, gradients: Sequence[Any]) -> Sequence[Any]:
        """Return sums of dense gradients where these are made: one of each travels."""
        if len(gradients) == 1 or not all(
            isinstance(grad, Tensor) for grad in gradients
        ):
            return gradients
        by_device: dict[str, list[Any]] = {}
        for gradient in gradients:
            by_device.setdefault(gradient.op.device, []).append(gradient)
        sums = []
        for device in sorted(by_device):
            first = by_device[device][0].op
            with first.graph.colocate_with(first, ignore_existing=True):
                sums.append(add_up(by_device[device]))
        return sums

    def _of_every_run(self, to: Tensor, gradient: Any) -> Any:
        """Return a gradient that comes from a branch, as zeros where that is not taken.

        What a branch takes from outside is there whether or not the branch runs.
        """
        own, wanted = gradient.op.guards, self._guards_of(to.op)
        is_used = to in self._wanted or to.op in self._ops
        if own == wanted[: len(own)] or not is_used:
            return gradient
        with to.graph.guarded(own):
            whole = dense(gradient)
        with to.graph.guarded(wanted):
            return make("ZerosUnlessRun", whole, to, name="zeros_unless_run")

    def _guards_of(self, op: Op) -> Guards:
        """Return the guards of an op, or those of the scope if it is further inside."""
        current = op.graph.guards
        return current if op.guards == current[: len(op.guards)] else op.guards

    @contextmanager
    def at(self, op: Op) -> Iterator[None]:
        """Place new ops where a forward op is, if they are placed so at all.

        They run only if that does.
        """
        scope = op.graph.colocate_with(op) if self._colocate else nullcontext()
        with op.graph.guarded(self._guards_of(op)), scope:
            yield


def add_up(gradients: Sequence[Any]) -> Any:
    """Return the sum of gradients; rows stay rows if all are."""
    if len(gradients) == 1:
        return gradients[0]
    if all(isinstance(gradient, IndexedSlices) for gradient in gradients):
        return IndexedSlices(
            make("ConcatV2", *[gradient.values for gradient in gradients], axis=0),
            make("ConcatV2", *[gradient.indices for gradient in gradients], axis=0),
            gradients[0].dense_shape,
        )
    return make("AddN", *[dense(gradient) for gradient in gradients])


def dense(gradient: Any) -> Tensor:
    """Return a gradient as one tensor; rows are added into zeros."""
    if isinstance(gradient, Tensor):
        return gradient
    if gradient.dense_shape is None:
        raise ValueError(
            f"{gradient!r} does not know the shape of the whole; it cannot be made "
            f"dense."
        )
    places = make("ExpandDims", gradient.indices, axis=(-1,))
    value = gradient.dense_shape.static.value
    extra = [] if value is not None else [gradient.dense_shape]
    shape = None if value is None else tuple(value.tolist())
    return make("ScatterNd", places, gradient.values, *extra, shape=shape)


def _between(targets: set[Tensor], sources: Sequence[Tensor]) -> set[Op]:
    """Return the ops on the paths from the targets to the sources."""
    behind: set[Op] = set()
    stack = [source.op for source in sources]
    while stack:
        op = stack.pop()
        if op not in behind:
            behind.add(op)
            stack.extend(item.op for item in op.inputs)
    reaching: set[Op] = set()
    for op in sorted(behind, key=lambda op: op.number):
        if any(item in targets or item.op in reaching for item in op.inputs):
            reaching.add(op)
    return reaching


def _seed(y: Tensor, weight: Any) -> Tensor | IndexedSlices:
    if kind_of(y.static.dtype) not in _FLOATS:
        raise TypeError(
            f"{y!r} has no gradient: only floating point values have; cast it first."
        )
    if weight is None:
        if y.static.dtype.kind == "c":
            raise TypeError(
                f"the gradient of {y!r}, which is complex, depends on the weights of "
                f"both its parts: give them as grad_ys, or take a real number of it."
            )
        return _ones(y)
    if isinstance(weight, IndexedSlices) and weight.dense_shape is None:
        return weight  # which cannot be made dense
    seed = tensor(weight, y.static.dtype)
    if not agrees(seed.static.shape, y.static.shape):
        raise ValueError(
            f"grad_ys has the shape {text(seed.static.shape)} for {y!r}; it must be "
            f"that of y."
        )
    return seed


def _ones(y: Tensor) -> Tensor:
    """Return ones like y, not computed from y where its shape is known."""
    shape, dtype = y.static.shape, y.static.dtype
    if shape is None or not is_known(shape):
        return make("OnesLike", y, name="grad_ys_0")
    if not shape:
        return tensor(np.ones((), dtype), name="grad_ys_0")
    scalar = tensor(np.ones((), dtype), name="grad_ys_0/Const")
    return make("Fill", scalar, shape=shape, name="grad_ys_0")


def _result(flow: _Flow, x: Tensor, unconnected: str) -> Any:
    total = flow.total(x)
    if total is None and unconnected == "zero":
        return make("ZerosLike", x)
    return total


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _target(x: Any) -> Tensor:
    ref = getattr(x, "ref", None)
    return ref if isinstance(ref, Tensor) else tensor(x)
