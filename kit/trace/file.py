"""Trace files: Chrome trace-event JSON that can be read back exactly.

The file opens in ui.perfetto.dev and chrome://tracing. The viewers read `traceEvents`
and stop at the key after it, `psring`, which holds all columns as plain lists. The
events of `kit.trace.events` only show the newest rows, and are not read again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.errors import DataLossError, InvalidArgumentError, VersionMismatch
from kit.regular_file import open_regular, replace_regular, user_path
from kit.trace.events import events
from kit.trace.log import Rows
from kit.trace.named_rows import CallRow, EpochRow, Kept, SaveRow
from kit.trace.traffic import MEASURE, RECEIPT, SPAN, STEP, TOTAL, TRANSFER

if TYPE_CHECKING:
    from kit.trace.trace import Trace

FORMAT = 1
_TABLES = {"transfers": TRANSFER, "spans": SPAN, "steps": STEP, "totals": TOTAL}
# Files of the first versions have none of these.
_NEW_TABLES = {"measures": MEASURE, "receipts": RECEIPT}
_TABLES |= _NEW_TABLES
_MOST_BYTES, _EDGE = 1 << 29, 64
_BATCH = 200  # events to a line: setting up the encoder costs more than one event
_DRAWN = ("transfers", "spans")


def save(
    trace: Trace, path: str | os.PathLike[str], *, max_rows: int = 100_000
) -> dict[str, int]:
    """Write a trace; returns how many of the oldest rows are not drawn, per table.

    Every row is written. Viewers are slow with many events, so they are given at most
    the newest `max_rows` transfers and spans. The file appears whole or not at all.
    Raises `InvalidArgumentError` for a negative `max_rows` and `OSError` as the file
    system gives it. Cost: some 60 bytes and 2 microseconds a row, 600 bytes and 35
    microseconds more for a transfer and a span that are drawn.
    """
    if max_rows < 0:
        raise InvalidArgumentError(f"max_rows must be 0 or more, got {max_rows}.")
    picture, undrawn = _newest(trace, max_rows)
    write_atomically(path, _document(trace, picture, undrawn))
    return undrawn


def columns_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields of a trace that `save` wrote, by their names.

    Raises `InvalidArgumentError` if the file is another program's, not a regular file
    or larger than 512 MiB (some 2 million rows of each table), `VersionMismatch` if a
    newer version wrote it, `DataLossError` if it is damaged, and `OSError` as the file
    system gives it.
    """
    try:
        document = json.loads(_text(path))
    except (ValueError, RecursionError) as exc:
        raise DataLossError(
            f"{path} is not complete JSON ({exc}); save the trace again."
        ) from exc
    plain = document.get("psring") if isinstance(document, dict) else None
    if not isinstance(plain, dict):
        raise InvalidArgumentError(
            f"{path} holds no columns of a psring trace; only files written by "
            f"Trace.save can be loaded."
        )
    if plain.get("format") != FORMAT:
        raise VersionMismatch(
            f"{path} has format {plain.get('format')!r}, this version reads {FORMAT}; "
            f"load it with the version that wrote it."
        )
    try:
        return _columns_of(plain)
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise DataLossError(f"{path} has damaged columns: {exc!r}.") from exc


def _text(path: str | os.PathLike[str]) -> bytes:
    """Return what a file holds; read only if it begins and ends as an object does.

    So half a gigabyte of something else is refused after 128 bytes.
    """
    path = user_path(path, "the file of a trace")
    with open_regular(path, InvalidArgumentError, _MOST_BYTES) as file:
        size = os.fstat(file.fileno()).st_size
        for begin in (0, max(0, size - _EDGE)):
            file.seek(begin)
            edge = file.read(_EDGE).strip()
            if not (edge.endswith(b"}") if begin else edge.startswith(b"{")):
                raise ValueError("it is not an object from beginning to end")
        file.seek(0)
        return file.read(size)


def write_atomically(path: str | os.PathLike[str], pieces: Iterable[str]) -> None:
    """Write text so that `path` holds either all of it or what it held before.

    See `replace_regular`, which raises what this does.
    """
    replace_regular(path, (piece.encode() for piece in pieces))


