"""A static shape as the original's message. Pure."""

from __future__ import annotations

from typing import ClassVar

from kit.tf1.graph.message import CheckedMessage


class Dim(CheckedMessage):
    """One size; -1 if it is unknown."""

    FIELDS: ClassVar = {"size": int, "name": str}


class TensorShapeProto(CheckedMessage):
    """A shape."""

    FIELDS: ClassVar = {"dim": [Dim], "unknown_rank": bool}
    Dim = Dim


def shape_proto(shape: tuple[int | None, ...] | None) -> TensorShapeProto:
    """Return a static shape as a message."""
    if shape is None:
        return TensorShapeProto(unknown_rank=True)
    sizes = (-1 if size is None else size for size in shape)
    return TensorShapeProto(dim=[Dim(size=size) for size in sizes])
