"""What a saver writes down: the names of its operations, and the graph with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kit.tf1.graph.graph_def import GraphDef
from kit.tf1.graph.message import CheckedMessage, Choice


class CheckpointFormatVersion(Choice):
    """Which form files have; there is one here, which is called V2."""

    NAMES: ClassVar = {0: "LEGACY", 1: "V1", 2: "V2"}


class SaverDef(CheckedMessage):
    """The names of a saver's operations, and what it keeps."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "filename_tensor_name": str,
        "save_tensor_name": str,
        "restore_op_name": str,
        "max_to_keep": int,
        "sharded": bool,
        "keep_checkpoint_every_n_hours": float,
        "version": CheckpointFormatVersion,
    }
    CheckpointFormatVersion = CheckpointFormatVersion
    LEGACY, V1, V2 = 0, 1, 2


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
