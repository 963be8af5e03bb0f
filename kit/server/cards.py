"""Which GPUs the process of a task sees; said before CUDA looks, which it does once.

Nothing here uses a GPU: cards are counted by their files, so a task that never computes
on one has no context there and takes none of its memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from kit.errors import FailedPreconditionError

AUTO: Final = "auto"
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
FOLDER: Final = Path("/dev")


def see(task: str, wanted: int | str, number: int) -> list[str]:
    """Show this process the cards of a worker; return their names.

    `number` is that of the worker among those of its host, and `wanted` how many cards
    each has of its own; "auto" is one, which workers share where there are fewer.
    Raises `FailedPreconditionError` if there are not enough.
    """
    chosen = cards_of(task, wanted, number, cards_there())
    if chosen or wanted == 0:
        os.environ[_VISIBLE] = ",".join(chosen)
    return chosen


def cards_of(
    task: str, wanted: int | str, number: int, there: Sequence[str]
) -> list[str]:
    """Return the cards of a worker among those of its host.

    >>> cards_of("worker:2", "auto", 2, ["0", "1"])
    ['0']
    >>> cards_of("worker:1", 2, 1, ["0", "1", "2", "3"])
    ['2', '3']
    """
    if wanted == AUTO:
        return [there[number % len(there)]] if there else []
    n = int(wanted)
    chosen = [*there[number * n : (number + 1) * n]]
    if len(chosen) < n:
        raise FailedPreconditionError(
            f"{task} cannot have {n} GPUs of its own: its host has {len(there)}, and "
            f"{number} workers come before it. Start fewer workers, or share: "
            f'gpus="auto".',
            task=task,
        )
    return chosen


@cache
def cards_there() -> tuple[str, ...]:
    """Return the cards that this process was given; asked before it narrows them."""
    visible = os.environ.get(_VISIBLE)  # of Slurm, or whoever started us
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip())
    files = [*FOLDER.glob("nvidia[0-9]"), *FOLDER.glob("nvidia[0-9][0-9]")]
    if not files and (FOLDER / "dxg").exists():  # WSL shows no file for each
        return ("0",)
    return tuple(str(number) for number in range(len(files)))
