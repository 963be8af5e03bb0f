"""What may be on a disk after a crash: every image that the system does not rule out.

A write is certain only once its file was synced, a name (made, renamed or removed) only
once its folder was. Until then each may have happened or not, and a write may have left
only its beginning, or zeros. Most file systems guarantee more, but nothing more is
assumed. If there are too many possibilities, some are drawn at random.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tests.checkpoint.disk import FileCall

Image: TypeAlias = "dict[str, Image] | bytes"
_ALL_SUBSETS_OF = 6
_SAMPLES = 48


@dataclass(eq=False)
class _File:
    """`certain` bytes, and writes that are not certain yet."""

    certain: bytes = b""
    pending: list[bytes] = field(default_factory=list)

    def images(self, _: random.Random) -> list[Image]:
        if not self.pending:
            return [self.certain]
        *before, last = self.pending
        start = self.certain + b"".join(before)
        half = last[: len(last) // 2]
        zeros = bytes(len(last))
        result = {start + last, start + half, start + zeros, self.certain}
        return [*sorted(result)]


@dataclass(eq=False)
class _Folder:
    """`certain` names, and changes of names that are not certain yet."""

    certain: dict[str, Any] = field(default_factory=dict)
    pending: list[dict[str, Any]] = field(default_factory=list)

    def now(self) -> dict[str, Any]:
        """Return the names as a running program sees them."""
        return self._after(self.pending)

    def _after(self, changes: Sequence[dict[str, Any]]) -> dict[str, Any]:
        names = dict(self.certain)
        for change in changes:
            names.update(change)
        return {name: node for name, node in names.items() if node is not None}

    def images(self, rng: random.Random) -> list[Image]:
        result: list[Image] = []
        for subset in _subsets(self.pending, rng):
            names = self._after(subset)
            choices = [node.images(rng) for node in names.values()]
            for combination in _combinations(choices, rng):
                result.append(dict(zip(names, combination, strict=True)))
        return result


def _combinations(
    choices: list[list[Image]], rng: random.Random
) -> Iterator[tuple[Image, ...]]:
    if math.prod(map(len, choices)) <= _SAMPLES:
        yield from itertools.product(*choices)
        return
    for _ in range(_SAMPLES):
        yield tuple(rng.choice(choice) for choice in choices)


def _subsets(changes: list[Any], rng: random.Random) -> Iterator[list[Any]]:
    if len(changes) <= _ALL_SUBSETS_OF:
        for kept in itertools.product((False, True), repeat=len(changes)):
            yield list(itertools.compress(changes, kept))
        return
    for count in range(len(changes) + 1):
        yield changes[:count]
    for _ in range(_SAMPLES):
        yield [change for change in changes if rng.random() < 0.5]


class CrashedDisk:
    """A folder as it may be after a crash, at any moment between calls.

    Parameters
    ----------
    root : Path
        The folder. What is in it now is certain.
    """

    def __init__(self, root: Path) -> None:
        """Begin with what is in a folder now, all of it certain."""
        self._root_path = root
        self._root = _loaded(root)

    def images(self, rng: random.Random) -> list[Image]:
        """Return what may be found if the machine died now."""
        result: list[Image] = self._root.images(rng)
        return result

    def apply(self, call: FileCall) -> None:
        """Follow one call within the folder."""
        folder, name = self._folder(call.path.parent), call.path.name
        match call.kind:
            case "make_folder":
                folder.pending.append({name: _Folder()})
            case "create":
                folder.pending.append({name: _File()})
            case "write":
                folder.now()[name].pending.append(call.data)
            case "sync":
                file = folder.now()[name]
                file.certain += b"".join(file.pending)
                file.pending = []
            case "sync_folder":
                synced = self._folder(call.path)
                synced.certain, synced.pending = synced.now(), []
            case "remove" | "remove_folder":
                folder.pending.append({name: None})
            case "rename":
                assert call.target is not None
                assert call.target.parent == call.path.parent, "one folder only"
                node = folder.now()[name]
                folder.pending.append({name: None, call.target.name: node})

    def _folder(self, path: Path) -> _Folder:
        node: _Folder = self._root
        if path != self._root_path and self._root_path in path.parents:
            for part in path.relative_to(self._root_path).parts:
                node = node.now()[part]
        elif path != self._root_path:
            return _Folder()  # outside the folder: ignored
        return node


def _loaded(path: Path) -> Any:
    if path.is_dir():
        return _Folder({item.name: _loaded(item) for item in path.iterdir()})
    return _File(path.read_bytes())


def lay_out(image: Image, path: Path) -> None:
    """Make an image real.

    Parameters
    ----------
    image : bytes or dict
        A file's contents, or a folder's images by name.
    path : Path
        Where; nothing is there yet.
    """
    if isinstance(image, bytes):
        path.write_bytes(image)
        return
    path.mkdir()
    for name, inside in image.items():
        lay_out(inside, path / name)


def frozen(image: Image) -> Any:
    """Return an image as something that can be a key."""
    if isinstance(image, bytes):
        return image
    return frozenset((name, frozen(inside)) for name, inside in image.items())
