"""A folder of checkpoints: each appears whole or not at all, and none is overwritten.

    step-400/               a checkpoint: manifest.json, and one shard or several
    step-400.2/             step 400 once more, saved later
    step-500.tmp-9f3a21/    a draft: being written, or left by a process that ended

A draft becomes a checkpoint by one rename, when all its bytes are on the disk. Drafts
that were left are removed by the next `draft`; so only one writer at a time may work in
a folder, and it is up to the user not to start several. Any number may read.
"""

from __future__ import annotations

import errno
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from kit.checkpoint.files import FILES, Files, refused, remove_tree, write_file
from kit.checkpoint.manifest import NAME, Manifest
from kit.checkpoint.pieces import SUFFIX, Array, Piece, write_shard
from kit.checkpoint.reading import looks_good, looks_whole, read_all, read_manifest
from kit.errors import CheckpointFailed, InvalidArgumentError, KitError, NotFoundError

# --------------------------------------------------------------------------------------
# Which checkpoints and drafts a folder has, judged by their names alone.


_WHOLE = re.compile(r"step-(0|[1-9]\d*)(?:\.([2-9]|[1-9]\d+))?", re.ASCII)
_DRAFT = re.compile(r"step-\d+(?:\.\d+)?\.tmp-[0-9a-f]+", re.ASCII)


class CheckpointName(NamedTuple):
    """A checkpoint of a folder by its name; the greatest is the newest."""

    step: int
    turn: int  # 1, or higher when the step was saved more than once

    @property
    def name(self) -> str:
        """The name of its folder.

        >>> CheckpointName(400, 1).name, CheckpointName(400, 2).name
        ('step-400', 'step-400.2')
        """
        return f"step-{self.step}" + (f".{self.turn}" if self.turn > 1 else "")


def places(folder: Path) -> list[CheckpointName]:
    """Return all checkpoints, damaged or not, oldest first; none without a folder.

    Raises as `refused` does when the folder cannot be read.
    """
    matches = [_WHOLE.fullmatch(name) for name in _names(folder)]
    return sorted(
        CheckpointName(int(match[1]), int(match[2] or 1)) for match in matches if match
    )


def next_place(folder: Path, step: int) -> CheckpointName:
    """Return where a step is saved next: no name is used twice."""
    turns = [
        checkpoint.turn for checkpoint in places(folder) if checkpoint.step == step
    ]
    return CheckpointName(step, max(turns, default=0) + 1)


def drafts(folder: Path) -> list[Path]:
    """Return all drafts, those that were left included."""
    return [folder / name for name in _names(folder) if _DRAFT.fullmatch(name)]


def _draft_mark() -> str:
    """Return a new ending for the name of a draft."""
    return f".tmp-{secrets.token_hex(4)}"


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise refused(folder, exc) from exc


LEAST_KEPT: Final = 2
_MOST_LOOKS: Final = 10  # at a folder whose checkpoints change while they are read


@dataclass(frozen=True)
class FoundCheckpoint:
    """A checkpoint that was read and found to be whole.

    Attributes:
        path: its folder.
        manifest: what it holds.
        passed_over: newer ones that are damaged, each with what is wrong with it.
    """

    path: Path
    manifest: Manifest
    passed_over: tuple[tuple[Path, str], ...] = ()


Loaded: TypeAlias = tuple[FoundCheckpoint, dict[str, Array]]


