"""How good a model is on data that it does not train on, measured now and then."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from kit.errors import InvalidArgumentError
from kit.hooks import environment
from kit.hooks.hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from kit.trace.log import LONGEST_NAME, encoded_name

PREFIX = "validation_"
_LONGEST = LONGEST_NAME - len(PREFIX)


class ValidationHook(SessionRunHook):
    """Measures a model on held-out data, every so many steps and after the last.

    `run.frame()` has what the function gives as `validation_loss`,
    `validation_accuracy` and the like, at the step after whose update it was measured;
    `kit.compare` draws it beside the loss. It is called in the first worker between two
    steps, with a copy of the parameters, and all others wait for it in their next step.

    Parameters
    ----------
    function : callable
        `function(params, data)` returns the loss, or what a step function returns: the
        loss, the gradients, which are not used, and a dict of further measures. So the
        step function itself will do. If it returns anything else, the training ends
        with `InvalidArgumentError`.
    data : object
        Given to the function as it is.
    every : int, default 50
        After how many steps; at least 1.

    Raises
    ------
    InvalidArgumentError
        The function cannot be called, or `every` is below 1.

    Examples
    --------
    Every 50 steps, on what is kept for the test::

        hook = kit.hooks.ValidationHook(step, (test_images, test_labels), every=50)
        run = kit.train(step, params, data, hooks=[hook])
    """

    def __init__(
        self, function: Callable[..., Any], data: Any, every: int = 50
    ) -> None:
        if not callable(function):
            raise InvalidArgumentError(
                f"the function is {type(function).__name__}; give one that is called "
                f"with parameters and data, such as the step function."
            )
        try:
            self._every = operator.index(every)
        except TypeError:
            self._every = 0
        if self._every < 1:
            raise InvalidArgumentError(f"every is {every!r}; give 1 step or more.")
        self._function, self._data = function, data
        self._due, self._step = self._every, None

    def begin(self) -> None:
        """Find what counts the steps; `UnimplementedError` in a session."""
        where = environment.current()
        where.measuring()
        self._due, self._step = self._every, where.global_step()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the number of the step."""
        return SessionRunArgs(self._step)

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        """Measure, if it is time."""
        step, where = int(run_values.results), environment.current().measuring()
        if step + 1 < self._due and not where.is_last(step):
            return
        # The next multiple, not `every` steps on: a training that resumes then measures
        # at the same steps.
        self._due = ((step + 1) // self._every + 1) * self._every
        found = self._function(where.parameters(), self._data)
        where.measured(step, {PREFIX + k: v for k, v in _numbers(found).items()})


def _numbers(found: Any) -> dict[str, float]:
    """Return the loss and the measures of what a step function or a loss gave.

    >>> _numbers((0.5, {"w": 1}, {"accuracy": 1}))
    {'loss': 0.5, 'accuracy': 1.0}
    """
    parts = found if isinstance(found, tuple) else (found,)
    more = parts[-1] if len(parts) > 2 and isinstance(parts[-1], Mapping) else {}
    try:
        numbers = {"loss": float(parts[0])}
        for name, value in more.items():
            if not name or not encoded_name(PREFIX + name):
                raise InvalidArgumentError(
                    f"it measured {name!r}; a name has 1 to {_LONGEST} printable "
                    f"letters."
                )
            # One of them may be called as the loss is.
            numbers[f"{name} (2)" if name in numbers else name] = float(value)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"its function returned {found!r:.200}; let it return the loss, or the "
            f"loss, the gradients and a dict of numbers."
        ) from error
    return numbers
