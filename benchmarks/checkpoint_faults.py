"""Faults of checkpoints within one process: damage, refusals of the disk, crashes.

Each function makes faults and returns a `Tally`: how many, and which were not met as
promised. A damaged checkpoint is noticed and the one before it loaded, whole; a save
that fails leaves what was there; nothing is left over after the next save.
"""

from __future__ import annotations

import errno
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.checkpoint_scene import (
    Tally,
    problem_after_next,
    problem_of,
    save,
    values_of,
)
from kit.checkpoint import Folder
from kit.checkpoint.bundle import TensorBundle, files_of, write_bundle
from kit.checkpoint.files import Files
from kit.errors import CheckpointFailed, DataLossError, KitError
from tests.checkpoint.crash_images import CrashedDisk, frozen, lay_out
from tests.checkpoint.disk import (
    EVERY_CALL,
    NEEDS_ROOM,
    DiskFailure,
    FileCall,
    WatchedFiles,
    counted,
)

Spans = dict[str, tuple[Path, range]]


@contextmanager
def a_folder(*, on_disk: bool = False) -> Iterator[Path]:
    """Give a path where nothing is yet; in memory, where syncs cost nothing, if not."""
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() and not on_disk else None
    with tempfile.TemporaryDirectory(prefix="checkpoints-", dir=where) as result:
        yield Path(result) / "run"


def byte_classes(checkpoint: Path) -> Spans:
    """Return the place of each class of bytes: name -> file and bytes."""
    result: Spans = {}
    for shard in sorted(checkpoint.glob("*.safetensors")):
        data = shard.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        result[f"length of {shard.name}"] = shard, range(8)
        result[f"header of {shard.name}"] = shard, range(8, begin)
        result[f"values of {shard.name}"] = shard, range(begin, len(data))
    manifest = checkpoint / "manifest.json"
    text = manifest.read_bytes()
    digest = text.rindex(b'"sha256"')
    result["body of the manifest"] = manifest, range(digest)
    result["digest of the manifest"] = manifest, range(digest, len(text))
    return result


def noticed(path: Path, damaged: Path) -> str | None:
    """Return what is wrong, unless the damaged checkpoint is passed over for step 1."""
    problem = problem_of(path, 1, 1)
    if problem is None:
        passed = [item for item, _ in Folder(path).load_newest()[0].passed_over]
        problem = None if passed == [damaged] else f"passed over were {passed}"
    return problem


def flipped_bits(flips: int, seed: int) -> Tally:
    """Flip single bits, as often in each class of bytes; one at a time."""
    tally, rng = Tally(), random.Random(seed)
    with a_folder() as path:
        save(path, 1)
        newest = save(path, 2)
        spans = byte_classes(newest)
        for number in range(flips):
            name = list(spans)[number % len(spans)]
            file, span = spans[name]
            with changed(file, _flip(rng.choice(span), 1 << rng.randrange(8))):
                tally.check(name, noticed(path, newest))
            tally.count(name)
        tally.check("all put right again", problem_of(path, 2, 2))
    return tally


def flipped_bits_under_a_prefix(flips: int, seed: int) -> Tally:
    """Flip single bits of a checkpoint under a prefix, as a `Saver` writes it."""
    tally, rng = Tally(), random.Random(seed)
    with a_folder() as path:
        prefix, values = str(path / "model.ckpt-2"), values_of(2)
        write_bundle(prefix, [*values], [""] * len(values), [*values.values()])
        for _ in range(flips):
            file = rng.choice(files_of(prefix))
            position = rng.randrange(file.stat().st_size)
            with changed(file, _flip(position, 1 << rng.randrange(8))):
                tally.check(
                    f"{file.name} at {position}", _is_refused(prefix, [*values])
                )
            tally.count(file.suffix.split("-")[0])
    return tally


def _is_refused(prefix: str, names: list[str]) -> str | None:
    try:
        TensorBundle(prefix).read(names, [""] * len(names))
    except DataLossError:
        return None
    return "it was read as if it were whole"


def truncated(lengths: int, seed: int) -> Tally:
    """Cut each file of a checkpoint at many lengths, and lengthen it."""
    tally, rng = Tally(), random.Random(seed)
    with a_folder() as path:
        save(path, 1)
        newest = save(path, 2)
        files = sorted(newest.iterdir())
        for number in range(lengths):
            file = files[number % len(files)]
            length = rng.randrange(file.stat().st_size)
            with changed(file, lambda data, to=length: data[:to]):  # type: ignore[misc]
                tally.check(f"{file.name} cut at {length}", noticed(path, newest))
            tally.count(f"{file.name} cut")
        for file in files:
            with changed(file, lambda data: data + b"\n"):
                tally.check(f"{file.name} with a byte more", noticed(path, newest))
    return tally


