"""A board that a class watches: what its pages show, and what the class is asked.

All that pages show is drawn here once, at most twice a second, however many watch. If
nobody watches, nothing is drawn.
"""

from __future__ import annotations

import atexit
import platform
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.handles import handle
from kit.markup import Html, markup
from kit.training.client.run import Run
from widgets.board import sentences, snapshot
from widgets.board.choices import formable
from widgets.board.follower import Beat, Follower
from widgets.board.scene import scene, title
from widgets.drawing import svg_charts
from widgets.prediction import Prediction
from widgets.sharing import pages
from widgets.sharing.poll import Answer, Poll
from widgets.sharing.room import TEACHER, VIEWER
from widgets.sharing.server import ShareServer

EVERY_S = 0.45  # between two drawings, so that the lag stays below a second
_CURVES_S = 2.0
_HOST = "host.of.this.page"


@handle
class Share:
    """A board in the browsers of a class; `TrafficBoard.share` returns it.

    Attributes
    ----------
    url : str
        The address for the class. Anybody who has it may watch and answer.
    teacher_url : str
        The address for the teacher. Its page starts and ends questions.
    """

    url: str
    teacher_url: str

    def __init__(
        self,
        beat: Beat,
        pulse: Follower | None,
        host: str = "127.0.0.1",
        port: int = 0,
        run: Run | None = None,
    ) -> None:
        """Serve until `close`; raises `AddressInUse` and `InvalidArgumentError`."""
        self._pulse, self._beat = pulse, beat
        self._topologies = formable(run) if run is not None else []
        self._poll: Poll | None = None
        # Of the poll: the pages' answers and buttons come in the server's thread, calls
        # of `ask` and the like in the notebook's.
        self._guard = threading.RLock()
        self._sent: dict[str, Html] = {}
        self._drawn_at, self._curves_at, self._polled_at = 0.0, 0.0, 0.0
        self._is_poll_due = self._is_watched = False
        drawn = {VIEWER: _page(is_teacher=False), TEACHER: _page(is_teacher=True)}
        self._server: ShareServer | None = ShareServer(
            host, port, drawn, self._came, self._asked
        )
        name = platform.node() if host in ("0.0.0.0", "::", "") else host
        base = f"http://{f'[{name}]' if ':' in name else name}:{self._server.port}"
        tokens = self._server.tokens
        self.url = f"{base}/{tokens[VIEWER]}/"
        self.teacher_url = f"{base}/{tokens[TEACHER]}/"
        self._tell({"address": pages.address(self.url)}, TEACHER)
        # Before anybody has come, so that the first page has something to show.
        self._draw(beat, is_whole=True)
        if pulse is not None and not beat.is_last:
            pulse.listen(self._on_beat, is_shown=False)
        atexit.register(self.close)

    @property
    def is_open(self) -> bool:
        """Whether it is still shared."""
        return self._server is not None

    @property
    def n_viewers(self) -> int:
        """How many pages watch now."""
        return len(self._server.viewers) if self._server else 0

    # -- watching -------------------------------------------------------------------

    def _came(self, n_viewers: int) -> None:
        pulse, was_watched = self._pulse, self._is_watched
        self._is_watched = n_viewers > 0
        if self._is_watched == was_watched:
            return  # pages that come and go would wake the board's thread each time
        if pulse is not None and not self._beat.is_last and self._server is not None:
            pulse.listen(self._on_beat, is_shown=self._is_watched)

    def _on_beat(self, beat: Beat) -> None:
        now = time.monotonic()
        if beat.is_last or now - self._drawn_at >= EVERY_S:
            self._drawn_at = now
            self._draw(beat, is_whole=beat.is_last)

    def _draw(self, beat: Beat, *, is_whole: bool = False) -> None:
        self._beat, moment = beat, beat.moment
        caption = markup("<figcaption>{}</figcaption>", title(moment))
        places = {
            "status": sentences.status(moment),
            "numbers": sentences.numbers(moment),
            "scene": scene(moment) + caption,
            "table": snapshot.rates_table(beat),
        }
        if is_whole or self._drawn_at - self._curves_at >= _CURVES_S:
            self._curves_at = self._drawn_at
            said = markup("<figcaption>{}</figcaption>", snapshot.loss_words(beat))
            loss, _ = snapshot.charts_of(beat)
            places["loss"] = svg_charts.curves_chart(loss) + said
            if moment.group is not None:
                places["loss"] = snapshot.timeline(beat) + snapshot.calls(beat)
        self._tell(places)
        if self._topologies:
            self._tell({"steer": pages.steering(moment, self._topologies)}, TEACHER)

    def _tell(self, places: Mapping[str, Html], role: str = "") -> None:
        """Send what has changed since it was last sent."""
        server = self._server
        new = {
            name: html
            for name, html in places.items()
            if self._sent.get(f"{role} {name}") != html
        }
        self._sent |= {f"{role} {name}": html for name, html in new.items()}
        if new and server is not None:
            server.tell(new, role)

    # -- asking -----------------------------------------------------------------------

    def ask(
        self,
        prediction: Prediction,
        answer: Answer | Callable[[], Answer] | None = None,
    ) -> None:
        """Ask the class a question; it begins with `start` or *Start* on your page.

        Parameters
        ----------
        prediction : Prediction
            The question, with its unit and range, or its choices. The answers of the
            class do not lock it.
        answer : number, str or callable, optional
            What was measured, or a function that measures it when *Reveal* is pressed.
            It should be quick: until it returns, no page is served.

        Raises
        ------
        FailedPreconditionError
            The board is not shared any more.
        """
        self._need_server()
        with self._guard:
            self._poll = Poll(prediction, answer)
        self._show_poll(is_new=True)

    def start(self) -> None:
        """Take answers from now on, and forget earlier ones."""
        self._change(Poll.start)

    def reveal(self, measured: Answer | None = None) -> str:
        """Take no more answers, and show them with what was measured.

        Parameters
        ----------
        measured : number or str, optional
            A number, or one of the choices; by default what was given to `ask`.

        Returns
        -------
        str
            The verdict, in words.

        Raises
        ------
        FailedPreconditionError
            Neither this nor `ask` says what was measured, or nothing was asked.
        """
        self._change(lambda poll: poll.reveal(measured))
        return self._need_poll().verdict()

    def reset(self) -> None:
        """Forget the answers; the question waits to be started."""
        self._change(Poll.reset)

    @property
    def answers(self) -> list[Answer]:
        """The answers so far, one for each viewer who answered, without names."""
        with self._guard:
            return list(self._poll.answers.values()) if self._poll else []

    def _change(self, change: Callable[[Poll], None]) -> None:
        self._need_server()
        with self._guard:
            change(self._need_poll())
        self._show_poll(is_new=True)

    def _need_poll(self) -> Poll:
        if self._poll is None:
            raise FailedPreconditionError(
                "nothing is asked; share.ask(prediction) asks the class."
            )
        return self._poll

    def _need_server(self) -> None:
        if self._server is None:
            raise FailedPreconditionError(
                "the board is not shared any more; board.share() shares it again."
            )

    def _asked(self, role: str, said: dict[str, str]) -> str:
        """Do what a page asks; called in the server's thread."""
        if role == TEACHER:
            return self._does(said.get("do", ""), said.get("value", ""))
        if "mine" in said:
            with self._guard:
                return self._poll.verdict_on(said.get("who", "")) if self._poll else ""
        who, answer, address = (said.get(n, "") for n in ("who", "answer", "address"))
        with self._guard:
            answered = self._need_poll().take(who, answer, address, time.monotonic())
        self._answered()
        return f"Locked in: {answered}."

    def _does(self, what: str, value: str) -> str:
        """Do what the teacher's page asks."""
        asks: dict[str, Callable[[], Any]] = {
            "start": self.start,
            "reveal": self.reveal,
            "reset": self.reset,
        }
        steers: dict[str, Callable[[Run], Any]] = {
            "topology": lambda run: setattr(run, "topology", value),
            "link": lambda run: setattr(run, "link", value),
            "pause": lambda run: run.pause(),
            "resume": lambda run: run.resume(),
        }
        if what in asks:
            asks[what]()  # the page shows what comes of it
            return ""
        if what not in steers or self._pulse is None or not self._topologies:
            raise InvalidArgumentError(f"{what!r} is not one of {', '.join(asks)}.")
        self._pulse.request(steers[what])
        return ""

    def _answered(self) -> None:
        """Draw the answers soon: however many come, they are drawn twice a second."""
        if self._is_poll_due or self._server is None:
            return
        self._is_poll_due = True
        wait_s = max(0.0, self._polled_at + EVERY_S - time.monotonic())
        self._server.later(wait_s, self._show_answers)

    def _show_answers(self) -> None:
        self._is_poll_due, self._polled_at = False, time.monotonic()
        self._show_poll()

    def _show_poll(self, *, is_new: bool = False) -> None:
        with self._guard:
            poll = self._need_poll()
            shown = {
                role: {"question": poll.html(is_teacher=role == TEACHER)}
                for role in (VIEWER, TEACHER)
            }
            if is_new:  # a form that is sent again loses what a viewer has typed
                is_open = poll.state == "open"
                shown[VIEWER]["form"] = (
                    pages.form(poll.prediction) if is_open else Html()
                )
        for role, places in shown.items():
            self._tell(places, role)

    # -- the end --------------------------------------------------------------------

    def close(self) -> None:
        """Stop sharing; the training and the board go on."""
        server, self._server = self._server, None
        if server is not None:
            atexit.unregister(self.close)
            if self._pulse is not None:
                self._pulse.leave(self._on_beat)
            server.close()

    def __repr__(self) -> str:
        if self._server is None:
            return "A board that is not shared any more."
        n = self.n_viewers
        return f"Shared at {self.url} with {n} viewer{'' if n == 1 else 's'}."


def _page(*, is_teacher: bool) -> Callable[[str], Html]:
    """Return a page as a function of its host, which is cheap to call."""
    text = pages.shared(_HOST, is_teacher=is_teacher)
    return lambda host: text.replace(_HOST, host)
