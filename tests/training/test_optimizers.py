"""The update rules against formulas written out here, their names, and what fits."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import GradientMismatch, InvalidArgumentError
from kit.testing import check_optimizer
from kit.training.optimizers import rule
from kit.training.optimizers.graph_rules import Adadelta, Ftrl
from kit.training.optimizers.rule import MeanUpdate
from kit.training.optimizers.rules import (
    Adagrad,
    Adam,
    AdamW,
    GradientDescent,
    Lion,
    Momentum,
    Optimizer,
    RMSProp,
    from_plain,
    named,
    to_plain,
)
from tests.cases import for_each

Array = npt.NDArray[Any]
DTYPES = [np.float32, np.float64]


def new_slots(optimizer: Optimizer, like: Array) -> list[Array]:
    return [np.full(like.shape, s.initial, like.dtype) for s in optimizer.slots]


def trained(optimizer: Optimizer, start: Array, gradients: Sequence[Array]) -> Array:
    value, slots = start.copy(), new_slots(optimizer, start)
    for step, gradient in enumerate(gradients):
        optimizer.apply(value, gradient, slots, value, step)
    return value


def problem(dtype: Any, n: int = 1000, steps: int = 12) -> tuple[Array, list[Array]]:
    rng = np.random.default_rng(7)
    start = rng.uniform(-0.02, 0.02, n).astype(dtype)
    return start, [rng.normal(0, 0.01, n).astype(dtype) for _ in range(steps)]


# The oracles: one generator per rule, fed with gradients, in the dtype of `v`. They are
# written as the formulas stand in the papers and allocate as they please.


def plain_descent(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    for g in gs:
        v = v - f(0.02) * g
        yield v


def plain_momentum(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    a = np.zeros_like(v)
    for g in gs:
        a = f(0.9) * a + g
        v = v - f(0.02) * a
        yield v


def plain_nesterov(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    a = np.zeros_like(v)
    for g in gs:
        a = f(0.9) * a + g
        v = v - (f(0.02) * g + f(0.02) * f(0.9) * a)
        yield v


def plain_adagrad(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    a = np.full_like(v, 0.1)
    for g in gs:
        a = a + g**2
        v = v - f(0.02) * g / np.sqrt(a)
        yield v


def plain_rmsprop(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    ms, mom = np.ones_like(v), np.zeros_like(v)
    for g in gs:
        ms = ms + (g**2 - ms) * (f(1) - f(0.9))
        mom = f(0.5) * mom + f(0.02) * g / np.sqrt(ms + f(1e-10))
        v = v - mom
        yield v


def plain_centered(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    ms, mg, mom = np.ones_like(v), np.zeros_like(v), np.zeros_like(v)
    for g in gs:
        ms = ms + (g**2 - ms) * (f(1) - f(0.9))
        mg = mg + (g - mg) * (f(1) - f(0.9))
        mom = f(0.5) * mom + f(0.02) * g / np.sqrt(ms - mg**2 + f(1e-10))
        v = v - mom
        yield v


def plain_adam(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    m, s = np.zeros_like(v), np.zeros_like(v)
    power1, power2 = f(0.9), f(0.999)
    for g in gs:
        alpha = f(0.02) * np.sqrt(f(1) - power2) / (f(1) - power1)
        m = m + (g - m) * (f(1) - f(0.9))
        s = s + (g**2 - s) * (f(1) - f(0.999))
        v = v - alpha * m / (np.sqrt(s) + f(1e-8))
        power1, power2 = power1 * f(0.9), power2 * f(0.999)
        yield v


def plain_adamw(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    m, s = np.zeros_like(v), np.zeros_like(v)
    power1, power2 = f(0.9), f(0.999)
    for g in gs:
        v = v * (f(1) - f(0.02) * f(0.1))
        m = m + (g - m) * (f(1) - f(0.9))
        s = s + (g**2 - s) * (f(1) - f(0.999))
        root = np.sqrt(s) * (f(1) / np.sqrt(f(1) - power2)) + f(1e-8)
        v = v - f(0.02) / (f(1) - power1) * m / root
        power1, power2 = power1 * f(0.9), power2 * f(0.999)
        yield v


def plain_lion(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    m = np.zeros_like(v)
    for g in gs:
        u = np.sign(f(0.9) * m + f(0.1) * g)
        v = v * (f(1) - f(0.02) * f(0.1)) - f(0.02) * u
        m = f(0.99) * m + f(0.01) * g
        yield v


def plain_adadelta(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
    s, t = np.zeros_like(v), np.zeros_like(v)
    for g in gs:
        s = s * f(0.95) + g**2 * (f(1) - f(0.95))
        u = np.sqrt(t + f(1e-8)) / np.sqrt(s + f(1e-8)) * g
        t = t * f(0.95) + u**2 * (f(1) - f(0.95))
        v = v - f(0.02) * u
        yield v


def plain_ftrl(
    l1: float, l2: float, shrinkage: float
) -> Callable[..., Iterator[Array]]:
    def plain(v: Array, f: Any, gs: Sequence[Array]) -> Iterator[Array]:
        n, z = np.full_like(v, 0.1), np.zeros_like(v)
        for g in gs:
            new = n + g**2
            sigma = (np.sqrt(new) - np.sqrt(n)) / f(0.02)
            z = z + g + f(2) * f(shrinkage) * v - sigma * v
            n = new
            moved = (np.sign(z) * f(l1) - z) / (np.sqrt(n) / f(0.02) + f(2) * f(l2))
            v = np.where(np.abs(z) > f(l1), moved, f(0))
            yield v

    return plain


ORACLES: list[tuple[Optimizer, Callable[..., Iterator[Array]]]] = [
    (GradientDescent(0.02), plain_descent),
    (Momentum(0.02), plain_momentum),
    (Momentum(0.02, use_nesterov=True), plain_nesterov),
    (Adagrad(0.02), plain_adagrad),
    (RMSProp(0.02, momentum=0.5), plain_rmsprop),
    (RMSProp(0.02, momentum=0.5, centered=True), plain_centered),
    (Adam(0.02), plain_adam),
    (AdamW(0.02, weight_decay=0.1), plain_adamw),
    (Lion(0.02, weight_decay=0.1), plain_lion),
]
# These are in graphs alone.
OF_GRAPHS: list[tuple[Optimizer, Callable[..., Iterator[Array]]]] = [
    (Adadelta(0.02), plain_adadelta),
    (Ftrl(0.02), plain_ftrl(0.0, 0.0, 0.0)),
    (Ftrl(0.02, l1=0.5, l2=0.25, l2_shrinkage=0.125), plain_ftrl(0.5, 0.25, 0.125)),
]


@for_each(("dtype", "limit"), [(np.float32, 3e-8), (np.float64, 1e-16)])
@for_each(("optimizer", "oracle"), [*ORACLES, *OF_GRAPHS])
def test_every_step_follows_the_formula(
    optimizer: Optimizer,
    oracle: Callable[..., Iterator[Array]],
    dtype: Any,
    limit: float,
) -> None:
    start, gradients = problem(dtype)
    value, slots = start.copy(), new_slots(optimizer, start)

    for step, wanted in enumerate(oracle(start, dtype, gradients)):
        optimizer.apply(value, gradients[step], slots, value, step)

        assert wanted.dtype == value.dtype == dtype
        np.testing.assert_allclose(value, wanted, rtol=0, atol=limit)


class Hasty(GradientDescent):
    """Writes before it has read everything, as a rule of the user's own may."""

    def _update(self, v: Any, g: Any, slots: Any, out: Any, *_: Any) -> None:
        out[...] = v
        out -= g