def _newest(trace: Trace, max_rows: int) -> tuple[Trace, dict[str, int]]:
    """Reduce what is drawn to the rows that ended last, in their old order."""
    cut: dict[str, Rows] = {}
    left_out: dict[str, int] = {}
    for name in _DRAWN:
        table: Rows = getattr(trace, name)
        left_out[name] = max(0, len(table) - max_rows)
        newest = np.argsort(table["end"], kind="stable")[left_out[name] :]
        cut[name] = table[np.sort(newest)]
    transfers, spans = (cut[name] for name in _DRAWN)
    return replace(trace, transfers=transfers, spans=spans), left_out


def _document(
    trace: Trace, picture: Trace, undrawn: Mapping[str, int]
) -> Iterator[str]:
    """Yield the file in pieces; the events first, for the viewers' sake."""
    encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
    yield '{"displayTimeUnit":"ms","traceEvents":['
    before = "\n"
    following = events(picture)
    while some := list(islice(following, _BATCH)):
        yield before + encode(some)[1:-1]
        before = ",\n"
    head = {
        "format": FORMAT,
        "tasks": trace.tasks,
        "epochs": trace.epochs,
        "saves": trace.saves,
        "kept": trace.kept,
        "undrawn": undrawn,
        "predicted": trace.predicted,
        "insecure": trace.insecure,
        "calls": trace.calls,
    }
    yield f'\n],\n"psring":{encode(head)[:-1]}'
    for name in _TABLES:
        yield f',\n"{name}":{encode(_columns(getattr(trace, name)))}'
    yield "}}\n"


def _columns(table: Rows) -> dict[str, list[Any]]:
    """Return a table as lists; JSON has no NaN and infinity, so these become text."""
    columns: dict[str, list[Any]] = {}
    for name in table.dtype.names or ():
        values = table[name].tolist()
        if table.dtype[name].kind == "f":
            values = [v if math.isfinite(v) else str(v) for v in values]
        elif table.dtype[name].kind == "S":
            values = [value.decode() for value in values]
        columns[name] = values
    return columns


def _columns_of(plain: Mapping[str, Any]) -> dict[str, Any]:
    none: dict[str, Any] = {
        name: {column: [] for column in dtype.names or ()}
        for name, dtype in _NEW_TABLES.items()
    }
    plain = {**none, **plain}
    tables = {name: _table(plain[name], dtype) for name, dtype in _TABLES.items()}
    tasks = tuple(plain["tasks"])
    epochs = tuple(EpochRow(*row) for row in plain["epochs"])
    saves = tuple(SaveRow(*row) for row in plain.get("saves", ()))  # new in format 1
    kept = Kept(*plain.get("kept", ()))  # so is this
    if not all(isinstance(name, str) for name in tasks):
        raise TypeError(f"tasks are {tasks}")
    predicted = plain.get("predicted", False) is True  # and this
    few: dict[str, Any] = {
        "tasks": tasks,
        "epochs": epochs,
        "saves": saves,
        "kept": kept,
    }
    insecure = plain.get("insecure", False) is True  # and this
    calls = plain.get("calls")  # and this
    few["calls"] = None if calls is None else tuple(CallRow(*row) for row in calls)
    return few | tables | {"predicted": predicted, "insecure": insecure}


def _table(columns: Mapping[str, list[Any]], dtype: np.dtype[Any]) -> Rows:
    names = dtype.names or ()
    lengths = {len(columns[name]) for name in names}
    if len(lengths) != 1:
        raise ValueError(f"columns of different lengths: {sorted(lengths)}")
    table = np.empty(lengths.pop(), dtype)
    for name in names:
        values = columns[name]
        if dtype[name].kind == "f":
            values = [float(value) for value in values]
        elif dtype[name].kind == "S":
            values = [str(value).encode() for value in values]
        elif not all(type(value) is int for value in values):
            raise TypeError(f"column {name!r} holds something else than integers")
        table[name] = np.array(values, dtype[name])
    return table
