"""What a training relies on in a step function, as one quick check.

No task is started: the step is called as a worker calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError, StepFailed
from kit.pickling import dumps, parts
from kit.training.worker import kept_state
from kit.training.worker.worker import GRADS, RNG, SCALE, STATE, generator, requested

_DIRECTIONS = 3
Computed = tuple[float, dict[str, Any]]


def check_step(
    step: Callable[..., Any],
    params: Mapping[str, Any],
    batch: tuple[Any, ...],
    *,
    seed: int = 0,
) -> None:
    """Check that a step function does what a training relies on.

    It is called some times with these parameters and examples: its gradients are
    compared with finite differences of its loss, it has to give the same bits each
    time, leave the parameters alone, and, if it neither draws nor keeps anything, its
    loss has to be the mean over the examples. What it draws, as for dropout, has to
    come from `rng`. What it keeps, such as the averages of a batch norm, has to be in
    `state`; nothing else that it refers to may change.

    Parameters
    ----------
    step : callable
        As for `kit.train`, in any of its forms.
    params : dict of str to array
        Parameters; with float64 the comparison is sharper. At kinks, such as those of a
        ReLU at 0, there is no derivative to compare with: take random ones.
    batch : tuple of arrays
        A few examples, at least 2.
    seed : int, default 0
        Of what the step draws from `rng`.

    Raises
    ------
    AssertionError
        With what is wrong, of which parameter, and what a step has to do instead.

    Examples
    --------
    >>> def step(params, batch):
    ...     x, y = batch
    ...     error = x @ params["w"] - y
    ...     return (error**2).mean(), {"w": x.T @ error / len(x)}
    >>> check_step(step, {"w": np.ones(2)}, (np.eye(2), np.array([3.0, 4.0])))
    Traceback (most recent call last):
    AssertionError: the gradient of 'w' is not that of the loss: along a random ...
    """
    values = {name: to_numpy(item) for name, item in params.items()}
    loss, gradients = _called(step, values, batch, seed)
    missing = sorted(values.keys() ^ gradients.keys())
    assert not missing, (
        f"gradients and parameters differ in {missing}; return one gradient for each "
        f"parameter, by its name."
    )
    for name, value in values.items():
        assert gradients[name].shape == value.shape, (
            f"the gradient of {name!r} has the shape {gradients[name].shape}, and the "
            f"parameter {value.shape}; return gradients of the parameters' shapes."
        )
    before = _contents(step)  # after a call: a step may put its parameters anywhere
    dice, state = generator(seed, 0, 0), dict[str, Any]()
    undrawn = repr(dice.bit_generator.state)
    again, same = _called(step, values, batch, seed, rng=dice, state=state)
    changed = [] if again == loss else ["the loss"]
    changed += [
        repr(name) for name in values if not np.array_equal(same[name], gradients[name])
    ]
    assert not changed, (
        f"called again with the same arguments, the step gave other values (loss "
        f"{loss} and {again}; others are {', '.join(changed)}); draw from a parameter "
        f"called `rng`, and keep nothing between steps but in one called `state`."
    )
    kept = [name for name, data in _contents(step).items() if data != before[name]]
    assert not kept, (
        f"the step changes {', '.join(map(repr, kept))}, to which it refers: each task "
        f"has a copy of its own, that no checkpoint has. Keep it, as the averages of a "
        f"batch norm, in a parameter called `state`."
    )
    assert RNG not in requested(step) or repr(dice.bit_generator.state) != undrawn, (
        "the step has a parameter `rng` and draws nothing from it: what it draws "
        "elsewhere, such as dropout, is the same in every step, or cannot be repeated. "
        "Draw from `rng`, seed another generator from it as in "
        "torch.manual_seed(int(rng.integers(2**63))), or leave it out."
    )
    try:
        kept_state.check(state, "the step", 0)
    except StepFailed as error:
        raise AssertionError(error.message) from error
    if not requested(step) & {RNG, STATE}:
        _check_mean(step, values, batch, seed, (loss, gradients))
    for name in values:
        _check_gradient(step, values, batch, seed, name, gradients[name])


def _contents(step: Any) -> dict[str, bytes]:
    """Return what a step refers to, as bytes by name; without what has none."""
    contents = dict[str, bytes]()
    for name, part in parts(step, is_first=True):
        with suppress(InvalidArgumentError):
            contents[name] = dumps(part, name, reduced=_as_numbers)
    return contents


def _as_numbers(part: Any) -> Any:
    """Return how to pickle a tensor: torch's own pickle says where its numbers lie."""
    is_numpy = isinstance(part, np.ndarray | np.generic | type)
    if is_numpy or not hasattr(part, "__array__"):
        return NotImplemented
    return bytes, (to_numpy(part).tobytes(),)


