"""What the coordinator holds of a training's checkpoints: the folder, the beginning.

Opened before any task has begun, so that a folder that cannot be used, one that belongs
to another training, and a checkpoint of another model end `kit.train` at once.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from kit import arithmetic
from kit.arithmetic import Arithmetic
from kit.checkpoint import (
    FILES,
    Files,
    Folder,
    FoundCheckpoint,
    differences,
    read_manifest,
)
from kit.errors import (
    CheckpointFailed,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
)
from kit.exchange.layout import Range, tensors_of
from kit.exchange.ports.memory import Array, Memory
from kit.faults import points
from kit.features import load
from kit.message_fields import shown
from kit.regular_file import check_regular
from kit.training.client.saves import Resumed
from kit.training.core.job import Job
from kit.training.core.snapshot import fill
from kit.training.core.terms import first_few
from kit.training.features.checkpointing.policy import AFRESH, Checkpoints
from kit.training.features.checkpointing.save_coordinator import (
    SaveCoordinator,
    name_of,
)
from kit.training.worker import kept_state

# --------------------------------------------------------------------------------------
# Which training saves into a folder, and how far it is: a mark in the folder.
#
# The mark is a file that its owner has locked. The system releases the lock when the
# owner's process ends, however it does; so a dead owner's mark is simply taken over.
# Its first eight bytes are the owner's step, written as an assignment to mapped memory:
# what a killed training had reached can be read when it goes on.


NAME: Final = ".owner"
_SIZE: Final = 4096
_STEP: Final = 8
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FolderLock:
    """The locked mark in a folder. `reached` may be set as often as one likes."""

    def __init__(self, folder: Path, run: str, task: str) -> None:
        """Lock the folder for a run; it must exist.

        An earlier generation of the same run may have it, in a process that is stopped:
        its mark is replaced. When that process wakes up it can write nothing but what
        is written again, with the same bits.

        Raises `FailedPreconditionError`, naming the owner, while another training has
        it, and `CheckpointFailed` if the mark cannot be written.
        """
        path = folder / NAME
        try:
            self._file = os.open(path, _FLAGS, 0o600)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            check_regular(path, os.fstat(self._file), CheckpointFailed)
            self._lock(folder, run)
            # Under the lock: before it, the last owner may still count.
            before = os.pread(self._file, _SIZE, 0)
            self.left_at = int.from_bytes(before[:_STEP], "little")
            os.ftruncate(self._file, _SIZE)
            owner = {"run": run, "task": task, "pid": os.getpid()}
            owner["host"] = os.uname().nodename
            text = json.dumps(owner).encode()[: _SIZE - _STEP]
            os.pwrite(self._file, text.ljust(_SIZE - _STEP, b"\0"), _STEP)
            self._memory = mmap.mmap(self._file, _SIZE)
        except OSError as error:
            os.close(self._file)
            raise _unusable(path, error) from error
        except KitError:
            os.close(self._file)
            raise
        self._step = memoryview(self._memory)[:_STEP].cast("Q")

    def reached(self, step: int) -> None:
        """Note how many steps are done; costs as much as an assignment."""
        self._step[0] = step

    def close(self) -> None:
        """Let go of the folder."""
        if self._file >= 0:
            self._step.release()  # first: a view keeps the mapping from being closed
            self._memory.close()
            # A process that was forked meanwhile has the lock as well, and may stay.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1

    def _lock(self, folder: Path, run: str) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner_run, owner = self._owner()
            if owner_run != run:
                raise FailedPreconditionError(
                    f"{folder} belongs to another training, {owner}, which saves its "
                    f"own checkpoints there. Wait for its end, or give another folder."
                ) from None
            self._replace(folder / NAME)

    def _replace(self, path: Path) -> None:
        """Put our own mark in place of one that is locked."""
        old = self._file
        # The old file keeps its lock and loses its name: the next one that looks for
        # the mark finds ours. O_EXCL lets one of two that replace it at once fail.
        path.unlink()
        self._file = os.open(path, _FLAGS | os.O_EXCL, 0o600)
        os.pwrite(self._file, os.pread(old, _SIZE, 0), 0)
        os.close(old)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _owner(self) -> tuple[str, str]:
        """Return the owner's run, and in words who it is."""
        text = os.pread(self._file, _SIZE, _STEP).rstrip(b"\0")
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            owner = json.loads(text)
            run = str(owner["run"])
            where = f"process {owner['pid']} on {owner['host']}"
            return run, f"run {run[:8]} of {owner['task']} ({where})"
        return "", "whose mark cannot be read"


