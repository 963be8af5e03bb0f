"""Read a training's checkpoint without a cluster: its parameters, as arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kit.checkpoint import Folder, FoundCheckpoint, load
from kit.errors import CheckpointFailed, DataLossError, NotFoundError
from kit.exchange.ports.memory import Array
from kit.regular_file import user_path
from kit.training.features.checkpointing.resume import texts_of
from kit.training.worker import kept_state

_NAME = re.compile(r"step-\d+(?:\.\d+)?")


class CheckpointValues(Mapping[str, Array]):
    """The parameters of a checkpoint by name; usable as `params` of `kit.train`.

    Attributes:
        step: how many steps were done.
        path: the checkpoint's folder.
        slots: the optimizer's state: for each slot, arrays by parameter.
        states: what the step function kept, by worker: `states["worker:1"]["mean"]`.
        extra: what else is known of the training: seed, batch, tasks, optimizer.
        passed_over: newer checkpoints that are damaged, each with what is wrong.
    """

    def __init__(self, checkpoint: FoundCheckpoint, values: dict[str, Array]) -> None:
        manifest = checkpoint.manifest
        self.step, self.path = manifest.step, checkpoint.path
        self.extra: Mapping[str, Any] = manifest.extra
        self.passed_over = checkpoint.passed_over
        self.slots: dict[str, dict[str, Array]] = {}
        for slot in texts_of(checkpoint, "slots"):
            names = [name for name in values if f"{name}/{slot}" in values]
            self.slots[slot] = {name: values[f"{name}/{slot}"] for name in names}
        taken = {
            f"{name}/{s}" for s, values_of in self.slots.items() for name in values_of
        }
        names = texts_of(checkpoint, "states")
        packed = {name: values[name] for name in names if name in values}
        try:
            kept = {name: kept_state.unpack(data) for name, data in packed.items()}
        except DataLossError as exc:
            raise CheckpointFailed(f"{self.path}: {exc.message}") from exc
        self.states = {
            name.removeprefix(kept_state.PREFIX): kept_state.parted(content)[0]
            for name, content in kept.items()
        }
        taken |= {*packed}
        self._values = {k: v for k, v in values.items() if k not in taken}

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<step {self.step} from {self.path}: {', '.join(self)}>"


def load_checkpoint(folder: str | Path) -> CheckpointValues:
    """Return the newest good checkpoint of a folder, or the one that the path names.

    All bytes are compared with their digests; there is no partial result.

    Parameters
    ----------
    folder : str or Path
        The folder of a training, "digits", or one checkpoint in it, "digits/step-400".

    Returns
    -------
    CheckpointValues
        A mapping from the names of the parameters to arrays, with its `step` and what
        else was saved.

    Raises
    ------
    NotFoundError
        There is no checkpoint.
    CheckpointFailed
        It is damaged.
    """
    path = user_path(folder, "the folder of a checkpoint")
    if _NAME.fullmatch(path.name) and not Folder(path).steps():
        if not path.is_dir():
            raise NotFoundError(
                f"there is no checkpoint {path}; {path.parent} has those of the steps "
                f"{Folder(path.parent).steps()}."
            )
        return CheckpointValues(*load(path))
    return CheckpointValues(*Folder(path).load_newest())
