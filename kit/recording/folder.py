"""Write the folder of a recording. One thread uses it; the first error ends it.

    run.log                     all that decides the run, kept whole
    messages-000001.log, ...    the newest messages: sender, receiver, bytes, times
    state-000000000000.safetensors, ...
                                parameters, slots and what step functions keep
    final.safetensors           the last parameters
    data.safetensors            the training data, on request
    step.cloudpickle            the step function, on request

The kinds of parts in `run.log`, with their text and rows:

    HEAD  the job, the facts of step function and data, versions, the time of its begin
    DATA  the entry of data.safetensors
    CODE  name, size and SHA-256 of step.cloudpickle
    STAT  the step of a kept state, and the entry of its file
    GONE  the steps of states whose files were removed to save room
    EPOC  all epochs so far
    WITH  what the first worker computes with: BLAS, its threads, instructions of numpy,
          the versions of torch and jax
    CHNG  which processes an elastic training has lost and taken in so far
    STEP  rows of `kit.trace.traffic.STEP`: each task's share of each step
    MEAS  rows of `kit.trace.traffic.MEASURE`: accuracy and the like
    PUSH  rows of `PUSH`: pushes that a server took, in asynchronous steps and with
          backup workers
    LATE  rows of `PUSH`: pushes that came too late for their step, with backup workers
    DIGS  rows of `DIGEST`: CRC-32 of parameters on which all members agreed
    LAST  totals of all links, checkpoints, loss of rows; the newest counts
    DONE  how it ended, the entry of final.safetensors, SHA-256 of all before

`messages-*.log` have the kinds TRAN and SPAN, rows of `kit.trace.traffic`. An entry is
what `kit.checkpoint` keeps of a shard: size, SHA-256 and pieces of the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from kit.checkpoint import FILES, Files, Piece, ShardEntry, write_shard
from kit.checkpoint.files import refused, write_file
from kit.errors import AlreadyExistsError
from kit.exchange.ports.memory import Array
from kit.recording.options import Recording
from kit.recording.parts import LOG, MESSAGES, PartFile
from kit.trace.log import Rows
from kit.trace.traffic import SPAN, TRANSFER

LOG_NAME: Final = "run.log"
FINAL_NAME: Final = "final.safetensors"
DATA_NAME: Final = "data.safetensors"
STEP_NAME: Final = "step.cloudpickle"
MESSAGE_NAMES: Final = "messages-*.log"
N_SEGMENTS: Final = 8
PUSH: Final = np.dtype(
    [("server", "u2"), ("worker", "u2"), ("epoch", "u4"), ("step", "i8")]
)
DIGEST: Final = np.dtype(
    [
        ("generation", "u4"),
        ("epoch", "u4"),
        ("step", "i8"),
        ("writer", "u2"),
        ("crc32", "u4"),
    ]
)
KINDS: Final = {TRANSFER: "TRAN", SPAN: "SPAN"}


def state_name(step: int) -> str:
    """Return the name of the file with the state after `step` steps.

    >>> state_name(40)
    'state-000000000040.safetensors'
    """
    return f"state-{step:012}.safetensors"


class RecordingFolder:
    """The folder of a recording, while it is written."""

    def __init__(self, options: Recording, files: Files = FILES) -> None:
        """Make the folder, or use an empty one.

        Raises `AlreadyExistsError` if it is not empty, and errors of the file system as
        `kit.checkpoint.files.refused` does.
        """
        self.path, self._options, self._files = options.path, options, files
        try:
            if not self.path.is_dir():
                files.make_folder(self.path)
            elif any(self.path.iterdir()):
                raise AlreadyExistsError(
                    f"{self.path} is not empty; a recording needs a folder of its own. "
                    f"Give another name, or remove what is there."
                )
            self._log = PartFile(self.path / LOG_NAME, LOG, files)
        except OSError as exc:
            raise type(refused(self.path, exc))(
                f"nothing can be recorded to {self.path}: {exc.strerror or exc}. "
                f"Choose another place."
            ) from exc
        self._messages: list[Path] = []
        self._segment: PartFile | None = None
        self._n_segments = 0
        self._states: dict[int, int] = {}  # of each step the bytes

    def note(
        self, kind: str, plain: Mapping[str, Any], rows: Rows | None = None
    ) -> None:
        """Append a part to the log."""
        self._log.append(kind, plain, b"" if rows is None else rows.tobytes())

    def note_messages(self, rows: Rows) -> None:
        """Append transfers or spans; the oldest make room for them."""
        most = max(1, self._options.message_bytes // N_SEGMENTS)
        at_once = max(1, most // rows.dtype.itemsize)
        for begin in range(0, len(rows), at_once):
            some = rows[begin : begin + at_once].tobytes()
            segment = self._segment
            if segment is None or segment.n_bytes + len(some) > most:
                segment = self._next_segment()
            segment.append(KINDS[rows.dtype], {}, some)

    def _next_segment(self) -> PartFile:
        if self._segment is not None:
            self._segment.close()
        self._n_segments += 1
        path = self.path / MESSAGE_NAMES.replace("*", f"{self._n_segments:06}")
        self._segment = segment = PartFile(path, MESSAGES, self._files)
        self._messages.append(path)
        while len(self._messages) > N_SEGMENTS:
            self._files.remove(self._messages.pop(0))
        return segment

    def keep_state(self, step: int, values: Mapping[str, Any]) -> None:
        """Write a state, and remove every second one when there are too many."""
        if step in self._states:
            return
        entry = self._shard(state_name(step), values)
        self.note("STAT", {"step": step, "shard": entry.to_plain()})
        self._states[step] = entry.size
        while sum(self._states.values()) > self._options.state_bytes:
            # The first one stays: every later step can be computed from it.
            gone = [*self._states][1::2]
            if not gone:
                return
            # Before the files: a log must never name a state that is not there.
            self.note("GONE", {"steps": gone})
            for number in gone:
                del self._states[number]
                self._files.remove(self.path / state_name(number))

    def store_data(self, arrays: Sequence[Any]) -> None:
        """Write the training data."""
        named = {f"data[{number}]": array for number, array in enumerate(arrays)}
        self.note("DATA", {"shard": self._shard(DATA_NAME, named).to_plain()})

    def store_step(self, pickled: bytes) -> None:
        """Write the pickled step function."""
        write_file(self._files, self.path / STEP_NAME, pickled)
        sha256 = hashlib.sha256(pickled).hexdigest()
        self.note("CODE", {"size": len(pickled), "sha256": sha256})

    def end(self, plain: Mapping[str, Any], final: Mapping[str, Array] | None) -> None:
        """Write the last parameters, if they are known, and how it ended; close."""
        shard = self._shard(FINAL_NAME, final).to_plain() if final is not None else None
        digest = hashlib.sha256()
        with self._log.path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        more = {"final": shard, "sha256": digest.hexdigest()}
        self.note("DONE", {**plain, **more})
        self.close()
        self._files.sync_folder(self.path)

    def close(self) -> None:
        """Close what is open; what was written stays."""
        for file in (self._segment, self._log):
            if file is not None:
                with suppress(OSError):
                    file.close()

    def give_up(self) -> None:
        """Remove what was written: the training has not begun."""
        self.close()
        with suppress(OSError):
            self._files.remove(self._log.path)
            self._files.remove_folder(self.path)

    def _shard(self, name: str, values: Mapping[str, Any]) -> ShardEntry:
        pieces = [Piece.whole(key, value) for key, value in values.items()]
        return write_shard(self.path / name, pieces, self._files)


def rows_of(dtype: np.dtype[Any], tuples: Iterable[tuple[int, ...]]) -> Rows:
    """Return rows as a table."""
    return np.array(list(tuples), dtype)
