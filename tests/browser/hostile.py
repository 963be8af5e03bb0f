"""Names and texts that would run as script where a page takes them for HTML."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kit.cluster.report import ClusterState, TaskStatus
from kit.cluster.report import table as cluster_table
from kit.demo.verdict import AnswerVerdict
from kit.experiments.words import html_table
from kit.magics.cluster_cell_magic import Startup
from kit.markup import Html, joined, markup
from kit.picture.picture import Picture, picture_of
from kit.puzzles import Figures, Puzzle
from kit.puzzles.clock import ClockedRun
from kit.puzzles.picture import draw
from kit.rehearsal.recommend import Recommendation
from kit.task import Task
from kit.trace.named_rows import Change, EpochRow
from kit.trace.trace import Trace
from kit.training.client.flight_recorder import Flight, FlightRow
from kit.training.client.metrics import Entry
from kit.training.client.report import RunReport, table
from tests.experiments.traces import measured, trace_of
from tests.widgets.outcomes import FALLING, Made, outcome
from widgets.board import snapshot
from widgets.board.follower import Beat
from widgets.board.watcher import beat_of
from widgets.comparing.cell import still
from widgets.prediction import Prediction
from widgets.sharing.pages import form
from widgets.sharing.poll import Poll

IMAGE = "<img src=x onerror=ran=1>"  # short: so long may the name of a measure be
# It ends whatever it is in: an attribute, a style sheet, a script, a comment. Its
# formulas are what JupyterLab would set.
TEXT = f"\"'>--></script></style></title></noscript></textarea>{IMAGE}${{1}}{{}}%s"
TEXT += r" $\href{https://example.org}{x}$ $$y$$ \(z\)"
# In the template of bokeh's tooltips it would ask for its own HTML.
TOOLTIP = f"x}}{{safe}}{IMAGE}"
SEEN = "<img src=x onerror="


def trace() -> Trace:
    """Return a training whose topology and measures have such names.

    Those of tasks and links are refused before they get anywhere.
    """
    made = trace_of(FALLING, [600] * 80, epochs=(EpochRow(0, TEXT, 0, 0, ""),))
    with_image = measured(made, IMAGE, {40: 0.5, 79: 0.75})
    return measured(with_image, TOOLTIP, {40: 0.5, 79: 0.75})


def runs() -> Made:
    """Return two runs that are called so."""
    reply = {"state": TEXT, "topology": TEXT, "link": TEXT, "error": TEXT}
    return Made(outcome(TEXT, trace()), outcome(f"{TEXT}2", trace(), **reply))


def board() -> Beat:
    """Return a board on which everything that can be a text is one of these."""
    beat = beat_of(trace())
    reply: dict[str, Any] = dict.fromkeys(
        ("switching", "halting", "refused", "error", "kept", "stretch"), TEXT
    )
    reply |= {"lost": {TEXT: TEXT}, "hosts": (TEXT, TEXT, "other")}
    return replace(beat, moment=replace(beat.moment, state="failed", **reply))


def pieces() -> dict[str, Html]:
    """Return what is shown in cells, by what it is, made of such texts alone."""
    task = TaskStatus(
        Task("ps", 0), ClusterState.LOST, 1, host=TEXT, reason=TEXT, phase=TEXT
    )
    change = Change((TEXT,), (TEXT,), (TEXT,), 1, 2, 0.5, TEXT)
    report = RunReport(
        *(TEXT, TEXT, 3, 10, 0.5),
        epochs=(EpochRow(0, TEXT, 0, 0, TEXT),),
        traffic=(Entry(0, TEXT, TEXT, 1, 2, 3, 4, 5),),
        changes=(change,),
        switching=TEXT,
        error=TEXT,
        saved=TEXT,
        kept=TEXT,
        chosen=TEXT,
    )
    row = FlightRow(TEXT, TEXT, 1, (TEXT,), 2.0, TEXT, (TEXT,), (TEXT,), True)
    question = Prediction(TEXT, choices=(TEXT, f"{TEXT}2"))
    poll = Poll(question, TEXT)
    poll.start()
    poll.take("anna", TEXT)
    poll.reveal()
    figures = Figures(1, 2, 3, 0.4)
    nothing: Any = list
    expected = {TEXT: figures}
    puzzle = Puzzle(TEXT, TEXT, (TEXT, TEXT), nothing, nothing, figures, expected)
    beat = board()
    return {
        "cluster": cluster_table(TEXT, [task], {}, TEXT),
        "start of a cluster": Startup(TEXT, (task,), 1.0, TEXT)._repr_html_(),
        "training": table(report),
        "flight recorder": Flight((row,), TEXT, TEXT)._repr_html_(),
        "sweep": html_table([{"run": TEXT, TEXT: TEXT}], TEXT),
        "comparison": still(runs()),
        "recommendation": Recommendation(TEXT, TEXT, {}, {})._repr_html_(),
        "verdict": AnswerVerdict(True, TEXT)._repr_html_(),
        "puzzle": puzzle._repr_html_(),
        "picture of a puzzle": draw([TEXT, TEXT], ClockedRun(2), TEXT),
        "graph": graph()._repr_html_(),
        "board": snapshot.html(beat, hint=TEXT),
        "board as a drawing": snapshot.svg(beat),
        "form": form(question),
        "open question": form(Prediction(TEXT, TEXT)),
        "answers": poll.html(is_teacher=True),
    }


def graph() -> Picture:
    """Return the picture of a graph with such names."""
    import numpy as np

    import kit

    made: Any = np.tanh(kit.placeholder("float32", (2,), name="x"))
    scene = picture_of(made).scene
    named = [replace(box, title=TEXT, detail=TEXT, tip=TEXT) for box in scene.boxes]
    return Picture(replace(scene, boxes=tuple(named)))


def in_one_page(shown: dict[str, Html]) -> Html:
    return markup(
        '<!doctype html><meta charset="utf-8"><title>{}</title>{}',
        TEXT,
        joined(
            markup('<section title="{}">{}</section>', name, piece)
            for name, piece in shown.items()
        ),
    )