def _unusable(path: Path, error: OSError) -> CheckpointFailed:
    return CheckpointFailed(
        f"{path} cannot be written and locked: {error.strerror or error}. Give another "
        f"folder for the checkpoints."
    )


Values: TypeAlias = dict[str, Array]


_TOO_MANY: Final = 4  # threads for each that has a core


class CheckpointStore:
    """The locked folder, the save coordinator, and the state to begin with, if any."""

    def __init__(
        self, job: Job, begun: Callable[[int], None], ended: Callable[[int, bool], None]
    ) -> None:
        """Lock the folder and read the checkpoint that the job goes on from.

        Blocks while it is read. Raises `FailedPreconditionError` for a folder that
        another training is using, `InvalidArgumentError` naming what differs from the
        model, `NotFoundError` for a checkpoint that is not there, `CheckpointFailed`
        when all are damaged, and what the system refuses.
        """
        self._job, wanted = job, job.checkpoints
        files = _Crashing(job) if job.crash else FILES
        self._folder = Folder(wanted.folder, wanted.keep, files)
        _make(self._folder)
        # Before `prepare`, which removes drafts: they may be another training's.
        task = str(job.tasks[job.coordinator])
        self._claim = FolderLock(self._folder.path, name_of(job), task)
        try:
            self._folder.prepare()
            self.save_coordinator = SaveCoordinator(job, self._folder, begun, ended)
            self.values: Values | None = None
            self.arithmetic: Arithmetic | None = None  # of the checkpoint, if it says
            self._states: dict[int, bytes] = {}  # packed, by member
            # What each worker keeps of what others had, packed, and what is lost.
            self._shared: tuple[bytes, list[str]] | None = None
            self.resumed = self._begin(job, wanted)
        except BaseException:
            self._claim.close()
            raise
        self.reached(self.step)
        # Before the first generation of an elastic training.
        if self.resumed is not None:
            self.save_coordinator.resumed = self.resumed.to_plain()

    @property
    def step(self) -> int:
        """The step that the training begins before."""
        return self.resumed.step if self.resumed else 0

    def reached(self, step: int) -> None:
        """Note how many steps are done, for a restart after a crash."""
        self._claim.reached(step)

    def kept(self, member: int) -> bytes:
        """Return what a member's step function had kept by the checkpoint, packed."""
        return self._states.get(member, b"")

    def restore(self, memory: Memory, now: int, own: Sequence[Range]) -> None:
        """Write all that was read into the coordinator's memory, and let go of it.

        Not `own` alone: the others are sent theirs from there.
        """
        assert self.values is not None, "there is a checkpoint"
        fill(memory, now, self._job.slots, self.values)
        self.values = None

    def going_on_with(self, threads: int) -> Arithmetic:
        """Return what a training computes with here, which its checkpoints will say.

        Its BLAS threads are those of the generation before, if there are any, or of the
        checkpoint, else those that are set here. With another number the bits would not
        be those of a training that was not disturbed.
        """
        saved = self.arithmetic.threads if self.arithmetic is not None else 0
        self.save_coordinator.arithmetic = here = arithmetic.here(
            threads or saved or None
        )
        return here

    def forget(self) -> None:
        """Let go of what was read, for a training that begins with something else."""
        self.values, self._states = None, {}

    def close(self) -> None:
        """Let go of the folder."""
        self._claim.close()
        self.forget()

    def _read(self, job: Job, checkpoint: FoundCheckpoint, values: Values) -> None:
        """Take what a checkpoint holds."""
        self.arithmetic = _arithmetic_of(checkpoint)
        self._states = {
            member: values.pop(name).tobytes()
            for name, member in job.states.items()
            if name in values
        }
        if self._shared is not None:
            self._states = dict.fromkeys(job.states.values(), self._shared[0])
        for name in texts_of(checkpoint, "states"):  # of workers that are not here
            values.pop(name, None)
        self.values = values

    def _begin(self, job: Job, wanted: Checkpoints) -> Resumed | None:
        steps = self._folder.steps()
        if job.generation.number:
            own = self._own(job, steps)
            if own is not None:
                return own
        if job.restore == AFRESH:
            self.save_coordinator.drop_all_before_saving()
            return None
        if job.restore.startswith("step-"):
            step = int(job.restore.removeprefix("step-"))
            checkpoint, values = self._folder.load_at(step)
        elif steps:
            checkpoint, values = self._folder.load_newest()
        else:
            return None
        self._compare(job, checkpoint, values)
        self._read(job, checkpoint, values)
        step, last = checkpoint.manifest.step, self._claim.left_at
        self.save_coordinator.go_on_from(
            step, checkpoint.path, drops_later=bool(job.restore)
        )
        # A training that goes back to an older checkpoint on request has lost nothing.
        lost = 0 if job.restore else max(0, last - step)
        over = tuple((str(path), why) for path, why in checkpoint.passed_over)
        threads, differs = self._other(job)
        if self._shared is not None:
            differs += _moved(len(texts_of(checkpoint, "states")), self._shared[1])
        return Resumed(step, str(checkpoint.path), lost, over, threads, differs)

    def _other(self, job: Job) -> tuple[int, tuple[str, ...]]:
        """Return the threads of before, and what else was not as it is here."""
        before, mine = self.arithmetic, arithmetic.here()
        if before is None:
            return 0, ()
        named = [("the checkpoint", before), (job.tasks[job.coordinator].short, mine)]
        wrong = arithmetic.differences(named)
        if mine.threads and before.threads >= _TOO_MANY * mine.threads:
            wrong.append(
                f"each task computes with {before.threads} BLAS threads as before, for "
                f"the same bits, where {mine.threads} would suit the cores: slowly. If "
                f"other bits will do, begin in another folder with "
                f"params=kit.load_checkpoint(...)"
            )
        return before.threads, tuple(wrong)

    def _own(self, job: Job, steps: list[int]) -> Resumed | None:
        """Go on from what an earlier generation has saved, if it has.

        It does not matter then with which checkpoint the training itself began.
        """
        own = [step for step in steps if self._is_own(job, step)]
        self.save_coordinator.n_saved = len(own)  # the others were removed, or counted
        self.save_coordinator.own = frozenset(own)
        for step in reversed(own):
            with suppress(CheckpointFailed):
                checkpoint, values = self._folder.load_at(step)
                self._read(job, checkpoint, values)
                self.save_coordinator.go_on_from(
                    step, checkpoint.path, drops_later=False
                )
                return Resumed(step, str(checkpoint.path))
        return None

    def _is_own(self, job: Job, step: int) -> bool:
        with suppress(CheckpointFailed):
            manifest = read_manifest(self._folder.path / f"step-{step}")
            return manifest.extra.get("run") == name_of(job)
        return False

    def _compare(self, job: Job, checkpoint: FoundCheckpoint, values: Values) -> None:
        held, tensors = texts_of(checkpoint, "states"), checkpoint.manifest.tensors()
        # Workers may have kept nothing, though the checkpoint has places for it: after
        # a topology that makes all agree, or with a compressor that loses nothing. Then
        # any training can go on from there, on other workers too.
        has_any = any(0 not in tensors[name].shape for name in held if name in tensors)
        if {*held} != {*job.states} and (has_any or not held):
            packed = [values[name] for name in held if name in values]
            self._shared = _shared_out(packed) if job.states and job.compress else None
            if self._shared is None:
                raise _of_other_workers(checkpoint.path, held, job.states)
        specs = tensors_of(job.specs, job.slots)
        specs |= {name: tensors[name][:2] for name in held if name in tensors}
        wrong = differences(checkpoint.manifest, specs)
        if wrong:
            raise InvalidArgumentError(
                f"{checkpoint.path} is a checkpoint of another model or optimizer: "
                f"{first_few(wrong)}. Train what was saved there, "
                f"or give another folder."
            )


