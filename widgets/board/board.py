"""The board of a training: its traffic, its curves and its controls, live in a cell.

A cell that ends with a board has two outputs: the live one, and below it what a saved
notebook keeps (`widgets.board.snapshot`), which the page hides while the live one is
there. The second is renewed when the state of the training changes, and now and then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from kit.cluster.cells.groups import WatchedGroup
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.handles import handle
from kit.markup import Html, in_cell
from kit.trace.file import write_atomically
from kit.trace.trace import Trace
from kit.training.client.run import Run
from widgets.board import playback, snapshot
from widgets.board.follower import Beat, Follower
from widgets.board.group_follower import GroupFollower
from widgets.board.watcher import beat_of, pulse_of
from widgets.drawing import front_end, page
from widgets.stepping import drawing as stepping

if TYPE_CHECKING:
    from widgets.sharing.share import Share

_KEEP_EVERY_S = 15.0


@handle
class TrafficBoard:
    """Shows a training: what its tasks send each other, and how the loss goes.

    And the trace of a group of tasks: its calls, with bytes beside the formula. Below a
    cell that used a group it is there by itself.

    Make it the last line of a cell, as often as you like; all boards of one run agree.
    With its controls you ask for another topology, link speed or latency, a pause, one
    step, or the end; the training does so between two steps.

    Parameters
    ----------
    of : Run, Trace, str or PathLike, optional
        A run (live or over), a trace (`run.trace`, `group.trace`), or the path of a
        trace file. By default what the newest board below a ``%%on`` cell shows.
    clock : callable
        Returns seconds, as `time.monotonic` does; for tests.

    Raises
    ------
    InvalidArgumentError
        `of` is something else.
    FailedPreconditionError
        `of` was left out, and no cell has shown a board yet.

    Notes
    -----
    It draws at most ten times a second, and less often if that takes more than a
    hundredth of a processor; curves once a second, the timeline every two seconds, and
    nothing while nobody looks. Without ipywidgets, and in a saved notebook, there is a
    still picture.

    Examples
    --------
    Watch a training, as the last line of a cell::

        run = kit.train(step, params, data)
        TrafficBoard(run)

    Show the calls of the cell above to a class, and put them into a report::

        board = TrafficBoard()
        print(board.share().url)
        write_report("mine.html", [("My ring", "As sent.", board.trace)])
    """

    _below_cell: ClassVar[WatchedGroup | None] = None  # shown by the newest of those

    def __init__(
        self,
        of: Run | WatchedGroup | Trace | str | os.PathLike[str] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the present state; nothing is drawn before the board is displayed."""
        of = self._below_cell if of is None else of
        self._run = of if isinstance(of, Run) else None
        self._pulse: Follower | None = None
        if isinstance(of, Run):
            self._pulse = pulse_of(of)
        elif isinstance(of, WatchedGroup):
            self._pulse = GroupFollower(of)
        self._clock, self._kept_at = clock, clock()
        self._trace = None if self._pulse is not None else _trace(of)
        self._beat = self._look()
        self._view: Any = None
        self._controls: Any = None
        self._kept: list[Any] = []  # the displays of the snapshot
        self._is_closed, self._first_tab = False, ""
        self._share: Share | None = None
        # Beats come on the follower's thread: `close` must not take the view from one.
        self._drawing = threading.RLock()

    def _look(self) -> Beat:
        if self._pulse is not None:
            return self._pulse.look()
        assert self._trace is not None
        return beat_of(self._trace)

    # -- in a notebook --------------------------------------------------------------

    def _ipython_display_(self) -> None:
        if front_end.kernel() is None:
            raise NotImplementedError  # a terminal shows the text
        if self._view is None and not self._is_closed:
            self._make_view()
        if self._view is not None:
            front_end.load_bokeh()
            front_end.display_widget(self._view.root)
        self._kept.append(front_end.show_bundle(self._bundle()))
        if self._pulse is not None and not self._is_closed and not self._beat.is_last:
            # Without a live view this output is the board, so it is seen; a live view
            # reports by itself when it is.
            self._pulse.listen(self._on_beat, is_shown=self._view is None)
            # Once for all cells that show it: each hook keeps the board in all of them.
            if len(self._kept) == 1:
                front_end.at_cell_ends(self._is_kept)

    def _make_view(self) -> None:
        try:
            from widgets.board.controls import Controls
            from widgets.board.live_view import LiveView
        except ImportError:
            return  # without ipywidgets or jupyter_bokeh: text and a still picture
        if self._run is not None and self._pulse is not None:
            self._controls = Controls(self._run, self._pulse.request)
        box = self._controls.box if self._controls else None
        tasks = self._beat.recent.tasks
        is_of_group = self._beat.moment.group is not None
        self._view = LiveView(
            *(tasks, box),
            shown=self._on_shown,
            clock=self._clock,
            is_of_group=is_of_group,
            first=self._first_tab,
        )
        self._draw(self._beat)

    def _on_shown(self, is_shown: bool) -> None:
        if self._pulse is not None and not self._beat.is_last and not self._is_closed:
            self._pulse.listen(self._on_beat, is_shown=is_shown)

    def _on_beat(self, beat: Beat) -> None:
        # On the follower's thread.
        before, self._beat, now = self._beat.moment.state, beat, self._clock()
        waits = 1.0 if self._view is None else _KEEP_EVERY_S
        has_changed = beat.moment.state != before
        if beat.is_last or has_changed or now - self._kept_at > waits:
            self._kept_at = now
            # Before it is drawn: a slow or broken page must not cost what is kept.
            self._keep()
        self._draw(beat)

    def _is_kept(self) -> bool:
        """Keep how the training ended, if it has; return whether all is done.

        Called at the end of a cell, while what is displayed still belongs to it.
        """
        if self._pulse is None or self._is_closed:
            return True
        if not self._pulse.is_over:
            return False
        self._beat = self._pulse.look()
        self._keep()
        return True

    def _draw(self, beat: Beat) -> None:
        with self._drawing:
            if self._view is None:
                return
            if self._controls is not None:
                self._controls.follow(beat.moment)
            self._view.draw(beat, self._tables() if beat.is_last else Html())

    def _keep(self) -> None:
        """Renew what the notebook keeps, in each cell that shows the board."""
        bundle = self._bundle()
        for display in self._kept:
            display.update(bundle, raw=True)

    def _bundle(self) -> dict[str, str]:
        beat, hint = self._beat, self._hint()
        drawn = snapshot.pictures(beat)
        page = snapshot.html(beat, self._tables(), hint, drawn=drawn)
        return {
            "text/plain": snapshot.text(beat),
            "text/html": in_cell(page),
            "image/svg+xml": snapshot.svg(beat, drawn),
        }

    def _tables(self) -> Html:
        return self._run._repr_html_() if self._run else Html()

    def _hint(self) -> str:
        """Say when a still picture was taken, and what a live board needs."""
        if self._beat.is_last:
            return ""
        if self._view is not None:
            now = f"{datetime.now(UTC):%H:%M:%S} UTC"
            return (
                f"A still picture of {now}: the board itself needs its kernel. While a "
                f"cell computes there, wait for its end; else load the page again."
            )
        return (
            "This is a still picture, renewed every second. For a live board with "
            "controls: pip install ipywidgets jupyter_bokeh, then restart the kernel."
        )

    # -- anywhere -------------------------------------------------------------------

    def close(self) -> None:
        """Stop drawing. The last picture stays, and the training goes on."""
        self._is_closed = True
        if self._share is not None:
            self._share.close()
        if self._pulse is not None:
            self._pulse.leave(self._on_beat)
        with self._drawing:
            if self._view is not None:
                self._view.close()
                self._view = None
        self._keep()

    @property
    def trace(self) -> Trace:
        """What it shows, for `write_report` and `Trace.save`."""
        return self._run.trace if self._run else self._trace or self._look().recent

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the board up to now as one HTML file that plays and needs nothing else.

        A slider goes through the steps: it changes the traffic and the numbers, and
        moves a line in the curves. It has at most 200 places, so that in a longer
        training each is the mean of some steps, and fewer if the file would be larger
        than 2 MB. Takes about a second.

        Parameters
        ----------
        path : str or PathLike
            The file to write. It appears whole or not at all.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        beat = self._look()
        made = f"Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
        trace = self._run.trace if self._run else self._trace or beat.recent
        formula = self._pulse.formula if self._pulse else lambda _: None
        more = self._tables()
        if beat.calls:
            more += stepping.calls(beat.calls)
        body = playback.html(beat, trace, formula, more)
        write_atomically(path, [page.page("Traffic board", made, body, (), Html())])

    def share(self, host: str = "127.0.0.1", port: int = 0) -> Share:
        """Let others watch in their browsers; return the share, which has the address.

        They can watch and answer questions (`Share.ask`), and change nothing; the
        teacher's page also steers the training. This
        process serves the pages, unencrypted, to anybody who knows the token in the
        address. Thirty viewers slow the training down by a few per cent.

        Parameters
        ----------
        host : str, default "127.0.0.1"
            Where to listen: only to this machine, or "0.0.0.0" for all its networks.
        port : int, default 0
            The port to listen at; 0 takes any free one.

        Returns
        -------
        Share
            It ends with its `close`, with this board, or with the kernel. If the board
            is shared already, the same one.

        Raises
        ------
        AddressInUse
            Something else listens at that port.
        InvalidArgumentError
            The host is not an address of this machine.
        """
        from widgets.sharing.share import Share  # bokeh's server: only if wanted

        if self._share is None or not self._share.is_open:
            self._share = Share(self._look(), self._pulse, host, port, self._run)
        return self._share

    def __repr__(self) -> str:
        return snapshot.text(self._beat)


def show(run: Run) -> None:
    """Display the board of a run, in a notebook; this is the view called `run`.

    Raises `NotImplementedError` elsewhere: the caller has another way to show it.
    """
    TrafficBoard(run)._ipython_display_()


def show_group(group: WatchedGroup, *, shows_messages: bool = False) -> None:
    """Display the board of a group below its cell; this is the view called `group`.

    With `shows_messages` its timeline is open, which has them as arrows. Raises
    `NotImplementedError` outside of a notebook.
    """
    board = TrafficBoard(group)
    board._first_tab = "Timeline" if shows_messages else ""
    board._ipython_display_()
    TrafficBoard._below_cell = group


def _trace(of: Any) -> Trace:
    if isinstance(of, Trace):
        return of
    if isinstance(of, str | os.PathLike):
        return Trace.load(of)
    if of is None:
        raise FailedPreconditionError(
            "no cell has shown a board of a group yet; give the run that kit.train() "
            "returned, a kit.Trace, or the path of a saved trace."
        )
    raise InvalidArgumentError(
        f"a board shows a training, and {type(of).__name__} is not one; give the run "
        f"kit.train() returned, a kit.Trace such as group.trace, or the path of a "
        f"saved trace."
    )
