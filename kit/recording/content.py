"""Read the folder of a recording, and trust nothing that a checksum does not confirm.

A recording that its program did not finish is read up to the last complete part of each
file. Anything else that is not as it was written is damage, and nothing is returned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from kit.arithmetic import Arithmetic
from kit.checkpoint import Manifest, ShardEntry, shard_from_plain
from kit.checkpoint.reading import read_all
from kit.errors import (
    CheckpointFailed,
    DataLossError,
    InvalidArgumentError,
    KitError,
    NotFoundError,
    VersionMismatch,
    from_plain,
)
from kit.exchange.layout import tensors_of
from kit.exchange.ports.memory import Array
from kit.message_fields import (
    Fields,
    anything,
    check,
    fields_of,
    flag,
    list_of,
    maybe,
    number,
    object_of,
    optional,
    row_of,
    table_of,
    text,
    whole,
)
from kit.recording import own_objects
from kit.recording.folder import (
    DATA_NAME,
    DIGEST,
    FINAL_NAME,
    LOG_NAME,
    MESSAGE_NAMES,
    N_SEGMENTS,
    PUSH,
    STEP_NAME,
    state_name,
)
from kit.recording.parts import LOG, MESSAGES, FilePart, FileParts, read_parts
from kit.regular_file import read_regular, user_path
from kit.trace.log import Rows, encoded_name, rows
from kit.trace.named_rows import Change, EpochRow, SaveRow
from kit.trace.traffic import MEASURE, SPAN, STEP, TOTAL, TRANSFER
from kit.training.core import conflicts
from kit.training.core.job import Job

_MOST: Final = 2**31
_SHARD: Final = {"shard": table_of(anything())}
_ARRAY: Final = object_of(
    {"shape": list_of(whole(0)), "dtype": text(100), "sha256": text(64)}
)
_STEP: Final = object_of(
    {
        **dict.fromkeys(("python", "bytecode", "source", "module", "name"), text(1000)),
        "importable": flag(),
    }
)
_FIELDS: Final[Mapping[str, Fields]] = {
    "HEAD": {
        "job": table_of(anything()),
        "versions": table_of(text(100)),
        "at": number(0, 1e12),
        "step": maybe(_STEP),
        "data": maybe(object_of({"kind": text(200), "arrays": list_of(_ARRAY)})),
        "own": optional(own_objects.FIELD),
    },
    "DATA": _SHARD,
    "CODE": {"size": whole(0), "sha256": text(64)},
    "STAT": {"step": whole(0), **_SHARD},
    "GONE": {"steps": list_of(whole(0))},
    "WITH": {
        "arithmetic": table_of(anything()),
        "libraries": optional(table_of(text(100))),
    },
    "EPOC": {"epochs": list_of(row_of(*fields_of(EpochRow).values()))},
    "CHNG": {"changes": list_of(row_of(*fields_of(Change).values()))},
    "DONE": {
        "step": whole(0),
        "error": maybe(table_of(anything())),
        "n_steps": list_of(row_of(whole(0), whole(0), whole(0))),
        "saves": list_of(row_of(*fields_of(SaveRow).values())),
        "unread": whole(0),
        "lost": table_of(text()),
        "final": maybe(table_of(anything())),
        "sha256": text(64),
    },
}
_TABLES: Final = {
    **{"STEP": STEP, "MEAS": MEASURE, "PUSH": PUSH, "DIGS": DIGEST, "LAST": TOTAL},
    **{"LATE": PUSH, "TRAN": TRANSFER, "SPAN": SPAN},
}
_OF_TASKS: Final = ("task", "source", "destination", "server", "worker", "writer")
_UNREADABLE: Final = (KeyError, TypeError, ValueError, OverflowError, AttributeError)


@dataclass
class Content:
    """What a recording contains. States, data and step function are read when needed.

    Attributes:
        about: the text of the part HEAD.
        states: the entries of the kept states, by step.
        end: the text of the part DONE; None if the recording was not finished.
        tables: the rows, by the kind of their part.
        arithmetic: what the first worker computed with, if that was recorded.
        libraries: the versions of torch and jax there, if it had loaded them.
    """

    path: Path
    job: Job
    about: Mapping[str, Any]
    epochs: tuple[EpochRow, ...] = ()
    changes: tuple[Change, ...] = ()
    saves: tuple[SaveRow, ...] = ()
    states: dict[int, ShardEntry] = field(default_factory=dict)
    data: ShardEntry | None = None
    code: Mapping[str, Any] | None = None
    final: ShardEntry | None = None
    end: Mapping[str, Any] | None = None
    tables: dict[str, Rows] = field(default_factory=dict)
    lacks_messages: bool = False
    arithmetic: Arithmetic | None = None
    libraries: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the recording in messages."""
        return str(self.path)

    @property
    def own(self) -> Mapping[str, Any]:
        """The facts of optimizers and a compressor, by the argument of `kit.train`."""
        own_facts: Mapping[str, Any] = self.about.get("own", {})
        return own_facts

    @property
    def error(self) -> KitError | None:
        """The error with which the training failed; None if it did not."""
        plain = self.end["error"] if self.end is not None else None
        return from_plain(plain) if plain is not None else None

    @property
    def n_done(self) -> int:
        """How many steps were done, as far as is known."""
        steps = self.tables["STEP"]["step"]
        n_steps = int(steps.max()) + 1 if len(steps) else 0
        return max(n_steps, int(self.end["step"])) if self.end is not None else n_steps

    def state(self, step: int) -> dict[str, Array]:
        """Return a kept state by name; `DataLossError` when it is damaged."""
        return self._values(self.states[step])

    def last_parameters(self) -> dict[str, Array] | None:
        """Return what the training ended with, None if that is not known."""
        return self._values(self.final) if self.final is not None else None

    def stored_data(self) -> tuple[Array, ...]:
        """Return the stored training data; `NotFoundError` if there are none."""
        if self.data is None:
            raise NotFoundError(f"{self.name} has no training data in it.")
        arrays = self._values(self.data, {})
        names = [f"data[{number}]" for number in range(len(arrays))]
        if {*names} != {*arrays}:
            raise DataLossError(
                f"{self.path / DATA_NAME} is damaged: it holds {sorted(arrays)}."
            )
        return tuple(arrays[name] for name in names)

    def stored_step(self) -> bytes:
        """Return the stored step function as bytes; nothing is executed."""
        if self.code is None:
            raise NotFoundError(f"{self.name} has no step function in it.")
        data = read_regular(self.path / STEP_NAME, _MOST, InvalidArgumentError)
        if hashlib.sha256(data).hexdigest() != self.code["sha256"]:
            raise DataLossError(f"{self.path / STEP_NAME} is damaged: another SHA-256.")
        return data

    def _values(
        self, entry: ShardEntry, wanted: Mapping[str, Any] | None = None
    ) -> dict[str, Array]:
        try:
            manifest = Manifest(0, shards=(entry,))
            manifest.check()
            arrays = read_all(self.path, manifest)
        except CheckpointFailed as exc:
            raise DataLossError(exc.message) from exc
        allowed = tensors_of(self.job.specs, self.job.slots) if wanted is None else {}
        parameters = {spec.name for spec in self.job.specs}
        for name, (shape, dtype) in allowed.items():
            value = arrays.get(name)
            is_missing = value is None and name in parameters
            if is_missing or (
                value is not None and (value.shape, str(value.dtype)) != (shape, dtype)
            ):
                raise DataLossError(
                    f"{self.path / entry.file} is damaged: {name!r} is not there as "
                    f"{dtype}{list(shape)}."
                )
        return arrays


