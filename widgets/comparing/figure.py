"""A comparison or a sweep as a figure for a paper: SVG, PDF or PNG, by matplotlib."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import Protocol

import pandas as pd

from kit.errors import FailedPreconditionError
from kit.regular_file import replace_regular

SUFFIXES = (".svg", ".pdf", ".png")
_LABELS = {"seconds": "seconds", "bytes": "bytes moved", "examples": "examples"}


class HasBands(Protocol):
    """What can be drawn: a comparison, or a sweep."""

    def bands(self, measure: str, along: str) -> pd.DataFrame:
        """Return the curves; see `Sweep.bands`."""


def write(
    drawn: HasBands, path: str | os.PathLike[str], measure: str, along: str
) -> None:
    """Draw a measure, each run or combination as a curve with its band.

    Raises `FailedPreconditionError` without matplotlib, `InvalidArgumentError` for
    names that are not there, and `OSError`.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise FailedPreconditionError(
            "matplotlib draws figures for papers and cannot be imported; install it "
            "with `pip install matplotlib`, or save a page with a name that ends in "
            ".html."
        ) from error
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    for name, curve in drawn.bands(measure, along).groupby("run", sort=False):
        (line,) = axes.plot(curve[along], curve["mean"], label=name, linewidth=1.2)
        if (curve["n"] > 1).any():
            edges = (curve["low"], curve["high"])
            axes.fill_between(
                curve[along], *edges, color=line.get_color(), alpha=0.2, linewidth=0
            )
    axes.set_xlabel(_LABELS.get(along, along))
    axes.set_ylabel(measure.replace("_", " "))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    buffer = BytesIO()
    figure.savefig(buffer, format=Path(path).suffix.lower()[1:], dpi=200)
    replace_regular(path, [buffer.getvalue()])