def _of_other_workers(
    path: Path, held: Iterable[str], wanted: Iterable[str]
) -> InvalidArgumentError:
    there, here = (", ".join(sorted(some)) or "none" for some in (held, wanted))
    return InvalidArgumentError(
        f"{path} holds what each worker keeps (`state`, slots of `local_steps`, "
        f"parameters of its own where workers do not agree, and what `compress` has "
        f"yet to send): {there}; this training has {here}. Train with the same "
        f"workers, topology, optimizer and compressor, or begin in another folder with "
        f"params=kit.load_checkpoint({str(path)!r})."
    )


def _shared_out(packed: Sequence[Array]) -> tuple[bytes, list[str]] | None:
    """Return what each of other workers keeps of this, packed, and what is lost.

    None if it is more than a compressor's: that belongs to the workers that had it.
    """
    parts = [kept_state.parted(kept_state.unpack(data)) for data in packed]
    if any(own for own, _ in parts) or not any(kept for _, kept in parts):
        return None
    share = load("kit.exchange.compression.feedback:shared_out")
    shared, lost = share([kept for _, kept in parts])
    return kept_state.pack(kept_state.joined({}, shared)), lost


def _moved(n_before: int, lost: Sequence[str]) -> tuple[str, ...]:
    """Say what became of what a compressor had kept at other workers."""
    said = (
        f"what {n_before} workers had yet to send was shared out: sums get the same by "
        f"it, and other bits"
    )
    return said, *(f"the compressor's {name!r} differed and is lost" for name in lost)