def read_content(folder: str | Path) -> Content:
    """Read a recording.

    Raises `NotFoundError` where there is none, `InvalidArgumentError` for another
    file or folder, `VersionMismatch` for another version, `DataLossError` for damage.
    """
    path = user_path(folder, "the folder of a recording")
    log = path / LOG_NAME
    if not log.exists() and not log.is_symlink():
        raise NotFoundError(
            f"there is no recording in {path}; give the folder that kit.train(..., "
            f"record=folder) has written, which holds a file {LOG_NAME}."
        )
    try:
        return _read(path, log)
    except OSError as exc:
        raise DataLossError(f"{path} cannot be read: {exc.strerror or exc}.") from exc
    except (InvalidArgumentError, VersionMismatch, DataLossError):
        raise
    except (*_UNREADABLE, KitError, RecursionError) as exc:
        raise DataLossError(
            f"{path} is damaged: what it says contradicts itself ({exc})."
        ) from exc


def _read(path: Path, log: Path) -> Content:
    parts = read_parts(log, LOG)
    if not parts.parts or parts.parts[0].kind != "HEAD":
        raise DataLossError(f"{log} has no beginning: its recording had not begun.")
    try:
        return _content(path, parts)
    except InvalidArgumentError as exc:
        raise DataLossError(
            f"{log} is damaged, or needs what is not here: {exc.message}"
        ) from exc


