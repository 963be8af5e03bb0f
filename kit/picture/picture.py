"""A picture as its user has it: shown by a notebook, or written to a file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from kit.errors import InvalidArgumentError
from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.extension_points import lend
from kit.graph.graph import Graph
from kit.graph.op import IndexedSlices, Op, needed
from kit.markup import Html, in_cell, markup
from kit.picture.layout import PictureLayout, lay_out
from kit.picture.reading import scene_of
from kit.picture.scene import Scene
from kit.picture.svg import description, draw
from kit.regular_file import replace_regular

MOST_BOXES = 100
_MOST_IN_PASSING = 40  # boxes, if a notebook shows a tensor as the value of a cell


class Picture:
    """A drawing of a graph, or of what some tensors need.

    As the last line of a cell it is drawn, in the colours of the notebook's theme.

    Attributes
    ----------
    svg : str
        The drawing.
    html : str
        A page with the drawing in it.
    scene : Scene
        The boxes and lines that are drawn.
    layout : PictureLayout
        Where each of them is, in pixels.
    """

    def __init__(self, scene: Scene) -> None:
        """Nothing is drawn before it is asked for."""
        self.scene = scene

    @cached_property
    def layout(self) -> PictureLayout:
        """Where everything is."""
        return lay_out(self.scene)

    @cached_property
    def svg(self) -> Html:
        """The drawing."""
        return draw(self.scene, self.layout)

    @property
    def html(self) -> Html:
        """A page with the drawing."""
        return markup(
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="color-scheme" content="light dark">'
            "<title>{}</title></head>"
            "<body>{}</body></html>",
            description(self.scene),
            self.svg,
        )

    def save(self, filename: Any) -> Path:
        """Write a file, `.svg` or `.html`, and return its path.

        Parameters
        ----------
        filename : str or PathLike
            The ending of its name says which kind of file to write.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        InvalidArgumentError
            The name ends in something else.
        OSError
            The file cannot be written.
        """
        path = Path(filename)
        if path.suffix not in (".svg", ".html"):
            raise InvalidArgumentError(
                f"a picture cannot be written as {path.name!r}; give a name that ends "
                f"in .svg or .html. For .png open the .svg in a browser or a drawing "
                f"program and export it from there."
            )
        text = self.svg if path.suffix == ".svg" else self.html
        replace_regular(path, [text.encode()])
        return path

    def _repr_svg_(self) -> Html:
        return self.svg

    def _repr_html_(self) -> Html:
        style = "overflow:auto;max-height:80vh"
        return in_cell(markup('<div style="{}">{}</div>', style, self.svg))

    def __repr__(self) -> str:
        return f"<picture: {description(self.scene)}>"


def picture_of(x: Any, metadata: Any = None, max_nodes: int | None = None) -> Picture:
    """Return a picture of a graph, or of all that some tensors and ops need.

    Parameters
    ----------
    x : Graph, Tensor, Variable, Op, or a list of tensors, variables and ops
        What to draw.
    metadata : RunMetadata, optional
        That of a run: the picture then says where each op ran, how long it took, and
        how many bytes were moved. What did not run is faint.
    max_nodes : int, default 100
        How many boxes to draw at most; if there are more, name scopes are folded.

    Raises
    ------
    TypeError
        `x` is something else.
    ValueError
        The tensors and ops belong to several graphs.
    InvalidArgumentError
        `max_nodes` is less than 1.
    """
    most = MOST_BOXES if max_nodes is None else max_nodes
    if most < 1:
        raise InvalidArgumentError(f"max_nodes is {max_nodes}; give 1 or more.")
    return Picture(scene_of(_ops(x), metadata, most))


def _ops(x: Any) -> list[Op]:
    if isinstance(x, Graph):
        return x.ops
    parts = list(_flat(x))
    if len({op.graph for op in parts}) > 1:
        raise ValueError(
            "a picture shows one graph, and these belong to several; give those of one."
        )
    return needed(parts)


def _flat(x: Any) -> Iterable[Op]:
    if isinstance(x, Op):
        yield x
    elif isinstance(x, ArrayProtocol):
        yield tensor_of(x).op
    elif isinstance(x, IndexedSlices):
        yield from _flat([x.values, x.indices])
    elif isinstance(x, list | tuple):
        for part in x:
            yield from _flat(part)
    elif x is not None:  # a gradient may be None
        raise TypeError(
            f"{x!r} of type {type(x).__name__} is not part of a graph; give a graph, "
            f"tensors or ops."
        )


def _visualize(x: Any, filename: Any, metadata: Any, max_nodes: int | None) -> Picture:
    picture = picture_of(x, metadata, max_nodes)
    if filename is not None:
        picture.save(filename)
    return picture


def _in_passing(x: Any) -> Html:
    picture = picture_of(x, max_nodes=_MOST_IN_PASSING)
    drawing = picture.svg if picture.scene.boxes else ""
    return markup(
        '<div><code>{}</code><div style="overflow:auto;max-height:34em">{}</div></div>',
        repr(x),
        drawing,
    )


lend(visualize=_visualize, repr_html=_in_passing)
