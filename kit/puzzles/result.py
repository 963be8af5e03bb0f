"""The result of a try: a sentence, a table, a picture, and the same as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kit.demo.verdict import AnswerVerdict
from kit.errors import KitError
from kit.markup import Html, joined, markup
from kit.puzzles.clock import ClockedRun
from kit.puzzles.events import Attempt, Ended, Printed
from kit.puzzles.figures import NAMES, Figures, bytes_of, fullest
from kit.puzzles.picture import draw
from kit.puzzles.puzzle import Puzzle, table

_HEAD = ("", "yours", "target", "best known")
_LEGEND = Html(
    '<p style="font-size:max(12px,.85em)">Thin bars: what a task sends (above) and '
    "receives (below), in the colour of the sender. Blocks: what it holds, as high as "
    "it is large.</p>"
)


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

    @property
    def best(self) -> Figures:
        """What a program can cost, as far as is known: each figure of the best one.

        Another program may do better in one figure, and so may this one.
        """
        costs: dict[str, Any] = {}
        for name in NAMES:
            of_both = (getattr(self.puzzle.best, name), getattr(self.figures, name))
            costs[name] = min((one for one in of_both if one is not None), default=None)
        return Figures(**costs)

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

    def _name(self, task: int) -> str:
        return self.puzzle.tasks[task]

    def __repr__(self) -> str:
        rows = self.puzzle.rows(self.figures)
        lines = [f"  {title}: {yours} (target {target}, best known {best})"
                 for title, yours, target, best in rows]  # fmt: skip
        return "\n".join([self.words, *lines, *self.printed.splitlines()])

    def _repr_html_(self) -> Html:
        printed = markup("<pre>{}</pre>", self.printed) if self.printed else ""
        items = joined(markup("<li>{}</li>", row) for row in self.text.splitlines())
        return markup(
            "{}{}"
            "{}"
            '<div style="overflow-x:auto">{}</div>{}'
            "<details><summary>The picture in words</summary>"
            "<ul>{}</ul></details>",
            AnswerVerdict(self.ok, self.words)._repr_html_(),
            printed,
            table(_HEAD, self.puzzle.rows(self.figures)),
            self.svg,
            _LEGEND,
            items,
        )
