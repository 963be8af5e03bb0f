"""What a saver's operations are called, as the original's message."""

from __future__ import annotations

from typing import Any, ClassVar

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