def _content(path: Path, parts: FileParts) -> Content:
    head = check("HEAD", _FIELDS["HEAD"], parts.parts[0].plain)
    job = own_objects.job_from(head["job"], head.get("own", {}))
    content = Content(path, job, head)
    blobs: dict[str, list[bytes]] = {kind: [] for kind in _TABLES}
    for part in parts.parts[1:]:
        if part.kind in _TABLES:
            if part.kind == "LAST":  # the newest counts
                blobs[part.kind].clear()
            blobs[part.kind].append(part.rows)
        else:
            _take(content, part)
    for kind, some in _messages(path, content).items():
        blobs[kind] = some
    for kind, dtype in _TABLES.items():
        content.tables[kind] = _table(content.job, dtype, blobs[kind])
    if content.end is not None and content.end["sha256"] != parts.sha256:
        raise ValueError("the SHA-256 of the log is another one")
    return content


def _take(content: Content, part: FilePart) -> None:
    """Take what one part of the log says."""
    if content.end is not None:
        raise ValueError("something follows the end")
    plain = check(part.kind, _FIELDS[part.kind], part.plain)
    match part.kind:
        case "DATA":
            content.data = _entry(plain["shard"], DATA_NAME)
        case "CODE":
            content.code = plain
        case "STAT":
            step = plain["step"]
            content.states[step] = _entry(plain["shard"], state_name(step))
        case "GONE":
            for step in plain["steps"]:
                del content.states[step]
        case "EPOC":
            content.epochs = tuple(EpochRow(*row) for row in plain["epochs"])
            for row in content.epochs:
                synchronous = not row.is_asynchronous
                conflicts.check(content.job, row.plain_topology, synchronous)
        case "WITH":
            content.arithmetic = Arithmetic.from_plain(plain["arithmetic"])
            content.libraries = plain.get("libraries", {})
        case "CHNG":
            content.changes = tuple(map(Change.from_plain, plain["changes"]))
        case "DONE":
            content.end = plain
            content.saves = tuple(SaveRow(*row) for row in plain["saves"])
            if plain["final"] is not None:
                content.final = _entry(plain["final"], FINAL_NAME)
        case _:
            raise ValueError(f"a part of kind {part.kind!r}")


def _entry(plain: Any, name: str) -> ShardEntry:
    shard = shard_from_plain(plain)
    if shard.file != name:
        raise ValueError(f"a file is called {shard.file!r} and not {name!r}")
    return shard


def _messages(path: Path, content: Content) -> dict[str, list[bytes]]:
    """Return the rows of the files of messages, and note whether the first are gone."""
    blobs: dict[str, list[bytes]] = {"TRAN": [], "SPAN": []}
    files = sorted(path.glob(MESSAGE_NAMES))
    if len(files) > N_SEGMENTS + 1:  # one more, if it was ended before it removed one
        raise ValueError(f"there are {len(files)} files of messages")
    for file in files:
        for part in read_parts(file, MESSAGES).parts:
            blobs[part.kind].append(part.rows)
    first = MESSAGE_NAMES.replace("*", f"{1:06}")
    content.lacks_messages = bool(files) and files[0].name != first
    return blobs


def _is_name(text: bytes) -> bool:
    return encoded_name(text.decode()) != b""


def _table(job: Job, dtype: np.dtype[Any], blobs: Iterable[bytes]) -> Rows:
    data = b"".join(blobs)
    if not data:
        return rows(dtype)
    array = np.frombuffer(data, dtype).copy()
    for name in dtype.names or ():
        column = array[name]
        if name == "name" and not all(map(_is_name, np.unique(column).tolist())):
            raise ValueError("a row has a name that no measure can have")
        if name in _OF_TASKS and int(column.max()) >= len(job.tasks):
            raise ValueError(f"a row names task {int(column.max())}")
        if name in ("step", "bytes", "examples") and int(column.min()) < 0:
            raise ValueError(f"a row has {int(column.min())} as {name}")
        if name == "step" and int(column.max()) > job.steps:
            raise ValueError(f"a row is of step {int(column.max())}")
    return array