@for_each("optimizer", [optimizer for optimizer, _ in [*ORACLES, *OF_GRAPHS]])
def test_these_rules_say_that_they_spend_their_gradient(optimizer: Optimizer) -> None:
    assert MeanUpdate(optimizer, 2).spends


def test_a_derived_rule_does_not_say_so_by_inheritance() -> None:
    assert not MeanUpdate(Hasty(0.5), 2).spends


def test_centered_rmsprop_stays_finite_when_the_variance_rounds_below_zero() -> None:
    # Large, then constant: both means come down and get stuck a few roundings too high.
    gradients = [np.full(50, 9, np.float32)] * 20
    gradients += [np.linspace(0.1, 5, 50, dtype=np.float32)] * 300
    optimizer = RMSProp(1e-6, centered=True)

    with np.errstate(invalid="raise"):
        value = trained(optimizer, np.zeros(50, np.float32), gradients)

    assert np.isfinite(value).all()


@for_each("dtype", DTYPES)
@for_each("step", [0, 1, 1022, 1023, 1024, 5000, 30_000])
def test_adam_rate_is_that_of_powers_multiplied_up_step_by_step(
    dtype: Any, step: int
) -> None:
    first, second = dtype(0.9), dtype(0.999)
    for _ in range(step):
        first, second = first * dtype(0.9), second * dtype(0.999)

    rate = Adam().rate_at(np.dtype(dtype), step)

    assert rate == dtype(0.001) * np.sqrt(1 - second) / (1 - first)
    assert rate.dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_adam_rate_of_a_far_step_is_the_learning_rate_at_once(dtype: Any) -> None:
    assert Adam().rate_at(np.dtype(dtype), 10**12) == dtype(0.001)


