"""An update as one kernel of a GPU, which is written down from the rule itself.

A rule is called once with values that note what is done with them. What it has noted,
in its order, is the kernel's text:

    np.multiply(g, rate, out=work)      float t1 = t0 * r0;
    np.subtract(v, work, out=out)       float t2 = v - t1;
                                        out = t2;

Each operation is rounded by itself, since the compiler is told not to fuse products and
sums; so the bits are those of the rule with numpy. Element by element of a large array,
one kernel takes a tenth of the time of one for each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from kit.exchange.execution.bound_operations import Update
from kit.exchange.ports.memory import Array
from kit.training.optimizers.rule import MeanUpdate, Rule

_FORMS: Final = {
    np.add: "{} + {}",
    np.subtract: "{} - {}",
    np.multiply: "{} * {}",
    np.divide: "{} / {}",
    np.negative: "-{}",
    np.sqrt: "sqrt{f}({})",
    np.absolute: "fabs{f}({})",
    np.maximum: "({0} >= {1} || {0} != {0}) ? {0} : {1}",
    np.sign: "{0} > 0 ? 1 : ({0} < 0 ? -1 : ({0} == 0 ? 0 : {0}))",
}
_NAMES: Final = {"float32": "float", "float64": "double"}


class _Text:
    """The kernel as far as it is written: its lines, and the numbers that it needs."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self.lines = dtype, list[str]()
        self.numbers: dict[float, str] = {}

    def add(self, ufunc: np.ufunc, names: Sequence[str]) -> str:
        """Write an operation down; return the name of its result."""
        name, kind = f"t{len(self.lines)}", _NAMES[str(self.dtype)]
        form = _FORMS[ufunc].format(*names, f="f" if kind == "float" else "")
        self.lines.append(f"{kind} {name} = {form};")
        return name

    def name_of(self, value: Any) -> str:
        """Return what a value is called, or a number."""
        if isinstance(value, _Value):
            return value.name
        number = float(self.dtype.type(value))
        return self.numbers.setdefault(number, f"c{len(self.numbers)}")


class _Value(NDArrayOperatorsMixin):
    """A number of each element, as a rule sees it: an array with an unknown content."""

    size = 1

    def __init__(self, text: _Text, name: str) -> None:
        self._text, self.name = text, name

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._text.dtype

    def __bool__(self) -> bool:
        raise TypeError("what is not known yet decides nothing")

    def __getitem__(self, where: Any) -> _Value:
        return self

    def __setitem__(self, where: Any, value: Any) -> None:
        self.name = self._text.name_of(value)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **more: Any
    ) -> Any:
        if method != "__call__" or more or ufunc not in _FORMS:
            return NotImplemented
        name = self._text.add(ufunc, [*map(self._text.name_of, inputs)])
        if out is None:
            return _Value(self._text, name)
        out[0].name = name
        return out[0]

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, named: Any
    ) -> Any:
        if function is np.empty_like:
            return _Value(self._text, "")
        return NotImplemented


def fused(update: Update, dtype: np.dtype[Any], module: ModuleType) -> Update:
    """Return an update of arrays of `module` (cupy) as one kernel, if it can be.

    It can for a rule that does nothing but arithmetic on whole arrays; any other update
    is returned as it is.
    """
    rule = update.rule if isinstance(update, MeanUpdate) else None
    if rule is None or not hasattr(module, "ElementwiseKernel"):
        return update
    assert isinstance(update, MeanUpdate), "it has a rule"
    try:
        return _Fused(rule, update.n, dtype, module)
    except (TypeError, ValueError, AttributeError):  # it does something else as well
        return update


class _Fused:
    """One kernel, and what it is given in each step."""

    def __init__(
        self, rule: Rule, n: int, dtype: np.dtype[Any], module: ModuleType
    ) -> None:
        self._rule, self._dtype = rule, dtype
        rates = _flat(rule.rate_at(dtype, 0))
        text = _Text(dtype)
        v, g, out = (_Value(text, name) for name in ("v", "g", ""))
        slots = [_Value(text, f"s{k}") for k in range(len(rule.slots))]
        if n > 1:
            g *= dtype.type(1 / n)
        named = [_Value(text, f"r{k}") for k in range(len(rates))]
        is_one = not isinstance(rule.rate_at(dtype, 0), tuple)
        rule.update(v, g, slots, out, named[0] if is_one else tuple(named))  # type: ignore[arg-type]  # stand-ins
        self._changed = [k for k, slot in enumerate(slots) if slot.name != f"s{k}"]
        self._numbers = [dtype.type(number) for number in text.numbers]
        names = ["v", "g", *(f"s{k}" for k in range(len(slots)))]
        names += [f"r{k}" for k in range(len(rates))] + [*text.numbers.values()]
        ends = [
            f"out = {out.name};",
            *(f"o{k} = {slots[k].name};" for k in self._changed),
        ]
        self._kernel = _compiled(
            module,
            str(dtype),
            tuple(names),
            tuple(self._changed),
            " ".join([*text.lines, *ends]),
        )

    def __call__(
        self, now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
    ) -> None:
        rates = _flat(self._rule.rate_at(self._dtype, step))
        written = (slots[k] for k in self._changed)
        self._kernel(now, total, *slots, *rates, *self._numbers, out, *written)


def _flat(rate: Any) -> tuple[Any, ...]:
    return rate if isinstance(rate, tuple) else (rate,)


@cache
def _compiled(
    module: ModuleType,
    dtype: str,
    names: tuple[str, ...],
    changed: tuple[int, ...],
    body: str,
) -> Callable[..., Any]:
    kernel: Callable[..., Any] = module.ElementwiseKernel(
        ", ".join(f"{dtype} {item}" for item in names),
        ", ".join(f"{dtype} {item}" for item in ("out", *(f"o{k}" for k in changed))),
        body,
        "kit_update",
        options=("--fmad=false",),
    )
    return kernel
