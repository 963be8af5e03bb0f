"""Read a training's checkpoint without a cluster: its parameters, as arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kit.checkpoint import Folder, Found, load, read_manifest
from kit.errors import CheckpointFailed, NotFoundError
from kit.exchange.ports.memory import Array

_NAME = re.compile(r"step-\d+(?:\.\d+)?")


class CheckpointValues(Mapping[str, Array]):
    """The parameters of a checkpoint by name; usable as `params` of `kit.train`.

    Attributes:
        step: how many steps were done.
        path: the checkpoint's folder.
        slots: the optimizer's state: for each slot, arrays by parameter.
        extra: what else is known of the training: seed, batch, tasks, optimizer.
        passed_over: newer checkpoints that are damaged, each with what is wrong.
    """

    def __init__(self, found: Found, values: dict[str, Array]) -> None:
        """Sort values into parameters and slots."""
        manifest = found.manifest
        self.step, self.path = manifest.step, found.path
        self.extra: Mapping[str, Any] = manifest.extra
        self.passed_over = found.passed_over
        self.slots: dict[str, dict[str, Array]] = {}
        slots = manifest.extra.get("slots", [])
        if not isinstance(slots, list):
            raise CheckpointFailed(f"{found.path} has {slots!r} for a list of slots.")
        for slot in map(str, slots):
            names = [one for one in values if f"{one}/{slot}" in values]
            self.slots[slot] = {one: values[f"{one}/{slot}"] for one in names}
        taken = {f"{one}/{s}" for s, found in self.slots.items() for one in found}
        self._values = {k: v for k, v in values.items() if k not in taken}

    def __getitem__(self, name: str) -> Array:
        """Return a parameter's value."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the parameters."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of parameters."""
        return len(self._values)

    def __repr__(self) -> str:
        return f"<step {self.step} from {self.path}: {', '.join(self)}>"


def load_checkpoint(folder: str | Path) -> CheckpointValues:
    """Return the newest good checkpoint of a folder, or the one that the path names.

    `load_checkpoint("digits")`, `load_checkpoint("digits/step-400")`. All bytes are
    compared with their digests. Raises `NotFoundError` when there is none, and
    `CheckpointFailed` for damage; there is no partial result.
    """
    path = Path(folder).expanduser()
    if _NAME.fullmatch(path.name) and not Folder(path).steps():
        if not path.is_dir():
            raise NotFoundError(
                f"there is no checkpoint {path}; {path.parent} has those of the steps "
                f"{Folder(path.parent).steps()}."
            )
        found = Found(path, read_manifest(path))
        return CheckpointValues(found, load(found))
    return CheckpointValues(*Folder(path).load_newest())
