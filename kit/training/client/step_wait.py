"""A wait for a step of a training, which may be paused, or end before."""

from __future__ import annotations

import asyncio
import operator
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

from kit.errors import DeadlineExceededError, InvalidArgumentError
from kit.progress import output_for

if TYPE_CHECKING:
    from kit.training.client.run import Run

_LOOK_S: Final = 0.02


class StepWait:
    """Waits until a training has done some steps, or until a function is true.

    `await` it in a notebook, where buttons work meanwhile; `wait()` blocks. While the
    training is paused a line says so, because a pause may have been forgotten.
    """

    def __init__(self, run: Run, step: int | Callable[[Run], Any]) -> None:
        """Raise `InvalidArgumentError` for neither a whole number nor a function."""
        self._run, self._until = run, ""
        self._lacking = "what the function waits for has not happened"
        if callable(step):
            self._is_met: Callable[[Run], Any] = step
            return
        try:
            last = operator.index(step)
        except TypeError:
            raise InvalidArgumentError(
                f"{step!r} is neither a number of steps nor a function of the run; "
                f"write run.until(100), or run.until(lambda run: run.losses)."
            ) from None
        self._until = f", until step {last:,}"
        self._lacking = f"step {last:,} is not done"
        self._is_met = lambda run: run.step >= last

    def wait(self, timeout: float | None = None) -> Run:
        """Block until then, or until the training is over; return the run.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait. The training goes on after that.

        Raises
        ------
        DeadlineExceededError
            Neither has happened after `timeout` seconds.
        """
        give_up = None if timeout is None else time.monotonic() + timeout
        turn = threading.Event()
        for _ in self._turns():
            if give_up is not None and time.monotonic() > give_up:
                raise DeadlineExceededError(
                    f"{self._lacking} after {timeout:g} s; the training is "
                    f"{self._run.state} at step {self._run.step:,}."
                )
            turn.wait(_LOOK_S)
        return self._run

    def __await__(self) -> Generator[Any, None, Run]:
        return self._awaited().__await__()

    async def _awaited(self) -> Run:
        for _ in self._turns():
            await asyncio.sleep(_LOOK_S)
        return self._run

    def _turns(self) -> Iterator[None]:
        """Yield as long as there is something to wait for; tell of each pause."""
        run, was_paused = self._run, False
        output = output_for(sys.stdout)
        try:
            while not self._is_met(run) and not run.done:
                # One that is still on its way to the step where it stands is not named.
                is_paused = run.state == "paused" and not run.halting
                if is_paused != was_paused:
                    output.show(self._notice(is_paused=is_paused))
                was_paused = is_paused
                yield
        finally:
            output.finish()

    def _notice(self, *, is_paused: bool) -> str:
        where = f"step {self._run.step:,}{self._until}"
        if not is_paused:
            return f"Goes on from {where}."
        return (
            f"Paused at {where}: press Resume in the board. Where its buttons wait for "
            f"this cell, interrupt it first; in code it is run.resume()."
        )
