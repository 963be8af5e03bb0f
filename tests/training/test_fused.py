"""Kernels that are written down from rules, compiled by a C compiler: numpy's bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kit
from kit.training.features.on_gpu.fused import fused
from kit.training.optimizers.rule import MeanUpdate
from tests.cases import for_each
from tests.strict_arrays import StrictGpu, strict
from tests.training.compiled_kernels import COMPILER, CompiledKernel
from tests.training.pretended_gpus import pretended_gpus
from tests.training.toy import Hasty

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

RULES = [
    kit.GradientDescent(0.1),
    kit.GradientDescent(kit.Cosine(0.3, steps=9)),
    kit.Momentum(0.05),
    kit.Momentum(0.05, use_nesterov=True),
    kit.Adagrad(0.2),
    kit.RMSProp(0.01),
    kit.RMSProp(0.01, momentum=0.5, centered=True),
    kit.Adam(0.02),
    kit.AdamW(0.02, weight_decay=0.1),
    kit.Lion(0.01, weight_decay=0.1),
    Hasty(),
]


class Clipped(kit.GradientDescent):
    """A user's rule that does something which no kernel is written down for."""

    def _update(self, v: Any, g: Any, slots: Any, out: Any, *_: Any) -> None:
        np.clip(g, -1, 1, out=out)
        np.subtract(v, out, out=out)


class Decides(kit.GradientDescent):
    """A user's rule that does another thing in some steps."""

    def _update(
        self, v: Any, g: Any, slots: Any, out: Any, work: Any, rate: Any
    ) -> None:
        if rate:
            np.subtract(v, g, out=out)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[StrictGpu]:
    with pretended_gpus() as gpus:
        CompiledKernel.made.clear()
        yield gpus[0]


def numbers(dtype: str, seed: int) -> Any:
    dice = np.random.default_rng(seed)
    values = dice.normal(size=5000) * 10.0 ** dice.integers(-30, 9, 5000)
    values[:6] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45
    return values.astype(dtype)


@for_each("dtype", ["float32", "float64"])
@for_each("n", [1, 3])
@for_each("rule", RULES)
def test_a_kernel_has_the_bits_of_its_rule(
    rule: Any, n: int, dtype: str, gpu: StrictGpu
) -> None:
    plain = MeanUpdate(rule, n)
    kernel: Any = fused(plain, np.dtype(dtype), strict)
    slots = [np.full(5000, slot.initial, dtype) for slot in rule.slots]
    now = numbers(dtype, 1)
    there, slots_there = gpu.put(now), [gpu.put(slot) for slot in slots]

    with np.errstate(all="ignore"):
        for step in range(4):
            total = numbers(dtype, 2 + step)
            kernel(there, total_there := gpu.put(total), slots_there, there, step)
            plain(now, total, slots, now, step)

    assert type(kernel) is not MeanUpdate
    assert total_there.nbytes == total.nbytes
    pairs = [(there, now), *zip(slots_there, slots, strict=True)]
    assert all(same(x.get(), y) for x, y in pairs)


def same(first: Any, other: Any) -> bool:
    """Whether all bits are equal, but for those of NaN, which nobody promises."""
    is_nan = np.isnan(first) & np.isnan(other)
    bits, others = (np.where(is_nan, 0, x).tobytes() for x in (first, other))
    return bits == others


@for_each("rule", [Clipped(0.1), Decides(0.1), kit.LAMB(0.1)])
def test_what_no_kernel_can_do_is_done_as_it_is_written(rule: Any) -> None:
    plain = MeanUpdate(rule, 2)

    assert fused(plain, np.dtype("float32"), strict) is plain


def test_a_kernel_is_made_once_for_all_ranges_and_rates() -> None:
    for n in range(2, 5):
        fused(MeanUpdate(kit.Adam(0.1 * n), n), np.dtype("float32"), strict)

    assert len(CompiledKernel.made) <= 1  # none, if another test has made it
