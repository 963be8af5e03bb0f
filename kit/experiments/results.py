"""What a sweep found: one trial for each combination, as a table and a comparison."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.experiments import words
from kit.experiments.comparison import Comparison, unequal
from kit.experiments.summary import Curves, Row
from kit.handles import handle
from kit.markup import Html, in_cell
from kit.trace.trace import Floats, distinct
from kit.training.client.run import Run, view

if TYPE_CHECKING:
    import pandas as pd

REPEAT = "repeat"
_PHASES = tuple(
    name for name in words.HEADS if words.HEADS[name].endswith("[ms a step]")
)


@handle
@dataclass
class Trial:
    """One combination of a sweep: its parameters, its state, and the row of its run.

    Attributes
    ----------
    parameters : dict
        The values that the function was called with, by name.
    state : {"waiting", "running", "done", "failed", "stopped"}
        How far it is.
    result : dict
        What `Comparison.table` would say of the run; empty while nothing is known.
    error : str
        What it failed with, if it did.
    is_new : bool
        Whether it was run in this call; else its result was found in the folder.
    run : Run or None
        The run, if it was made in this call.
    curves : Curves or None
        The loss and what else was measured, by step; also of a result in the folder.
    cause : BaseException or None
        The exception behind `error`.
    """

    parameters: dict[str, Any]
    state: str = "waiting"
    result: Row = field(default_factory=dict)
    error: str = ""
    is_new: bool = True
    run: Run | None = None
    curves: Curves | None = None
    cause: BaseException | None = None

    @property
    def name(self) -> str:
        """Its parameters in a few words.

        >>> Trial({"topology": "ring", "link": ""}).name
        "topology=ring, link=''"
        """
        return ", ".join(
            f"{key}={value if value != '' else repr(value)}"
            for key, value in self.parameters.items()
        )

    def row(self) -> Row:
        """Return its row of the table. A parameter hides a result of the same name."""
        taken = {*self.parameters, "state", "error"}
        return {
            **self.parameters,
            "state": self.state,
            **{k: v for k, v in self.result.items() if k not in taken},
            "error": self.error,
        }


@handle
class Sweep:
    """The results of a sweep; `kit.sweep` returns it.

    As the last line of a cell it is shown as a table.

    Attributes
    ----------
    trials : tuple of Trial
        One for each combination, in the order in which they are run.
    """

    trials: tuple[Trial, ...]
    folder: str

    def __init__(self, trials: Sequence[Trial], folder: str = "") -> None:
        self.trials, self.folder = tuple(trials), folder

    def frame(self) -> pd.DataFrame:
        """Return one row for each combination.

        Returns
        -------
        pandas.DataFrame
            The parameters, `state` (waiting, running, done, failed or stopped), the
            columns of `Comparison.table`, and `error`. NaN where nothing is known.
        """
        import pandas as pd

        return pd.DataFrame([trial.row() for trial in self.trials])

    def bands(self, measure: str = "loss", along: str = "step") -> pd.DataFrame:
        """Return a curve for each combination: the mean of its repeats, and a band.

        Parameters
        ----------
        measure : str, default "loss"
            "loss", or what else was measured, such as "validation_loss".
        along : {"step", "examples", "seconds", "bytes"}
            What to compare by. Repeats are brought to the same places by straight
            lines; a curve ends where its shortest repeat does.

        Returns
        -------
        pandas.DataFrame
            Columns `run` (the combination), the one that `along` names, `mean`, `low`
            and `high` (one standard deviation of the repeats below and above), and `n`
            repeats.

        Raises
        ------
        InvalidArgumentError
            Nothing is called so.
        FailedPreconditionError
            No combination has curves.
        """
        import pandas as pd

        groups: dict[str, list[tuple[Floats, Floats]]] = {}
        done = [item for item in self.trials if item.state == "done" and item.curves]
        own = [
            {k: v for k, v in item.parameters.items() if k != REPEAT} for item in done
        ]
        for name, trial in zip(_names(own), done, strict=True):
            assert trial.curves is not None
            points = trial.curves.points(measure, along)
            groups.setdefault(name, []).append(points)
        if not groups:
            raise FailedPreconditionError(
                f"none of {len(self.trials)} combinations has curves; let some be done."
            )
        parts = []
        for name, curves in groups.items():
            end = min(float(x[-1]) for x, _ in curves)
            places = curves[0][0][curves[0][0] <= end]
            values = np.stack([np.interp(places, *curve) for curve in curves])
            mean = values.mean(axis=0)
            spread = values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(1)
            columns = {along: places, "mean": mean, "low": mean - spread}
            more = {"high": mean + spread, "n": len(curves)}
            parts.append(pd.DataFrame({"run": name, **columns, **more}))
        return pd.concat(parts, ignore_index=True)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        measure: str = "loss",
        along: str = "step",
    ) -> None:
        """Write `bands` as a figure for a paper: .svg, .pdf or .png.

        Parameters
        ----------
        path : str or PathLike
            The file to write, whose ending says what it is.
        measure, along : str
            As for `bands`.

        Raises
        ------
        InvalidArgumentError
            The path has another ending, or nothing is called so.
        FailedPreconditionError
            matplotlib is not installed, or no combination has curves.
        """
        write = view("comparison_page")
        if write is None:
            raise FailedPreconditionError(
                "what draws figures cannot be imported; install it with "
                "`pip install psring matplotlib`, or use bands()."
            )
        write(self, path, measure, along)

    def best(self, by: str = "ms_per_step", *, most: bool = False) -> dict[str, Any]:
        """Return the parameters of the best combination that is done.

        Parameters
        ----------
        by : str, default "ms_per_step"
            A column of numbers of `frame()`, such as "loss" or "bytes_per_step". The
            median of the repeats counts. The loss and what else was measured are those
            at the same number of examples: the least that one of them has used.
        most : bool, default False
            Whether the largest value is best, as it is for "accuracy" or
            "steps_per_second".

        Returns
        -------
        dict
            The parameters by name, without `repeat`.

        Raises
        ------
        InvalidArgumentError
            There is no such column, or it has no numbers.
        FailedPreconditionError
            No combination is done.

        Examples
        --------
        Train longer with the fastest combination::

            run = train(**sweep.best())
        """
        done = [trial for trial in self.trials if trial.state == "done"]
        if not done:
            raise FailedPreconditionError(
                f"none of {len(self.trials)} combinations is done, so none is best; "
                f"frame() has their errors."
            )
        settings: dict[str, tuple[dict[str, Any], list[float]]] = {}
        used = [float(str(item.result.get("examples", "nan"))) for item in done]
        for trial in done:
            value = trial.row().get(by)
            if trial.curves is not None and trial.curves.has(by):
                value = trial.curves.at_examples(by, min(used))
            own = {k: v for k, v in trial.parameters.items() if k != REPEAT}
            _, values = settings.setdefault(repr(own), (own, []))
            if isinstance(value, int | float) and math.isfinite(value):
                values.append(float(value))
        measured = [
            (own, float(np.median(values)))
            for own, values in settings.values()
            if values
        ]
        if not measured:
            columns = [
                k for k, v in done[0].row().items() if isinstance(v, int | float)
            ]
            raise InvalidArgumentError(
                f"there are no numbers called {by!r}; there are {', '.join(columns)}."
            )
        return (max if most else min)(measured, key=lambda pair: pair[1])[0]

    def compare(self) -> Comparison:
        """Return a comparison of the runs of this call, named by what they differ in.

        Returns
        -------
        Comparison
            As from `kit.compare`.

        Raises
        ------
        FailedPreconditionError
            Fewer than two are in memory: of those that were found in the folder only
            the rows were kept.
        """
        kept = [trial for trial in self.trials if trial.run is not None]
        if len(kept) < 2:
            raise FailedPreconditionError(
                f"{len(kept)} of {len(self.trials)} runs are in memory, and two are "
                f"needed; results that were found in {self.folder or 'a folder'} have "
                f"rows and no curves. Use frame(), or sweep again without the folder."
            )
        runs = [trial.run for trial in kept if trial.run is not None]
        return Comparison(runs, distinct(_names([trial.parameters for trial in kept])))

    def rows(self) -> list[Row]:
        """Return the rows to show: no times by phase, and tasks only if they differ."""
        rows = [trial.row() for trial in self.trials]
        hidden = {*_PHASES}
        if len({row["tasks"] for row in rows if "tasks" in row}) == 1:
            hidden.add("tasks")
        return [{k: v for k, v in row.items() if k not in hidden} for row in rows]

    def count(self) -> str:
        """Return how many combinations are in which state, in words.

        >>> Sweep([Trial({}, "done"), Trial({}, "failed"), Trial({})]).count()
        '1 of 3 combinations done, 1 failed, 1 waiting'
        """
        states = [trial.state for trial in self.trials]
        others = [state for state in dict.fromkeys(states) if state != "done"]
        said = [f"{states.count('done')} of {len(states)} combinations done"]
        said += [f"{states.count(state)} {state}" for state in others]
        n_stored = sum(
            trial.state == "done" and not trial.is_new for trial in self.trials
        )
        if n_stored:
            said.append(f"{n_stored} of them found in {self.folder}")
        done = [trial.result for trial in self.trials if trial.state == "done"]
        return ", ".join(said) + unequal(done)

    def __repr__(self) -> str:
        return f"{self.count()}\n{words.text_table(self.rows())}"

    def _repr_html_(self) -> Html:
        return in_cell(self.html(self.count()))

    def html(self, caption: str) -> Html:
        """Return the table as HTML.

        Parameters
        ----------
        caption : str
            The text above the table; `count()` gives one.

        Returns
        -------
        Html
            An HTML table, a kind of `str`, with one row for each combination.
        """
        return words.html_table(self.rows(), caption)


def _names(trials: Sequence[dict[str, Any]]) -> list[str]:
    """Return what combinations differ in, in words; all of them where they do not.

    >>> _names([{"topology": "ring", "batch": 4}, {"topology": "ring", "batch": 8}])
    ['batch=4', 'batch=8']
    """
    keys = dict.fromkeys(key for settings in trials for key in settings)
    varied = [
        key for key in keys if len({repr(settings.get(key)) for settings in trials}) > 1
    ]
    return [
        ", ".join(_shown(k, settings[k]) for k in varied or keys if k in settings)
        for settings in trials
    ]


def _shown(name: str, value: Any) -> str:
    """Return a parameter in as few words as are understood.

    >>> _shown("topology", "ring"), _shown("link", ""), _shown("batch", 64)
    ('ring', 'full speed', 'batch=64')
    """
    if name == "link" and value in ("", None):
        return "full speed"
    return value if value and isinstance(value, str) else f"{name}={value!r}"
