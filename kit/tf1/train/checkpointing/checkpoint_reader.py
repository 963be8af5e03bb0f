"""Inspect checkpoints without a graph: names, shapes, values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kit.checkpoint.bundle import TensorBundle
from kit.tf1.graph.graph_def import DataType
from kit.tf1.session.tf_errors import originals
from kit.tf1.tensor.dtypes import DType, as_dtype
from kit.tf1.train.checkpointing.checkpoint_state import latest_checkpoint


class CheckpointReader:
    """One checkpoint."""

    def __init__(self, filepattern: str) -> None:
        """Read its index.

        Raises `NotFoundError` when there is none, `DataLossError` for a damaged one.
        """
        with originals():
            self._bundle = TensorBundle(os.fspath(filepattern))
        self._tensors = self._bundle.tensors()

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shapes of all variables by name."""
        return {name: list(entry.shape) for name, entry in self._tensors.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Return the dtypes of all variables by name."""
        return {name: as_dtype(entry.dtype) for name, entry in self._tensors.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether it holds a variable of this name."""
        return tensor_str in self._tensors

    def get_tensor(self, tensor_str: str) -> Any:
        """Return the value of a variable, read and checked alone.

        Raises `NotFoundError` for one that is not there, `DataLossError` for damage.
        """
        with originals():
            (value,) = self._bundle.read([tensor_str], [""], all_bytes=False)
        return value[()] if value.ndim == 0 else value

    def debug_string(self) -> bytes:
        """Return a line for each variable."""
        lines = [
            f"{name} ({DataType.text(as_dtype(entry.dtype).as_datatype_enum)}) "
            f"[{','.join(map(str, entry.shape))}]\n"
            for name, entry in sorted(self._tensors.items())
        ]
        return "".join(lines).encode()


def NewCheckpointReader(filepattern: str) -> CheckpointReader:
    """Return a reader of the checkpoint under a prefix; raises what the class does."""
    return CheckpointReader(filepattern)


def load_checkpoint(ckpt_dir_or_file: str) -> CheckpointReader:
    """Return a reader of a checkpoint, or of the latest one of a folder.

    Raises `ValueError` for a folder without one, else as `CheckpointReader` does.
    """
    path = os.fspath(ckpt_dir_or_file)
    newest = latest_checkpoint(path) if Path(path).is_dir() else path
    if newest is None:
        raise ValueError(
            f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}"
        )
    return CheckpointReader(newest)


def load_variable(ckpt_dir_or_file: str, name: str) -> Any:
    """Return the value of a variable of a checkpoint; raises as `load_checkpoint`."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def list_variables(ckpt_dir_or_file: str) -> list[tuple[str, list[int]]]:
    """Return names and shapes of a checkpoint's variables, ordered by name."""
    shapes = load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map()
    return sorted(shapes.items())
