"""A graph and its saver as one message, which is written beside a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from kit.tf1.graph.graph_def import GraphDef
from kit.tf1.train.checkpointing.saver_def import SaverDef


@dataclass(repr=False)
class MetaGraphDef:
    """What there was when the variables were saved; for reading."""

    graph_def: GraphDef
    saver_def: SaverDef | None

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        parts = [("graph_def", self.graph_def), ("saver_def", self.saver_def)]
        return "".join(
            f"{name} {{\n{_indented(str(part))}}}\n"
            for name, part in parts
            if part is not None
        )


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())