@for_each("value", [0.0, -0.1])
def test_adagrad_refuses_a_start_that_is_not_above_zero(value: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Adagrad(0.1, initial_accumulator_value=value)


@for_each(
    "optimizer",
    [
        *(optimizer for optimizer, _ in ORACLES),
        Adam(np.float64(0.1), beta1=np.float32(0.5)),  # type: ignore[arg-type]  # numpy's own numbers
        *(Momentum(kit.Cosine(0.1, 9, 2), 0.5), Momentum(kit.WarmUp(0.1, 3))),
        AdamW(kit.OneCycle(0.1, 20)),
        kit.Averaged(Adam(0.01), 0.9),
        kit.DelayCompensated(kit.Groups(Adam(0.1), {"w": Adam(0.2)})),
        kit.Groups(AdamW(kit.Cosine(0.1, steps=100)), {"b": {"learning_rate": 0.5}}),
    ],
)
def test_optimizer_survives_json(optimizer: Optimizer) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(optimizer)))) == optimizer


def test_optimizer_of_the_users_own_is_known_by_its_class_where_it_is_there() -> None:
    class Mine(GradientDescent):
        pass

    with pytest.raises(InvalidArgumentError, match="no plain form"):
        to_plain(Mine())
    mine, plain = Mine(), json.loads(json.dumps(named(Mine())))
    assert from_plain(plain, mine) is mine
    for other in (None, Adam()):
        with pytest.raises(InvalidArgumentError, match="links carry no code"):
            from_plain(plain, other)


@for_each("settings", [{}, {"weight_decay": 0.3, "beta1": 0.5, "epsilon": 1e-3}])
def test_adamw_makes_the_steps_of_torch(settings: Any) -> None:
    torch = pytest.importorskip("torch")
    start, gradients = problem(np.float64)
    rule = AdamW(kit.Cosine(0.02, steps=10, warmup=3), **settings)
    value, slots = start.copy(), new_slots(rule, start)
    there = torch.tensor(start)
    theirs = torch.optim.AdamW(
        [there],
        betas=(rule.beta1, rule.beta2),
        eps=rule.epsilon,
        weight_decay=rule.weight_decay,
    )

    for step, gradient in enumerate(gradients):
        rule.apply(value, gradient, slots, value, step)
        there.grad = torch.tensor(gradient)
        theirs.param_groups[0]["lr"] = kit.Cosine(0.02, steps=10, warmup=3)(step)
        theirs.step()

        np.testing.assert_allclose(value, there.numpy(), rtol=0, atol=1e-15)


# -- how the vector is cut, and what does not fit --------------------------------------

EVERY = [optimizer for optimizer, _ in ORACLES[:-1]]  # Lion needs twice the memory


