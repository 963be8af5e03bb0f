"""Recordings from anywhere: damaged, foreign, contradicting themselves.

Whatever is in the files, loading and replaying them ends with a typed error, or with a
recording in which nothing that decides is another one. `KIT_FUZZ_RECORDINGS` says how
many mutations are tried.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.crc import crc32
from kit.errors import DataLossError, FailedPreconditionError, KitError
from kit.recording.content import Content, read_content
from kit.recording.own_objects import object_facts
from kit.recording.parts import LOG, read_parts
from tests.cases import for_each
from tests.recording.conftest import Recorded
from tests.recording.random_runs import Averaged
from tests.training.toy import fit

N_MUTATIONS = int(os.environ.get("KIT_FUZZ_RECORDINGS", "60"))
BEGIN = 16  # bytes of a file before its first part


def decides(content: Content) -> Any:
    """Return what must not change unnoticed."""
    tables = [content.tables[kind].tobytes() for kind in ("STEP", "PUSH", "DIGS")]
    return content.job.to_plain(), content.about, content.epochs, tables


def test_no_flipped_bit_of_the_log_goes_unnoticed(
    recorded: Recorded, copied: Callable[[], Path]
) -> None:
    log = copied() / "run.log"
    whole, dice = log.read_bytes(), np.random.default_rng(1)
    expected = decides(read_content(log.parent))

    for _ in range(N_MUTATIONS):
        data = bytearray(whole)
        data[int(dice.integers(len(data)))] ^= 1 << int(dice.integers(8))
        log.write_bytes(data)
        try:
            result = decides(read_content(log.parent))
        except KitError:
            continue
        assert result == expected


def test_log_that_ends_anywhere_is_read_up_to_there(
    recorded: Recorded, copied: Callable[[], Path]
) -> None:
    log = copied() / "run.log"
    whole, dice = log.read_bytes(), np.random.default_rng(2)
    steps = read_content(log.parent).tables["STEP"].tobytes()

    for size in dice.integers(len(whole), size=N_MUTATIONS).tolist():
        log.write_bytes(whole[:size])
        try:
            result = read_content(log.parent)
        except KitError:
            assert size < len(whole) // 4  # before the first part is complete
            continue
        assert result.end is None
        assert steps.startswith(result.tables["STEP"].tobytes())


def odd(dice: np.random.Generator, value: Any) -> Any:
    """Return something else than a value, at random."""
    others: list[Any] = [
        None,
        -1,
        2**70,
        1e400,
        "",
        "x" * 300,
        [],
        {},
        True,
        [[]],
        "../../etc",
    ]
    if isinstance(value, dict) and value and dice.random() < 0.8:
        name = str(dice.choice([*value]))
        return {**value, name: odd(dice, value[name])}
    if isinstance(value, list) and value and dice.random() < 0.8:
        position = int(dice.integers(len(value)))
        return [*value[:position], odd(dice, value[position]), *value[position + 1 :]]
    return others[int(dice.integers(len(others)))]


Change = Callable[[dict[str, Any]], None]


def part(kind: str, plain: Any, rows: bytes) -> bytes:
    """Return a part with right checksums, as the module's text says."""
    text = json.dumps(plain).encode()
    head = struct.pack("<4sII", kind.encode(), len(text), len(rows))
    sums = struct.pack("<II", crc32(head), crc32(rows, crc32(text)))
    return head + sums + text + rows


def change_head(log: Path, change: Change) -> None:
    """Have the first part of a log say something else; take the last one away."""
    begin, parts = log.read_bytes()[:BEGIN], read_parts(log, LOG).parts
    head = dict(parts[0].plain)
    change(head)
    changed = [parts[0]._replace(plain=head), *parts[1:-1]]
    lines = [part(*item) for item in changed]
    log.write_bytes(begin + b"".join(lines))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the replay of .* may have other bits")