class Folder:
    """The checkpoints of one training, oldest first."""

    def __init__(self, path: str | Path, keep: int = 5, files: Files = FILES) -> None:
        """`keep` is how many stay when a new one is there, at least 2.

        Touches nothing yet. Raises `InvalidArgumentError` for a lower `keep`: the only
        one might be damaged.
        """
        if keep < LEAST_KEPT:
            raise InvalidArgumentError(
                f"keep must be at least {LEAST_KEPT}, not {keep}: a damaged checkpoint "
                f"must have one before it."
            )
        self.path, self.keep, self.files = Path(path), keep, files

    # -- writing -----------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folder if it is not there, and try whether it can be written.

        Raises as `draft` does. Call it before a training begins.
        """
        self.discard(self.draft(0))

    def draft(self, step: int) -> Path:
        """Make an empty folder for the shards of a new checkpoint.

        Removes drafts that were left. Raises `PermissionDeniedError`,
        `FailedPreconditionError` (a file is in the way), `ResourceExhaustedError` (the
        disk is full) or `CheckpointFailed`, when it cannot be made.
        """
        if step < 0:
            raise InvalidArgumentError(f"a step is 0 or more, not {step}.")
        try:
            self._make_folder(self.path)
            for left in drafts(self.path):
                remove_tree(self.files, left)
            made = self.path / f"step-{step}{_draft_mark()}"
            self.files.make_folder(made, is_private=True)
        except OSError as exc:
            raise refused(self.path, exc) from exc
        return made

    def discard(self, draft: Path) -> None:
        """Remove a draft, as far as that is possible; the next `draft` tries again."""
        with suppress(OSError):
            remove_tree(self.files, draft)

    def commit(self, draft: Path, manifest: Manifest) -> Path:
        """Make a draft the newest checkpoint of its step, and remove the oldest ones.

        The shards must be on the disk, as `write_shard` leaves them. Returns the new
        folder, which is on the disk with all that is in it. Raises `CheckpointFailed`
        when a shard is not there, the shards are not all of each tensor, or the system
        refuses, or what `draft` raises; then the draft is gone and all others are as
        they were.
        """
        try:
            manifest.check()
            looks_whole(draft, manifest)
            try:
                # The manifest, its name, and last the name of the checkpoint: after a
                # crash there is a draft, or all of it.
                write_file(self.files, draft / NAME, manifest.to_bytes())
                self.files.sync_folder(draft)
                whole = self.path / next_place(self.path, manifest.step).name
                self.files.rename(draft, whole)
            except OSError as exc:
                raise refused(draft, exc) from exc
        except BaseException:
            self.discard(draft)
            raise
        # From here on it is a checkpoint, whatever fails: it is not discarded. The old
        # ones go when its name is on the disk, or a crash could leave neither.
        try:
            self.files.sync_folder(self.path)
            self._remove_old()
        except OSError as exc:
            raise refused(whole, exc) from exc
        return whole

    def save(
        self,
        step: int,
        values: Mapping[str, Any],
        *,
        epoch: int = 0,
        graph_hash: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write all values as one shard and commit it; raises as `commit` does."""
        pieces = [Piece.whole(name, value) for name, value in values.items()]
        draft = self.draft(step)
        try:
            shard = write_shard(draft / f"all{SUFFIX}", pieces, self.files)
        except BaseException:
            self.discard(draft)
            raise
        manifest = Manifest(step, epoch, graph_hash, (shard,), extra or {})
        return self.commit(draft, manifest)

    def remove_after(self, step: int) -> None:
        """Remove all checkpoints of later steps, to go on from an earlier one.

        Raises as `draft` does.
        """
        try:
            # The newest first: if this is interrupted, no gap is left.
            for checkpoint in reversed(places(self.path)):
                if checkpoint.step > step:
                    self._remove(checkpoint)
        except OSError as exc:
            raise refused(self.path, exc) from exc

    # -- reading -----------------------------------------------------------------------

    def steps(self) -> list[int]:
        """Return the steps of which there is a checkpoint, damaged or not, ascending.

        Raises as `load_newest` does when the folder cannot be read; a folder
        that does not exist has none.
        """
        return sorted({checkpoint.step for checkpoint in places(self.path)})

    def load_newest(self) -> Loaded:
        """Return the newest checkpoint that is whole, and its tensors by name.

        Reads it once, and compares all of its bytes. Raises `NotFoundError` when there
        is none at all, `CheckpointFailed` when all are damaged,
        `FailedPreconditionError` when the path is not a folder.
        """
        for _ in range(_MOST_LOOKS):
            chosen = places(self.path)
            try:
                return self._load_first_good(chosen)
            except KitError:
                # A writer may have replaced all of them while they were read.
                if places(self.path) == chosen:
                    raise
        return self._load_first_good(places(self.path))

    def load_at(self, step: int) -> Loaded:
        """Return the newest whole checkpoint of one step, as `load_newest` does."""
        chosen = [
            checkpoint for checkpoint in places(self.path) if checkpoint.step == step
        ]
        if not chosen:
            raise NotFoundError(
                f"{self.path} has no checkpoint of step {step}; it has "
                f"{', '.join(map(str, self.steps())) or 'none at all'}."
            )
        return self._load_first_good(chosen)

    def _load_first_good(self, chosen: list[CheckpointName]) -> Loaded:
        passed_over: list[tuple[Path, str]] = []
        for checkpoint in reversed(chosen):
            path = self.path / checkpoint.name
            try:
                manifest = read_manifest(path)
                if manifest.step != checkpoint.step:
                    raise CheckpointFailed(f"{path} holds the step {manifest.step}.")
                values = read_all(path, manifest)
                return FoundCheckpoint(path, manifest, tuple(passed_over)), values
            except KitError as exc:
                if path.exists():  # else a writer has just removed it, as an old one
                    passed_over.append((path, exc.message))
        if not passed_over:
            raise NotFoundError(
                f"there is no checkpoint in {self.path}. Name the folder of a run that "
                f"has saved one, or start afresh."
            )
        raise CheckpointFailed(
            f"all {len(passed_over)} checkpoints in {self.path} are damaged; the "
            f"newest: {passed_over[0][1]} Restore the folder from a copy, or start "
            f"afresh in another one."
        )

    # -- details -----------------------------------------------------------------------

    def _make_folder(self, path: Path) -> None:
        if path.is_dir():
            return
        if not path.parent.is_dir():
            self._make_folder(path.parent)
        with suppress(FileExistsError):
            self.files.make_folder(path)
        self.files.sync_folder(path.parent)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "a file is in its place")

    def _remove_old(self) -> None:
        """Remove what is older than the newest `keep` that look whole."""
        kept: list[CheckpointName] = []
        # A damaged one does not count: `keep` good ones must be left.
        for checkpoint in reversed(places(self.path)):
            if len(kept) == self.keep:
                self._remove(checkpoint)
            elif looks_good(self.path / checkpoint.name):
                kept.append(checkpoint)

    def _remove(self, checkpoint: CheckpointName) -> None:
        # First its name: if this is interrupted, what is left is a draft, and not a
        # damaged checkpoint.
        draft = self.path / f"{checkpoint.name}{_draft_mark()}"
        self.files.rename(self.path / checkpoint.name, draft)
        remove_tree(self.files, draft)


def load(path: Path) -> Loaded:
    """Return the checkpoint in one folder, and its tensors whole, by name.

    Every byte is compared with its digest. Raises `CheckpointFailed` for any damage;
    there is no partial result.
    """
    manifest = read_manifest(path)
    return FoundCheckpoint(path, manifest), read_all(path, manifest)
