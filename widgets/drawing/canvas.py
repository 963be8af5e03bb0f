"""An empty figure in the look of a theme, its legend and its marks.

This is what all figures have in common; nothing here knows what they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.models import Axis, CategoricalAxis, ColumnDataSource, Node
from bokeh.models.annotations import Label, Legend, LegendItem, Span
from bokeh.plotting import figure

from widgets.drawing.figure_data import Columns
from widgets.drawing.theme import FONT, TEXT_PX, Theme

Data = Columns | ColumnDataSource
_TOOLS = "pan,box_zoom,reset,save"
_TEXT = f"{TEXT_PX}px"
_ROW = "row"  # the tag of a legend in one row
_MOST_LABELS = 8  # of marks in one figure; more would cover each other


def source(data: Data) -> ColumnDataSource:
    """Return columns as a source; a source is returned as it is."""
    if isinstance(data, ColumnDataSource):
        return data
    return ColumnDataSource(data=dict(data))


def canvas(
    theme: Theme, x_label: str | None, y_label: str | None, **options: Any
) -> figure:
    """Return an empty figure in the colours and sizes of the theme."""
    fig = figure(
        tools=_TOOLS,
        sizing_mode="stretch_width",
        min_width=240,  # on a phone
        toolbar_location="right",
        **options,
    )
    fig.background_fill_color = fig.border_fill_color = theme.background
    fig.outline_line_color = theme.grid
    fig.grid.grid_line_color = theme.grid
    fig.xaxis.axis_label, fig.yaxis.axis_label = x_label, y_label
    for axis in fig.axis:
        dress(axis, theme)
    fig.toolbar.logo = None  # it would be a link to another site
    fig.toolbar.autohide = True
    return fig


def dress(axis: Axis, theme: Theme) -> None:
    """Give an axis the colours and sizes of the theme."""
    axis.update(axis_line_color=theme.faint, major_tick_line_color=theme.faint)
    axis.minor_tick_line_color = None
    kinds = ["axis_label", "major_label"]
    if isinstance(axis, CategoricalAxis):
        kinds += ["group", "subgroup"]
        axis.separator_line_color = theme.grid
    for kind in kinds:
        looks = {"color": theme.ink, "font": FONT, "font_size": f"{theme.text_px}px"}
        looks["font_style"] = "normal"
        axis.update(**{f"{kind}_text_{name}": look for name, look in looks.items()})


def legend(
    fig: figure,
    theme: Theme,
    entries: Mapping[str, Any],
    columns: int | None = None,
    *,
    is_row: bool = False,
) -> None:
    """Put a legend above the axes, where it never covers data.

    An entry is something drawn, or a list of things with one name. Without `columns`
    up to four entries are in one row, with `is_row` all that are shown.
    """
    # Any: to the annotations of bokeh, a renderer of lines is not one of glyphs.
    items = [
        LegendItem(label=name, renderers=glyph if isinstance(glyph, list) else [glyph])
        for name, glyph in entries.items()
    ]
    box = Legend(
        items=items,
        orientation="horizontal",
        label_text_color=theme.ink,
        label_text_font=FONT,
        label_text_font_size=_TEXT,
        background_fill_color=theme.background,
        border_line_color=None,
        click_policy="hide",
        glyph_width=34,
        glyph_height=24,
        spacing=18 if columns is None else 4,
    )
    box.update(padding=2, margin=6, ncols=columns or "auto")
    if columns is None and len(items) > 4:
        box.update(ncols=3, glyph_height=16, label_height=16)
    if is_row:
        box.update(tags=[_ROW], spacing=4)
    fit(box, theme)
    fig.add_layout(box, "above")


def fit(box: Legend, theme: Theme) -> None:
    """Give a legend the room of a theme: in large type even a row is broken."""
    is_large, is_row = theme.text_px > TEXT_PX, _ROW in box.tags
    box.glyph_width = 14 if is_large or is_row else 34
    if is_row:
        box.ncols = 3 if is_large else len(box.items)


def mark(
    fig: figure,
    places: Sequence[float],
    labels: Sequence[str],
    theme: Theme,
    *,
    is_first_bare: bool = False,
) -> None:
    """Draw a dashed line at each place, with its label at the top and to its right.

    With `is_first_bare` the first place has only its label: nothing changes there.
    """
    n_rows = 1 if len(labels) <= 4 else 2  # close neighbours alternate in height
    for number, (at, text) in enumerate(zip(places, labels, strict=True)):
        if number or not is_first_bare:
            line = Span(location=at, dimension="height", line_color=theme.ink)
            line.update(line_dash="dashed", line_width=1.6)
            fig.add_layout(line)
        if text and len(labels) <= _MOST_LABELS:
            offset = 5 + (number % n_rows) * (TEXT_PX + 7)
            label = Label(x=at, y=Node.frame.top, x_offset=7, y_offset=-offset)
            label.update(text=text, text_color=theme.ink, text_font=FONT)
            label.update(text_font_size=_TEXT, text_baseline="top")
            fig.add_layout(label)
