"""Step through an exchange of gradients, message by message.

    RingStepper(n=4, size=8)        # end a cell with it: buttons, picture, matrix
    ServerStepper(n=3, n_ps=2)      # the same sum with parameter servers
    ExchangeStepper("mesh", n=4)    # any topology, your own too

No cluster is needed. It shows a recording: the topology's real plans were carried out
once, in memory, with a hold at each message
(`kit.exchange.stepping.stepped_exchange`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.errors import KitError, NotFoundError, OutOfRangeError
from kit.exchange.stepping.stepped_exchange import (
    SteppedExchange,
    SteppedMessage,
    record,
)
from kit.handles import handle
from kit.markup import Html, in_cell
from kit.trace.file import write_atomically
from widgets.drawing import front_end, page
from widgets.stepping import drawing, words
from widgets.stepping.drawing import Stepped
from widgets.stepping.participants import MOST_WORKERS, Formula, formula, setting


@handle
class ExchangeStepper:
    """Shows which task holds which partial sum after each message of an exchange.

    Set `position`, the number of messages that have arrived, or use `next()` and
    `back()`.

    Parameters
    ----------
    topology : str
        The name of any registered topology, such as "ring".
    n : int, default 3
        Workers, 1 to 8.
    size : int, optional
        Elements of each gradient, by default twice `n`; each is a number from 1 to 9.
    values : list of arrays, optional
        Gradients of your own, one for each worker, all of one shape. Whole numbers
        become float32.
    n_ps : int, default 1
        Parameter servers, 1 to 4, for a topology that has them.

    Raises
    ------
    InvalidArgumentError
        The topology is unknown, or `n`, `size`, `values` and `n_ps` are too large to
        show, do not fit together, or cannot be added.
    FailedPreconditionError
        The plans of the topology do not fit together.

    Examples
    --------
    >>> stepper = ExchangeStepper("ring", n=3)
    >>> len(stepper.messages), stepper.position
    (12, 0)
    """

    recording: SteppedExchange
    formula: Formula

    def __init__(
        self,
        topology: str,
        n: int | None = None,
        size: int | None = None,
        values: Sequence[Any] | None = None,
        n_ps: int | None = None,
    ) -> None:
        made = setting(topology, n, size, values, n_ps)
        self._others = None if values is not None else (topology, size, n_ps)
        self.recording = record(
            made.topology, made.layout, made.group, made.names, made.values
        )
        self.formula: Formula = formula(made.topology, made.layout, made.group)
        self._position = 0
        self._view: Any = None

    @property
    def messages(self) -> tuple[SteppedMessage, ...]:
        """The messages in the order in which they arrive."""
        return self.recording.messages

    @property
    def last(self) -> int:
        """The last position."""
        return len(self.recording.states) - 1

    @property
    def position(self) -> int:
        """How many messages have arrived in what is shown."""
        return self._position

    @position.setter
    def position(self, position: int) -> None:
        if not 0 <= position <= self.last:
            raise OutOfRangeError(
                f"position {position} does not exist: there are 0 (before the first "
                f"message) to {self.last} (after the last one)."
            )
        self._position = int(position)
        if self._view is not None:
            self._view.show(self._position)

    def next(self) -> None:
        """Let one more message arrive; at the end nothing happens."""
        self.position = min(self._position + 1, self.last)

    def back(self) -> None:
        """Take the last message back; at the beginning nothing happens."""
        self.position = max(self._position - 1, 0)

    def held(self, task: str) -> npt.NDArray[np.float64]:
        """Return the numbers that a task holds at this position.

        Parameters
        ----------
        task : str
            Its short name, such as "worker:0".

        Returns
        -------
        numpy.ndarray
            One float64 for each element; NaN where the task holds nothing.

        Raises
        ------
        NotFoundError
            There is no such task; the message lists them.

        Examples
        --------
        >>> RingStepper(n=2, size=2).held("worker:0").tolist()
        [1.0, 4.0]
        """
        member = self._member(task)
        terms = [
            cell.held.values if cell.held else (np.nan,) * (column.hi - column.lo)
            for cell, column in zip(
                self.recording.states[self._position].rows[member],
                self.recording.columns,
                strict=True,
            )
        ]
        return np.array([value for part in terms for value in part], np.float64)

    def _member(self, task: str) -> int:
        names = self.recording.names
        if task not in names:
            raise NotFoundError(
                f"no task here is called {task!r}; there are {', '.join(names)}."
            )
        return names.index(task)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all positions as one HTML file that plays and needs nothing else.

        A slider goes through the messages. Unless `values` were given, another one
        chooses the number of workers, from 2 to 8.

        Parameters
        ----------
        path : str or PathLike
            The file to write. It appears whole or not at all.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        made = f"Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
        exchanges = self._with_other_workers()
        workers = [len(exchange.recording.workers) for exchange in exchanges]
        body = drawing.playing(exchanges, workers.index(len(self.recording.workers)))
        head = f"{self.recording.title}, message by message"
        write_atomically(path, [page.page(head, made, body, (), Html())])

    def _with_other_workers(self) -> list[Stepped]:
        """Return this exchange among those of other numbers of workers, in order."""
        mine = len(self.recording.workers)
        by_workers = {mine: Stepped(self.recording, self.formula)}
        if self._others is not None:
            topology, size, n_ps = self._others
            for n in range(2, MOST_WORKERS + 1):
                with suppress(KitError):  # a topology may refuse some numbers
                    other = ExchangeStepper(topology, n, size, None, n_ps)
                    by_workers.setdefault(n, Stepped(other.recording, other.formula))
        return [by_workers[n] for n in sorted(by_workers)]

    def close(self) -> None:
        """Take the live view off the screen; the still picture stays."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def _ipython_display_(self) -> None:
        if front_end.kernel() is None:
            raise NotImplementedError  # a terminal shows the text
        if self._view is None:
            self._make_view()
        if self._view is not None:
            front_end.display_widget(self._view.root)
            front_end.watch_page()
        front_end.show_bundle(self._bundle())

    def _make_view(self) -> None:
        try:
            from widgets.stepping.live import LiveStepper
        except ImportError:
            return  # without ipywidgets: the still picture
        self._view = LiveStepper(
            self.recording, self.formula, self._position, self._on_moved
        )

    def _on_moved(self, position: int) -> None:
        self._position = position

    def _bundle(self) -> dict[str, str]:
        return {
            "text/plain": words.text(self.recording, self._position),
            "text/html": in_cell(drawing.still(self.recording, self.formula)),
        }

    def __repr__(self) -> str:
        return words.text(self.recording, self._position)