def test_odd_values_under_right_checksums_are_refused_in_words(
    recorded: Recorded, copied: Callable[[], Path]
) -> None:
    log = copied() / "run.log"
    begin, parts = log.read_bytes()[:BEGIN], read_parts(log, LOG).parts
    dice, n_refused = np.random.default_rng(3), 0

    for _ in range(N_MUTATIONS):
        position = int(dice.integers(len(parts)))
        changed = [(item.kind, dict(item.plain), item.rows) for item in parts[:-1]]
        if position < len(changed):
            kind, plain, rows = changed[position]
            if rows and dice.random() < 0.7:
                data = np.frombuffer(rows, np.uint8).copy()
                data[int(dice.integers(len(data)))] = dice.integers(256)
                rows = data.tobytes()[: len(data) - int(dice.integers(3))]
            else:
                plain = odd(dice, plain)
            changed[position] = kind, plain, rows
        log.write_bytes(begin + b"".join(part(*item) for item in changed))
        try:
            loaded = kit.load_run(log.parent)
            assert repr(loaded) + loaded._repr_html_()
            assert loaded.frame() is not None
            assert loaded.trace.bounds()
            kit.replay(loaded, min(5, loaded.step), step=fit)
        except KitError:
            n_refused += 1

    assert n_refused > N_MUTATIONS // 10


def test_state_without_a_parameter_of_the_job_is_refused(
    copied: Callable[[], Path],
) -> None:
    def rename(head: dict[str, Any]) -> None:
        head["job"]["specs"][0][0] = "layer/w"  # named as a slot of `layer`

    log = copied() / "run.log"
    change_head(log, rename)

    with pytest.raises(DataLossError, match="'layer/w' is not there as float32"):
        kit.replay(log.parent, 5, step=fit)


def test_messages_of_holes_or_in_too_many_files_are_not_read(
    copied: Callable[[], Path],
) -> None:
    folder = copied()
    (first, *_) = sorted(folder.glob("messages-*.log"))
    os.truncate(first, 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(DataLossError, match="holes"):
            kit.load_run(folder)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()

    folder = copied()
    for number in range(100, 110):  # links to one file take no room
        os.link(folder / first.name, folder / f"messages-{number:06}.log")
    with pytest.raises(DataLossError, match="files of messages"):
        kit.load_run(folder)


def read_whole(folder: Path) -> None:
    content = read_content(folder)
    content.last_parameters()
    content.stored_data()
    for step in content.states:
        content.state(step)


def test_files_of_a_recording_that_are_links_are_not_followed(
    copied: Callable[[], Path], tmp_path: Path
) -> None:
    names = [path.name for path in copied().iterdir()]
    assert {"run.log", "final.safetensors", "data.safetensors"} < {*names}
    for name in names:
        folder = copied()
        (folder / name).rename(tmp_path / "elsewhere")
        (folder / name).symlink_to(tmp_path / "elsewhere")

        with pytest.raises(KitError, match="is a symbolic link"):
            read_whole(folder)


AVERAGED = dict(object_facts(Averaged(0.1, 0.9)))


def names_the_step(head: dict[str, Any], module: str) -> None:
    head["step"] |= {"importable": True, "module": module, "name": "fit"}


def names_an_optimizer(head: dict[str, Any], module: str) -> None:
    head["job"]["optimizer"] = {"name": "", "class": "Averaged"}
    head["own"] = {"optimizer": AVERAGED | {"module": module}}


def names_a_compressor(head: dict[str, Any], module: str) -> None:
    head["own"] = {"compress": AVERAGED | {"module": module}}


@pytest.mark.slow
@for_each("name", [names_the_step, names_an_optimizer, names_a_compressor])
def test_module_that_a_recording_names_is_not_imported_unless_it_is_trusted(
    copied: Callable[[], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: Callable[[dict[str, Any], str], None],
) -> None:
    folder, module = copied(), f"module_that_{name.__name__}"
    monkeypatch.syspath_prepend(str(folder))
    # The names that it gives on have the recorded digests.
    (folder / f"{module}.py").write_text(
        "from tests.recording.random_runs import Averaged\n"
        "from tests.training.toy import fit\n"
    )
    change_head(folder / "run.log", lambda head: name(head, module))

    for options in (
        {},
        {"step": fit},
        {"step": lambda *_: None},
        {"optimizer": "adam"},
    ):
        kit.load_run(folder)
        kit.diff(folder, folder, **options)
        kit.diff(folder, tmp_path / "copy", **options)
        with suppress(KitError):
            kit.replay(folder, 5, **options)
        with suppress(KitError):
            kit.replay(folder, 5, **options, check=False)
        assert module not in sys.modules, options
    with pytest.raises(FailedPreconditionError, match=f"{module}.*trust_step=True"):
        kit.replay(folder, 5, step=fit if name is not names_the_step else None)

    with suppress(KitError):  # what it is, is seen to after it was imported
        kit.replay(folder, 5, trust_step=True)

    assert module in sys.modules
