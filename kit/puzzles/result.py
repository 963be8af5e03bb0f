"""The result of a try: a sentence, a table, a picture, and the same as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from kit.demo.verdict import AnswerVerdict
from kit.errors import KitError
from kit.markup import Html, in_cell, joined, markup
from kit.puzzles.clock import ClockedRun
from kit.puzzles.events import Attempt, Ended, Printed
from kit.puzzles.figures import Figures, bytes_of, fullest
from kit.puzzles.picture import draw
from kit.puzzles.puzzle import Puzzle, rows_of, table

_LEGEND: Final = Html(
    '<p style="font-size:max(12px,.85em)">Thin bars: what a task sends (above) and '
    "receives (below), in the colour of the sender. Blocks: what it holds, as high as "
    "it is large.</p>"
)


class Guess(Protocol):
    """What a result needs of a `widgets.Prediction`."""

    def reveal(self, measured: float, yours: float) -> AnswerVerdict:
        """Compare the guess with the best known and with the learner's own."""


@dataclass(frozen=True, repr=False)
class GuessComparison:
    """A guess beside the best known programs; a notebook shows a sentence and a table.

    Attributes
    ----------
    verdict : AnswerVerdict
        The guess, the best known, and the learner's own program.
    result : Result
        What was compared.
    """

    verdict: AnswerVerdict
    result: Result

    @property
    def programs(self) -> dict[str, Figures]:
        """What each program costs: the learner's as "yours", then the best known."""
        return {"yours": self.result.figures, **self.result.puzzle.best_known}

    def __repr__(self) -> str:
        lines = [
            f"  {name}: "
            + ", ".join(map(" ".join, zip(self.programs, costs, strict=True)))
            for name, *costs in rows_of(self.programs)
        ]
        return "\n".join([self.verdict.words, *lines])

    def _repr_html_(self) -> Html:
        return in_cell(self.verdict._repr_html_() + table(self.programs))


@dataclass(frozen=True, repr=False)
class Result:
    """How a program did; a notebook shows a sentence, a table and a picture.

    Attributes
    ----------
    puzzle : Puzzle
        The puzzle that was tried.
    ok : bool
        Whether the result is right and no figure is over its target.
    words : str
        The same as a sentence; if not ok, with the task and the message at fault.
    figures : Figures
        What was measured.
    timeline : ClockedRun
        What happened when, on the puzzle's clock.
    attempt : Attempt
        What the tasks reported.
    error : KitError or None
        Why the program did not end by itself: `UnknownError` if it raised an exception,
        `AbortedError` if it waited for ever, `DeadlineExceededError` if it took too
        long, and another error if it used its task wrongly.
    """

    puzzle: Puzzle
    ok: bool
    words: str
    figures: Figures
    timeline: ClockedRun
    attempt: Attempt
    error: KitError | None = None

    def required(self) -> None:
        """Raise `FailedPreconditionError` if the result is not ok."""
        AnswerVerdict(self.ok, self.words).required()

    def reveal(self, guess: Guess, figure: str) -> GuessComparison:
        """Compare a guess with the best known program and with this one.

        Parameters
        ----------
        guess : Prediction
            What the learner has locked in; of idle time a percentage.
        figure : str
            Which figure it is about, an attribute of `Figures`.

        Returns
        -------
        GuessComparison
            A sentence, and what each of the best known programs costs.

        Raises
        ------
        FailedPreconditionError
            This result is not ok yet, or there is no guess.
        """
        self.required()
        scale = 100 if figure == "idle" else 1
        best, yours = (getattr(f, figure) for f in (self.puzzle.best, self.figures))
        return GuessComparison(guess.reveal(scale * best, scale * yours), self)

    @property
    def printed(self) -> str:
        """What the tasks printed, one task after the other."""
        parts = []
        for name, log in zip(self.puzzle.tasks, self.attempt.logs, strict=True):
            text = "".join(e.text for e in log if isinstance(e, Printed))
            parts += [f"{name}: {row}" for row in text.splitlines()]
        return "\n".join(parts)

    @property
    def svg(self) -> Html:
        """The picture: the work, messages and memory of each task over time, as SVG."""
        return draw(self.puzzle.tasks, self.timeline, self.puzzle.name)

    @property
    def text(self) -> str:
        """The picture in words: what each task did when, and what it held."""
        rows = [
            f"{f.begin:.3g} to {f.end:.3g} ms: {self._name(f.source)} sends "
            f"{f.name or 'a message'} to {self._name(f.to)}, {f.n_bytes:,} bytes"
            for f in sorted(self.timeline.flights.values(), key=lambda f: f.begin)
        ]
        rows += [
            f"{w.begin:.3g} to {w.end:.3g} ms: {self._name(w.task)} works: {w.label}"
            for w in self.timeline.work
        ]
        rows += [
            f"{w.begin:.3g} ms: {self._name(w.task)} waits for ever for "
            f"{w.name or 'a message'} from {self._name(w.source)}"
            for w in self.timeline.waits
            if w.open
        ]
        return "\n".join([*rows, *self._tasks()])

    def _tasks(self) -> list[str]:
        logs, rows = self.attempt.logs, []
        for task, (sent, received) in enumerate(bytes_of(logs)):
            full = fullest(logs[task])
            waited = sum(e.waited_s for e in logs[task] if isinstance(e, Ended))
            rows.append(
                f"{self._name(task)} sent {sent:,} and received {received:,} bytes, "
                f"held at most {full.n_bytes:,} ({', '.join(full.names)}), and waited "
                f"{waited * 1e3:.1f} ms on this machine"
            )
        return rows

    @property
    def _columns(self) -> dict[str, Figures]:
        return {"yours": self.figures, "target": self.puzzle.target}

    def _name(self, task: int) -> str:
        return self.puzzle.tasks[task]

    def __repr__(self) -> str:
        rows = rows_of(self._columns)
        lines = [f"  {name}: {yours} (target {most})" for name, yours, most in rows]
        return "\n".join([self.words, *lines, *self.printed.splitlines()])

    def _repr_html_(self) -> Html:
        printed = markup("<pre>{}</pre>", self.printed) if self.printed else ""
        items = joined(markup("<li>{}</li>", row) for row in self.text.splitlines())
        page = markup(
            "{}{}"
            "{}"
            '<div style="overflow-x:auto">{}</div>{}'
            "<details><summary>The picture in words</summary>"
            "<ul>{}</ul></details>",
            AnswerVerdict(self.ok, self.words)._repr_html_(),
            printed,
            table(self._columns),
            self.svg,
            _LEGEND,
            items,
        )
        return in_cell(page)