@given(
    which=st.integers(0, len(EVERY) - 1),
    dtype=st.sampled_from(DTYPES),
    cuts=st.lists(st.integers(0, 150), max_size=6),
    offset=st.integers(0, 9),
    piece=st.integers(9, 200),
    seed=st.integers(0, 2**32),
)
def test_cutting_the_vector_anywhere_changes_no_bit(
    which: int, dtype: Any, cuts: list[int], offset: int, piece: int, seed: int
) -> None:
    optimizer, n = EVERY[which], 150
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-8, 4, (4, n))
    start, *gradients = (rng.normal(size=(4, n)) * scale).astype(dtype)
    edges = [0, *sorted(cuts), n]

    whole = trained(optimizer, start, gradients)
    parts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule, "PIECE", piece)
        for lo, hi in pairwise(edges):
            moved = [np.empty(offset + hi - lo, dtype)[offset:] for _ in range(4)]
            for copy, original in zip(moved, (start, *gradients), strict=True):
                copy[:] = original[lo:hi]
            parts.append(trained(optimizer, moved[0], moved[1:]))

    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.slow
@for_each(
    "optimizer",
    [
        *(*EVERY, kit.LAMB(0.05), kit.LARS(0.05)),
        *(kit.Averaged(kit.Adam(0.01), 0.9), kit.DelayCompensated(kit.Adam(0.1))),
    ],
)
def test_rule_is_what_a_training_takes_it_for(optimizer: Optimizer) -> None:
    check_optimizer(optimizer)


@for_each("optimizer", EVERY)
def test_memory_used_does_not_grow_with_the_array(optimizer: Optimizer) -> None:
    start, gradients = problem(np.float32, n=8 * rule.PIECE, steps=1)
    slots = new_slots(optimizer, start)

    tracemalloc.start()
    try:
        optimizer.apply(start, gradients[0], slots, start, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 1.2 * rule.PIECE * start.itemsize


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("gradient", "part"),
    [
        (floats(3), r"float32\[3\].*float32\[4\]"),
        (floats(4, dtype=np.float64), r"float64\[4\].*float32\[4\]"),
    ],
)
def test_gradient_that_does_not_fit_is_a_gradient_mismatch(
    gradient: Array, part: str
) -> None:
    value = floats(4)

    with pytest.raises(GradientMismatch, match=part):
        GradientDescent().apply(value, gradient, [], value, 0)


READ_ONLY = floats(4)
READ_ONLY.flags.writeable = False


@for_each(
    ("arguments", "part"),
    [
        ((floats(2, 2), floats(2, 2), [floats(2, 2)], floats(2, 2), 0), "1-d"),
        ((floats(8)[::2], floats(4), [floats(4)], floats(4), 0), "contiguous: False"),
        ((floats(4), floats(8)[::2], [floats(4)], floats(4), 0), "gradient is"),
        ((np.zeros(4, int), np.zeros(4, int), [floats(4)], floats(4), 0), "int64"),
        ((floats(4), floats(4), [], floats(4), 0), "needs 1 .momentum."),
        ((floats(4), floats(4), [floats(5)], floats(4), 0), r"slot 0 is float32\[5\]"),
        ((floats(4), floats(4), [floats(4)], floats(3), 0), r"out is float32\[3\]"),
        ((floats(4), floats(4), [floats(4)], READ_ONLY, 0), "out is read-only"),
        ((floats(4), floats(4), [READ_ONLY], floats(4), 0), "slot 0 is read-only"),
        ((floats(4), floats(4), [floats(4)], floats(4), -1), "step is -1"),
    ],
)
def test_misfit_is_refused_before_anything_is_written(
    arguments: tuple[Any, ...], part: str
) -> None:
    before = [np.copy(a) for a in (*arguments[:2], *arguments[2], arguments[3])]

    with pytest.raises(InvalidArgumentError, match=part):
        Momentum(0.1).apply(*arguments)

    after = (*arguments[:2], *arguments[2], arguments[3])
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
