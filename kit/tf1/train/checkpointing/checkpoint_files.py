"""The files of a checkpoint by its prefix: are they there, how old, remove them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kit.checkpoint.bundle import exists, files_of


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Whether there is a checkpoint, whole or damaged, under a prefix.

    Anything that has the prefix as its whole name may be one, as far as this tells.
    """
    prefix = os.fspath(checkpoint_prefix)
    return exists(prefix) or (prefix != "" and Path(prefix).exists())


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[str]) -> list[float]:
    """Return when checkpoints were written, in seconds, of those that are there."""
    found = []
    for prefix in checkpoint_prefixes:
        for name in (f"{prefix}.index", prefix):
            with suppress(FileNotFoundError):
                found.append(float(int(Path(name).stat().st_mtime)))
                break
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