def _arithmetic_of(checkpoint: FoundCheckpoint) -> Arithmetic | None:
    plain = checkpoint.manifest.extra.get("arithmetic")
    try:
        return None if plain is None else Arithmetic.from_plain(plain)
    except InvalidArgumentError as error:
        raise CheckpointFailed(
            f"{checkpoint.path} has {shown(plain)} for what it was computed with: "
            f"{error.message}"
        ) from error


def texts_of(checkpoint: FoundCheckpoint, name: str) -> list[str]:
    """Return what a checkpoint lists by a name; empty without it.

    Raises `CheckpointFailed` for what is not a list.
    """
    texts = checkpoint.manifest.extra.get(name, [])
    if not isinstance(texts, list):
        raise CheckpointFailed(f"{checkpoint.path} has {texts!r} for a list of {name}.")
    return [str(text) for text in texts]


def _make(folder: Folder) -> None:
    """Make the folder, so that its mark can be locked before anything is touched."""
    with suppress(OSError):  # what is wrong, prepare() says better
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder.path.is_dir() and os.access(folder.path, os.W_OK | os.X_OK)):
        folder.prepare()


class _Crashing(Files):
    """The disk, with the named crash points around the rename of a checkpoint."""

    def __init__(self, job: Job) -> None:
        self._plan = points.Crash.parse(job.crash)
        self._task = job.tasks[job.coordinator]

    def rename(self, source: Path, target: Path) -> None:
        """See `Files`."""
        step = int(target.name.split(".")[0].removeprefix("step-"))
        is_commit = ".tmp-" not in target.name
        if is_commit:
            points.reach(self._plan, "ckpt.before_rename", self._task, step)
        super().rename(source, target)
        if is_commit:
            points.reach(self._plan, "ckpt.after_rename", self._task, step)
