"""The file `checkpoint`: which checkpoints a folder has, and which is the latest.

    model_checkpoint_path: "/models/run/model.ckpt-20"
    all_model_checkpoint_paths: "/models/run/model.ckpt-10"
    all_model_checkpoint_paths: "/models/run/model.ckpt-20"

The client writes it, and paths in it may be relative to its folder. Also here: whether
the files of one checkpoint exist, how old they are, and their removal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kit.checkpoint.bundle import exists, files_of
from kit.checkpoint.files import replace_file
from kit.errors import NotFoundError
from kit.regular_file import read_regular
from kit.tf1 import logging
from kit.tf1.gfile import local_path
from kit.tf1.graph.message import CheckedMessage


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Whether there is a checkpoint, whole or damaged, under a prefix.

    A file whose whole name is the prefix also counts as one.
    """
    prefix = os.fspath(checkpoint_prefix)
    return exists(prefix) or (prefix != "" and Path(prefix).exists())


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[str]) -> list[float]:
    """Return when those of the checkpoints that exist were written, in seconds."""
    times = []
    for prefix in checkpoint_prefixes:
        for name in (f"{prefix}.index", prefix):
            with suppress(FileNotFoundError):
                times.append(float(int(Path(name).stat().st_mtime)))
                break
    return times


def remove_checkpoint(
    checkpoint_prefix: str,
    checkpoint_format_version: int = 2,
    meta_graph_suffix: str = "meta",
) -> None:
    """Remove a checkpoint's files, the index first; missing ones do not matter."""
    meta = Path(f"{checkpoint_prefix}.{meta_graph_suffix}")
    for path in [*files_of(checkpoint_prefix), meta]:
        path.unlink(missing_ok=True)


STATE_FILE = "checkpoint"
_MOST_BYTES = 1 << 22  # some 30,000 checkpoints


class CheckpointState(CheckedMessage):
    """The contents of the file."""

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str]
    all_model_checkpoint_timestamps: list[float]
    last_preserved_timestamp: float


def generate_checkpoint_state_proto(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> CheckpointState:
    """Return the contents for the file of a folder; the latest checkpoint comes last.

    In a relative folder, paths become relative to it. Raises `ValueError` unless there
    is one time for each path.
    """
    latest, paths = model_checkpoint_path, list(all_model_checkpoint_paths or [])
    if not paths or paths[-1] != latest:
        paths.append(latest)
    times = all_model_checkpoint_timestamps
    if times and len(times) != len(paths):
        raise ValueError(
            f"Checkpoint timestamps, if provided, must match checkpoint paths (got "
            f"paths {paths} and timestamps {list(times)})"
        )
    if not Path(save_dir).is_absolute():
        paths = [_relative(path, save_dir) for path in paths]
        latest = _relative(latest, save_dir)
    return CheckpointState(
        model_checkpoint_path=latest,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=last_preserved_timestamp,
    )


def update_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
    *,
    relative: bool = False,
) -> None:
    """Write the file of a folder, with all paths relative to it if `relative`.

    Raises as `generate_checkpoint_state_proto` does, `RuntimeError` for a checkpoint
    with the name of the file, `NotFoundError` when there is no such folder.
    """
    target = _state_path(save_dir, latest_filename)
    latest, paths = model_checkpoint_path, all_model_checkpoint_paths
    if relative and Path(latest).is_absolute():
        latest = _relative(latest, save_dir)
        paths = [
            _relative(path, save_dir) if Path(path).is_absolute() else path
            for path in paths or []
        ]
    times = all_model_checkpoint_timestamps
    state = generate_checkpoint_state_proto(
        save_dir, latest, paths, times, last_preserved_timestamp
    )
    if state.model_checkpoint_path == str(target):
        raise RuntimeError(
            f"Save path {latest!r} conflicts with path used for checkpoint state. "
            f"Please use a different save path."
        )
    try:
        replace_file(target, str(state).encode())
    except FileNotFoundError as exc:
        raise NotFoundError(None, None, f"{save_dir!r} is not a folder.") from exc


def get_checkpoint_state(
    checkpoint_dir: str, latest_filename: str | None = None
) -> Any:
    """Return the contents of a folder's file, with full paths; None without one.

    Raises `ValueError` for a file that names no latest checkpoint, and
    `InvalidArgumentError` for what is not a regular file, or too large.
    """
    checkpoint_dir = local_path(checkpoint_dir)
    path = _state_path(checkpoint_dir, latest_filename)
    if path.is_dir():
        return None
    try:
        text = read_regular(path, _MOST_BYTES).decode()
        state = CheckpointState.from_text(text)
    except OSError:
        return None
    except ValueError as exc:
        logging.warning("%s: %s", path, exc)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {checkpoint_dir}")

    def whole(path: str) -> str:
        return os.path.join(checkpoint_dir, path)  # noqa: PTH118 - keeps './' as it is

    return CheckpointState(
        model_checkpoint_path=whole(state.model_checkpoint_path),
        all_model_checkpoint_paths=[
            whole(item) for item in state.all_model_checkpoint_paths
        ],
        all_model_checkpoint_timestamps=state.all_model_checkpoint_timestamps,
        last_preserved_timestamp=state.last_preserved_timestamp,
    )


def latest_checkpoint(
    checkpoint_dir: str, latest_filename: str | None = None
) -> str | None:
    """Return the prefix of a folder's latest checkpoint, None if it has none."""
    checkpoint_dir = local_path(checkpoint_dir)
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    path: str = state.model_checkpoint_path
    if not is_inside(path, checkpoint_dir):
        logging.error("%s", outside(path, checkpoint_dir))
        return None
    if checkpoint_exists(path):
        return path
    logging.error("Couldn't match files for checkpoint %s", path)
    return None


def is_inside(prefix: str, folder: str) -> bool:
    """Whether a checkpoint lies in a folder or below it, links followed."""
    parent = os.path.realpath(folder)
    return Path(os.path.realpath(prefix)).is_relative_to(parent)


def outside(prefix: str, folder: str) -> str:
    """Return why what a folder's file names is not read."""
    return (
        f"The file {STATE_FILE!r} of {folder!r} names the checkpoint {prefix!r}, which "
        f"is outside of that folder and so may be anybody's. If it is meant, restore "
        f"it by its path: saver.restore(sess, {prefix!r})."
    )


def _state_path(folder: str, file_name: str | None) -> Path:
    return Path(folder) / (file_name or STATE_FILE)


def _relative(path: str, folder: str) -> str:
    if Path(path).is_absolute() and not Path(folder).is_absolute():
        return path
    return os.path.relpath(path, folder)
