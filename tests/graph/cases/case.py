"""What a case of the table of ops is, and a graph computed without a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.graph.convert import make
from kit.graph.graph import Graph
from kit.graph.op import Op, Tensor

Host = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One use of an entry of the table, and the same in plain numpy.

    Attributes:
        op: the entry's type; the built graph must hold one.
        build: from tensors to the result, a tensor or a list of them.
        expect: from arrays to the result, written with numpy alone.
        inputs: what both are given.
        has_slope: its gradient is compared with finite differences of `expect`.
        is_dynamic: the result's shape is not known before a run.
    """

    op: str
    build: Callable[..., Any]
    expect: Callable[..., Any]
    inputs: tuple[Any, ...]
    has_slope: bool = True
    is_dynamic: bool = False

    @property
    def arrays(self) -> list[Host]:
        """The inputs as arrays."""
        return [np.asarray(item) for item in self.inputs]


def sloped(
    op: str, build: Callable[..., Any], expect: Callable[..., Any], inputs: Any
) -> Case:
    """Return the case of a gradient too; `inputs` is an array, or a tuple of them."""
    several = inputs if isinstance(inputs, tuple) else (inputs,)
    return Case(op, build, expect, several)


def flat(
    op: str, build: Callable[..., Any], expect: Callable[..., Any], inputs: Any
) -> Case:
    """Return a case without a gradient."""
    return replace(sloped(op, build, expect, inputs), has_slope=False)


def bare(
    op: str,
    expect: Callable[..., Any],
    inputs: Any,
    *,
    has_slope: bool = True,
    **attrs: Any,
) -> Case:
    """Return the case of an op that is built as it is: no function stands for it."""
    case = sloped(op, lambda *xs: make(op, *xs, **attrs), expect, inputs)
    return replace(case, has_slope=has_slope)


def numbers(seed: int, *shape: int) -> Host:
    """Return normal numbers that are the same in every run."""
    return np.random.default_rng(seed).standard_normal(shape)


def positive(seed: int, *shape: int) -> Host:
    """Return numbers between 0.5 and 2."""
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape)


def listed(result: Any) -> list[Any]:
    """Return one result, or several, as a list."""
    return list(result) if isinstance(result, list | tuple) else [result]


def all_cases() -> list[Case]:
    """Return the cases of all files beside this one; each has a list `CASES`."""
    result: list[Case] = []
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in ("case", "__init__"):
            result += import_module(f"tests.graph.cases.{path.stem}").CASES
    return result


@contextmanager
def in_a_new_graph() -> Iterator[None]:
    """Let each case, of a test that is decorated with this, make a graph of its own."""
    with Graph().as_default():
        yield


def evaluate(
    xp: ModuleType, fetches: Sequence[Tensor], feeds: Mapping[Tensor, Host]
) -> list[Any]:
    """Compute tensors with arrays of the module `xp`, op by op in the graph's order."""
    values: dict[Tensor, Any] = {
        tensor: xp.asarray(value) for tensor, value in feeds.items()
    }
    needed = _behind([fetch.op for fetch in fetches])
    for op in sorted(needed, key=lambda op: op.number):
        if op.type == "Const":
            values[op.outputs[0]] = xp.asarray(op.attrs["value"])
        elif op.type != "Placeholder":
            result = op.op_def.kernel(xp, op.attrs)(
                *[values[item] for item in op.inputs]
            )
            outputs = result if len(op.outputs) > 1 else (result,)
            values.update(zip(op.outputs, outputs, strict=True))
    return [values[fetch] for fetch in fetches]


def _behind(ops: Sequence[Op]) -> set[Op]:
    result: set[Op] = set()
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op not in result:
            result.add(op)
            stack += [item.op for item in op.inputs]
    return result
