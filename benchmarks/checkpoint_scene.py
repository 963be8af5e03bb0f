"""A small training's state, step by step, and what is right about a folder of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kit.checkpoint import FILES, Files, Folder, Manifest, Piece, write_shard
from kit.errors import CheckpointFailed, KitError, NotFoundError

Values = dict[str, np.ndarray[Any, Any]]


@dataclass
class Tally:
    """What was tried, and every try that ended otherwise than it must."""

    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.seen[what] = self.seen.get(what, 0) + 1

    def check(self, name: str, problem: str | None) -> None:
        self.tried += 1
        if problem:
            self.wrong.append(f"{name}: {problem}")

    def to_plain(self) -> dict[str, Any]:
        return {"tried": self.tried, "wrong": self.wrong, "seen": self.seen}


def values_of(step: int, rows: int = 24) -> Values:
    """Return the state of a step; no two steps have a tensor in common."""
    rng = np.random.default_rng(step)
    return {
        "w": rng.standard_normal((rows, 8), np.float32),
        "b": rng.standard_normal(8),
        "w/Momentum": rng.standard_normal((rows, 8), np.float32),
        "names": np.array([b"step", str(step).encode()], object),
    }


def save(
    path: Path, step: int, files: Files = FILES, *, rows: int = 24, keep: int = 2
) -> Path:
    """Save a step as two tasks do: two shards, `w` cut between them."""
    folder = Folder(path, keep=keep, files=files)
    result = values_of(step, rows)
    w, half = result["w"].reshape(-1), 3 * rows
    parts = [Piece("w", "float32", result["w"].shape, 0, w[:half])]
    rest = [Piece("w", "float32", result["w"].shape, half, w[half:])]
    rest += [Piece.whole(name, result[name]) for name in ("b", "w/Momentum", "names")]
    draft = folder.draft(step)
    try:
        shards = [
            write_shard(draft / f"worker-{number}.safetensors", pieces, files)
            for number, pieces in enumerate([parts, rest])
        ]
    except KitError:
        folder.discard(draft)
        raise
    return folder.commit(draft, Manifest(step, shards=tuple(shards), extra={"seed": 1}))


def is_equal(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        _bits(left[name]) == _bits(right[name]) for name in left
    )


def _bits(tensor: Any) -> tuple[Any, ...]:
    """Return what two arrays have in common that are equal, NaN and all."""
    content = tensor.tolist() if tensor.dtype == object else tensor.tobytes()
    return tensor.dtype, tensor.shape, content


def problem_of(
    path: Path, least: int | None, most: int, *, rows: int = 24
) -> str | None:
    """Return what is wrong with the newest checkpoint of a folder, if anything is.

    It must be of a step from `least` to `most` and hold exactly that step's values.
    With None there may also be none at all.
    """
    try:
        result, values = Folder(path).load_newest()
    except NotFoundError:
        return None if least is None else "no checkpoint was found"
    except CheckpointFailed as exc:
        return f"nothing could be loaded: {exc.message}"
    step = result.manifest.step
    if not (least or 0) <= step <= most:
        return f"step {step} was loaded, not {least} to {most}"
    if not is_equal(values, values_of(step, rows)):
        return f"step {step} was loaded with other values"
    return None


def problem_after_next(path: Path, step: int) -> str | None:
    """Save once more, without faults; return what is wrong then, if anything is."""
    save(path, step)
    left = [item.name for item in path.iterdir() if ".tmp-" in item.name]
    if left:
        return f"left over after the next save: {left}"
    return problem_of(path, step, step)
