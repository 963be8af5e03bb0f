"""Which checkpoints a saver has written, and which of them go when a new one comes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from kit.tf1.train.checkpointing.checkpoint_files import (
    get_checkpoint_mtimes,
    remove_checkpoint,
)

_HOUR_S = 3600.0


class Memory:
    """The newest checkpoints of a saver, oldest first, with their times."""

    def __init__(
        self,
        max_to_keep: int,
        every_n_hours: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """0 keeps all. Of those too old to keep, one each `every_n_hours` stays."""
        self._max, self._every_s = max_to_keep, every_n_hours * _HOUR_S
        self._clock, self._entries = clock, list[tuple[str, float]]()
        self._too_old: list[tuple[str, float]] = []
        self._next_to_stay = clock() + self._every_s

    @property
    def prefixes(self) -> list[str]:
        """The prefixes, oldest first."""
        return [prefix for prefix, _ in self._entries]

    def set(self, entries: Iterable[tuple[str, float]]) -> None:
        """Replace what is remembered."""
        self._entries = list(entries)

    def recover(self, prefixes: Sequence[str]) -> None:
        """Remember what an earlier saver has written, as far as it is still there."""
        times = [(one, get_checkpoint_mtimes([one])) for one in prefixes]
        self.set((one, found[0]) for one, found in times if found)

    def add(self, prefix: str) -> None:
        """Remember a new one; a name that comes again is the newest."""
        if not self._max:
            return
        self._entries = [one for one in self._entries if one[0] != prefix]
        self._entries.append((prefix, self._clock()))
        if len(self._entries) > self._max:
            self._too_old.append(self._entries.pop(0))

    def remove_old(self, meta_suffix: str) -> None:
        """Remove the files of what is too old, unless it is one of those that stay."""
        while self._too_old:
            prefix, at = self._too_old.pop(0)
            if at > self._next_to_stay:
                self._next_to_stay += self._every_s
            elif prefix not in self.prefixes:
                remove_checkpoint(prefix, meta_graph_suffix=meta_suffix)


def prefix_of(save_path: str, step: int | None, *, padded: bool) -> str:
    """Return under which prefix a step is saved.

    >>> prefix_of("m/model.ckpt", 7, padded=False), prefix_of("m", 7, padded=True)
    ('m/model.ckpt-7', 'm-00000007')
    """
    if step is None:
        return save_path
    return f"{save_path}-{step:08d}" if padded else f"{save_path}-{step}"


def folder_of(save_path: str) -> str:
    """Return the folder part of a path as it is written, '' if it has none."""
    return os.path.split(save_path)[0]