def _check_mean(step: Any, values: Any, batch: Any, seed: int, whole: Computed) -> None:
    loss, n = whole[0], len(batch[0])
    cut = n // 2
    parts = [tuple(part[:cut] for part in batch), tuple(part[cut:] for part in batch)]
    (first, low), (second, high) = (_called(step, values, part, seed) for part in parts)
    mean = (cut * first + (n - cut) * second) / n
    assert np.isclose(loss, mean, rtol=1e-3, atol=1e-6), (
        f"the loss of {n} examples is {loss:.6g}, and the mean over its two halves "
        f"{mean:.6g}; return the mean over the examples, not their sum, and the "
        f"gradients of that mean."
    )
    for name, gradient in whole[1].items():
        mixed = (cut * low[name] + (n - cut) * high[name]) / n
        scale = float(np.abs(gradient).max(initial=0))
        assert np.allclose(gradient, mixed, rtol=1e-3, atol=1e-3 * scale + 1e-6), (
            f"the gradient of {name!r} for {n} examples is not the mean of those of "
            f"its two halves: workers that share a mini-batch would train something "
            f"else than one alone. Let no example depend on the others, or keep what "
            f"is averaged over them, as in a batch norm, in a parameter called `state`."
        )


def _check_gradient(
    step: Any, values: Any, batch: Any, seed: int, name: str, gradient: Any
) -> None:
    """Compare along some random directions; most have to agree."""
    value, dice = values[name], np.random.default_rng(7)
    epsilon = float(np.finfo(value.dtype).eps)
    wrong = []
    for _ in range(_DIRECTIONS):
        direction = dice.normal(size=value.shape)
        direction /= max(1e-30, float(np.sqrt((direction**2).sum())))
        length = epsilon ** (1 / 3) * max(1.0, float(np.abs(value).max(initial=0)))
        losses = [
            _called(
                step,
                {**values, name: value + _as(value, sign * direction)},
                batch,
                seed,
            )
            for sign in (length, -length)
        ]
        difference = (losses[0][0] - losses[1][0]) / (2 * length)
        slope = float((gradient.astype(np.float64) * direction).sum())
        noise = 10 * epsilon * abs(losses[0][0]) / length
        if abs(difference - slope) > noise + epsilon ** (1 / 3) * 4 * max(
            abs(difference), abs(slope)
        ):
            wrong.append((difference, slope))
    assert len(wrong) <= _DIRECTIONS // 2, (
        f"the gradient of {name!r} is not that of the loss: along a random direction "
        f"the loss changes by {wrong[0][0]:.6g} for a step of 1, and by the gradient "
        f"it would by {wrong[0][1]:.6g}; compute the gradient of what is returned as "
        f"the loss."
    )


def _as(value: Any, change: Any) -> Any:
    return change.astype(value.dtype)


def _called(
    step: Any,
    values: Any,
    batch: Any,
    seed: int,
    *,
    rng: Any = None,
    state: dict[str, Any] | None = None,
) -> Computed:
    """Return loss and gradients of a call, in whatever form the step has."""
    copies = {name: np.array(value) for name, value in values.items()}
    for copy in copies.values():
        copy.flags.writeable = False
    asked, more = requested(step), dict[str, Any]()
    grads = {name: np.zeros_like(value) for name, value in values.items()}
    if GRADS in asked:
        more[GRADS] = grads
    if RNG in asked:
        more[RNG] = generator(seed, 0, 0) if rng is None else rng
    if STATE in asked:
        more[STATE] = {} if state is None else state
    if SCALE in asked:
        more[SCALE] = 1.0
    arrays = tuple(np.array(part) for part in batch)
    try:
        result = step(copies, arrays, **more)
        gradients: Any = grads
        if isinstance(result, Generator):
            result, handed = _drained(result)
            gradients = grads if GRADS in asked else handed
            loss = result[0] if isinstance(result, tuple) else result
        elif isinstance(result, tuple):
            loss, gradients = result[0], grads if GRADS in asked else result[1]
        else:
            loss = result
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise AssertionError(
            f"the step writes into its parameters ({error}); return gradients, the "
            f"optimizer does the update, or work on a copy."
        ) from error
    if not isinstance(gradients, Mapping):
        gradients = dict(zip(values, gradients, strict=True))
    return float(loss), {k: np.array(to_numpy(value)) for k, value in gradients.items()}


def _drained(handed: Generator[Any, Any, Any]) -> tuple[Any, dict[str, Any]]:
    gradients = dict[str, Any]()
    while True:
        try:
            item = next(handed)
        except StopIteration as end:
            return end.value, gradients
        if isinstance(item, tuple):
            gradients[item[0]] = np.array(to_numpy(item[1]))
