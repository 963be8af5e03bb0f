"""A page of bokeh's figures, each in both themes: embedded, captioned and written.

The file is self-contained: BokehJS is in it, and it asks no other host for anything.
What the figures show is up to the caller.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from bokeh.document import Document
from bokeh.embed import components
from bokeh.plotting import figure
from bokeh.resources import Resources

from kit.markup import Html, joined, markup
from kit.trace.file import write_atomically
from widgets.drawing import page
from widgets.drawing.theme import THEMES, Theme


@dataclass(frozen=True)
class Drawing:
    """One figure, drawn for each class in the page, with its heading and its words.

    A class is the name of a theme, which decides when it is visible. `by_class` is
    empty if there is nothing to draw.
    """

    heading: str
    words: str
    by_class: Mapping[str, figure]
    wide: bool = True


def both(draw: Callable[[Theme], figure], data: Sized) -> dict[str, figure]:
    """Draw in both themes; nothing without data, which the words say."""
    return {theme.name: draw(theme) for theme in THEMES} if len(data) else {}


def embedded(drawings: Sequence[Sequence[Drawing]]) -> tuple[Html, list[Html]]:
    """Return the scripts of the page, and the HTML of each group of drawings."""
    models = [f for some in drawings for d in some for f in d.by_class.values()]
    script, divs = _components(models) if models else (Html(), ())
    following = iter(divs)
    return script, [
        markup(
            '<div class="figures">{}</div>',
            joined(
                _figure(
                    item,
                    joined(_slot(name, next(following)) for name in item.by_class),
                )
                for item in some
            ),
        )
        for some in drawings
    ]


def _slot(name: str, div: Html) -> Html:
    return markup('<div class="{}">{}</div>', name, div)


def _figure(drawing: Drawing, places: Html) -> Html:
    return markup(
        "<figure{}><h3>{}</h3>\n"
        '<div role="group" aria-label="{}: {}">{}</div>\n'
        "<figcaption>{}</figcaption></figure>\n",
        Html(" class=wide") if drawing.wide else "",
        drawing.heading,
        drawing.heading,
        drawing.words,
        places,
        drawing.words,
    )


def _components(models: Sequence[figure]) -> tuple[Html, Sequence[Html]]:
    """Return bokeh itself with the script of the figures, and a place for each."""
    document = Document()
    # Otherwise all models are gone through again for each root.
    with document.models.freeze():
        for model in models:
            document.add_root(model)
    script, divs = components(models)
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    # Bokeh builds these itself, and escapes what is inside.
    return Html(library + script), [Html(div) for div in divs]


def write(
    path: str | os.PathLike[str],
    title: str,
    body: Html,
    notes: Sequence[str],
    scripts: Html,
    made_at: datetime | None = None,
) -> None:
    """Write the page, which says when and with what it was made; whole or not at all.

    Raises `OSError` if it cannot be written.
    """
    moment = (made_at or datetime.now(UTC)).astimezone(UTC)
    made = f"Made {moment:%Y-%m-%d %H:%M} UTC with {_versions()}."
    write_atomically(path, [page.page(title, made, body, notes, scripts)])


def _versions() -> str:
    """Return the versions of what made the page."""
    names = []
    for package in ("psring", "numpy", "bokeh"):
        try:
            names.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # run from a checkout
            names.append(f"{package} (not installed)")
    python = f"Python {platform.python_version()}"
    return ", ".join([*names, python]) + f" on {platform.system()}"
