"""The files of a checkpoint by its prefix: are they there, how old, remove them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kit.checkpoint.bundle import exists, files_of


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Whether there is a checkpoint, whole or damaged, under a prefix."""
    return exists(checkpoint_prefix)


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[str]) -> list[float]:
    """Return when checkpoints were written, in seconds, of those that are there."""
    found = []
    for prefix in checkpoint_prefixes:
        with suppress(FileNotFoundError):
            found.append(float(int(Path(f"{prefix}.index").stat().st_mtime)))
    return found


def remove_checkpoint(
    checkpoint_prefix: str,
    checkpoint_format_version: int = 2,
    meta_graph_suffix: str = "meta",
) -> None:
    """Remove a checkpoint's files, those that are there; the index first."""
    meta = Path(f"{checkpoint_prefix}.{meta_graph_suffix}")
    for path in [*files_of(checkpoint_prefix), meta]:
        path.unlink(missing_ok=True)