def missing_and_swapped() -> Tally:
    """Delete each file, and give it the place of the other step's."""
    tally = Tally()
    with a_folder() as path:
        before = save(path, 1)
        newest = save(path, 2)
        for file in sorted(newest.iterdir()):
            data = file.read_bytes()
            file.unlink()
            tally.check(f"{file.name} deleted", noticed(path, newest))
            file.write_bytes(data)
            other = (before / file.name).read_bytes()
            with changed(file, lambda _, other=other: other):  # type: ignore[misc]
                tally.check(f"{file.name} of another step", noticed(path, newest))
                with changed(before / file.name, lambda _, data=data: data):  # type: ignore[misc]
                    tally.check(f"{file.name} swapped", _all_are_refused(path))
        first, second = [newest / f"worker-{i}.safetensors" for i in (0, 1)]
        swapped = {first: second.read_bytes(), second: first.read_bytes()}
        with (
            changed(first, lambda _: swapped[first]),
            changed(second, lambda _: swapped[second]),
        ):
            tally.check("two shards swapped", noticed(path, newest))
        renamed = before.rename(path / "step-9")
        problem = problem_of(path, 2, 2)
        tally.check("an old step under a new name", problem)
        renamed.rename(before)
    return tally


def _all_are_refused(path: Path) -> str | None:
    try:
        result, _ = Folder(path).load_newest()
    except CheckpointFailed:
        return None
    return f"{result.path.name} was taken for whole"


@contextmanager
def changed(file: Path, change: Callable[[bytes], bytes]) -> Iterator[None]:
    """Change a file for a block; the change must be one."""
    before = file.read_bytes()
    after = change(before)
    assert after != before, "no fault was made"
    file.write_bytes(after)
    try:
        yield
    finally:
        file.write_bytes(before)


def _flip(position: int, bit: int) -> Callable[[bytes], bytes]:
    def flip(data: bytes) -> bytes:
        return data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :]

    return flip


CODES = (errno.ENOSPC, errno.EIO)


def refused_calls(every: int = 1) -> Tally:
    """Let each call of a save fail, for itself and with all that need room after it."""
    tally = Tally()
    with a_folder() as path:
        kept = path.with_name("kept")
        for step in (1, 2):
            save(kept, step)

        def third(files: Files) -> Path:
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(kept, path)
            return save(path, 3, files)

        for kinds, for_good in ((EVERY_CALL, False), (NEEDS_ROOM, True)):
            for at in range(0, counted(third, kinds), every):
                code = CODES[at % len(CODES)]
                failure = DiskFailure(at, code, kinds, for_good=for_good)
                name = f"call {at} fails{' for good' * for_good}"
                try:
                    third(WatchedFiles(failure))
                except KitError:
                    tally.count("refused with a typed error")
                tally.count(f"failed: {failure.struck[0].kind}")
                tally.check(name, problem_of(path, 2, 3) or problem_after_next(path, 4))
    return tally


def crash_images(seed: int, *, is_synced: bool = True, most: int = 10**6) -> Tally:
    """Rebuild all that may be found after a crash at each call of three saves.

    Without `is_synced` the disk takes every sync for nothing, which must be noticed.
    """
    tally, rng = Tally(), random.Random(seed)
    seen: set[object] = set()
    with a_folder() as path:
        path.mkdir()
        disk, announced = CrashedDisk(path), [0]

        def on_call(call: FileCall | None) -> None:
            for image in disk.images(rng):
                key = (frozen(image), announced[0])
                if key not in seen and tally.tried < most:
                    seen.add(key)
                    with a_folder() as result:
                        lay_out(image, result)
                        tally.check(
                            f"before {call}"[:120], _image_problem(result, *announced)
                        )
            if call is not None and (is_synced or "sync" not in call.kind):
                disk.apply(call)
                tally.count(call.kind)

        for step in (1, 2, 3):
            save(path, step, WatchedFiles(on_call))
            announced[0] = step
        on_call(None)
    return tally


def _image_problem(path: Path, announced: int) -> str | None:
    problem = problem_of(path, announced or None, announced + 1)
    return problem or problem_after_next(path, 9)