class RingStepper(ExchangeStepper):
    """Shows a ring all-reduce, message by message.

    Each worker cuts its gradient into as many chunks as there are workers. In `n-1`
    rounds the chunks are added up on their way round the ring; in `n-1` more rounds
    the sums are passed on to all.

    Parameters
    ----------
    n, size, values
        As for `ExchangeStepper`.
    whole : bool, default False
        Pass whole gradients on: `n-1` rounds, and far more bytes.

    Raises
    ------
    InvalidArgumentError
        `n`, `size` and `values` are out of range, or do not fit together.

    Examples
    --------
    >>> RingStepper(n=4, size=8).formula.sent  # 2(n-1)/n of 32 bytes
    (48, 48, 48, 48)
    """

    def __init__(
        self,
        n: int | None = None,
        size: int | None = None,
        values: Sequence[Any] | None = None,
        *,
        whole: bool = False,
    ) -> None:
        super().__init__("ring-whole" if whole else "ring", n, size, values)


class ServerStepper(ExchangeStepper):
    """Shows a step with parameter servers, message by message.

    Each worker pushes its gradient, the server adds them when it has all, and each
    worker pulls the sum.

    Parameters
    ----------
    n, size, values
        As for `ExchangeStepper`.
    n_ps : int, default 1
        How many parameter servers, 1 to 4.

    Examples
    --------
    >>> ServerStepper(n=3, size=6).formula.received  # the server, then each worker
    (72, 24, 24, 24)
    """

    def __init__(
        self,
        n: int | None = None,
        size: int | None = None,
        values: Sequence[Any] | None = None,
        *,
        n_ps: int = 1,
    ) -> None:
        super().__init__("ps", n, size, values, n_ps)
