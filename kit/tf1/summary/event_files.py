"""Event files, which TensorBoard opens: `tf.summary.FileWriter`."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final

from kit.errors import InvalidArgumentError
from kit.regular_file import create_regular, write_error
from kit.session.worker.record_files import records
from kit.tf1 import logging
from kit.tf1.gfile import local_path
from kit.tf1.graph.graph_def import GraphDef
from kit.tf1.summary.messages import check_installed, message, parsed, record_writer

_VERSION: Final = "brain.Event:2"
_numbers = count()


class FileWriter:
    """Writes summaries and graphs to a new event file in a folder.

    What is added is in the file when the call returns, so nothing is lost where a
    program ends without `close`. May be used by several threads.
    """

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        """Make the folder and the file, and write the graph, if there is one.

        `max_queue` and `flush_secs` change nothing, because nothing waits. `session` is
        that of a program whose graph does not matter here. Raises `NotFoundError` if
        TensorBoard is not installed, `UnimplementedError` for a folder that is not of
        this host, such as hdfs://. Where no file can be made it is
        `PermissionDeniedError`, `FailedPreconditionError` or `UnknownError`.
        """
        check_installed()
        self._folder = local_path(logdir)
        self._suffix = filename_suffix or ""
        self._lock = threading.Lock()
        self._records: Any = None
        self._described: set[str] = set()
        self._warned = False
        self.reopen()
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_logdir(self) -> Any:
        """Return the folder of the file."""
        return self._folder

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write a `tf.Summary`, or what a run gave of an operation of `tf.summary`."""
        if isinstance(summary, message("Summary")):
            made = message("Summary")()
            made.CopyFrom(summary)
        else:
            made = _parsed_summary(summary)
        for value in made.value:
            if value.HasField("metadata"):  # once for each tag is enough
                if value.tag in self._described:
                    value.ClearField("metadata")
                self._described.add(value.tag)
        self._add(global_step, summary=made)

    def add_graph(
        self, graph: Any, global_step: Any = None, graph_def: Any = None
    ) -> None:
        """Write a graph, or a `GraphDef`.

        Raises `TypeError` for anything else, `ValueError` for both.
        """
        if graph is not None and graph_def is not None:
            raise ValueError("give one of graph and graph_def, not both.")
        graph_or_def = graph_def if graph is None else graph
        is_graph = hasattr(graph_or_def, "as_graph_def")
        definition = (
            graph_or_def.as_graph_def(add_shapes=True) if is_graph else graph_or_def
        )
        if not isinstance(definition, GraphDef):
            raise TypeError(
                f"{graph_or_def!r} is not a graph; give session.graph or "
                "tf.get_default_graph()."
            )
        made = parsed("GraphDef", str(definition))
        self._add(global_step, graph_def=made.SerializeToString())

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Write what `tf.train.export_meta_graph` has returned."""
        made = parsed("MetaGraphDef", str(meta_graph_def))
        self._add(global_step, meta_graph_def=made.SerializeToString())

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Write a `tf.SessionLog`."""
        self._add(global_step, session_log=session_log)

    def add_run_metadata(
        self, run_metadata: Any, tag: str, global_step: Any = None
    ) -> None:
        """Write what a traced run noted; raises `ValueError` for a tag used before."""
        key = f"run {tag}"
        if key in self._described:
            raise ValueError(f"The provided tag was already used for this event: {tag}")
        self._described.add(key)
        made = message("TaggedRunMetadata")(tag=tag)
        made.run_metadata = parsed("RunMetadata", str(run_metadata)).SerializeToString()
        self._add(global_step, tagged_run_metadata=made)

    def add_event(self, event: Any) -> None:
        """Write a `tf.Event`; warns, and writes nothing, while it is closed."""
        with self._lock:
            if self._records is not None:
                self._write(event)
                return
            is_new, self._warned = not self._warned, True
        if is_new:
            logging.warning(
                "Attempting to use a closed FileWriter. The operation will be a noop "
                "unless the FileWriter is explicitly reopened."
            )

    def flush(self) -> None:
        """Do nothing: all that was added is written."""

    def close(self) -> None:
        """Close the file; `reopen` begins another."""
        with self._lock:
            records, self._records = self._records, None
            if records is not None:
                records.close()

    def reopen(self) -> None:
        """Begin a new file, if it is closed; else do nothing."""
        with self._lock:
            if self._records is None:
                self._records = record_writer(_new_file(self._folder, self._suffix))
                self._warned = False
                self._described.clear()
                self._write(message("Event")(file_version=_VERSION))

    def _add(self, global_step: Any, **what: Any) -> None:
        event = message("Event")(**what)
        if global_step is not None:
            event.step = int(global_step)
        self.add_event(event)

    def _write(self, event: Any) -> None:
        if not event.wall_time:
            event.wall_time = time.time()
        self._records.write(event.SerializeToString())
        self._records.flush()


class FileWriterCache:
    """The writers of a process, one for each folder."""

    _writers: ClassVar[dict[str, FileWriter]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()

    @classmethod
    def get(cls, logdir: Any) -> FileWriter:
        """Return the writer of a folder, which is made the first time."""
        folder = local_path(logdir)
        with cls._lock:
            writers = cls._writers
            if folder not in writers:
                writers[folder] = FileWriter(folder)
            return writers[folder]

    @classmethod
    def clear(cls) -> None:
        """Close all writers, and forget them."""
        with cls._lock:
            for writer in cls._writers.values():
                writer.close()
            cls._writers.clear()


def _parsed_summary(summary: Any) -> Any:
    """Return the message of what a run gave."""
    serialized = getattr(summary, "item", lambda: summary)()
    try:
        return message("Summary").FromString(serialized)
    except Exception as exc:
        raise InvalidArgumentError(
            f"{summary!r:.80} is not a summary; give what session.run returned for an "
            f"operation of tf.summary, or a tf.Summary(value=[...])."
        ) from exc


def _new_file(folder: str, suffix: str) -> Any:
    stamp = f"{int(time.time()):010d}.{platform.node()}"
    name = f"events.out.tfevents.{stamp}.{os.getpid()}.{next(_numbers)}{suffix}"
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return create_regular(Path(folder) / name)
    except OSError as exc:
        raise write_error(exc, folder) from exc


def summary_iterator(path: Any) -> Iterator[Any]:
    """Yield the `Event`s of a file; raises `DataLossError` where it is damaged."""
    event = message("Event")
    for _, record in records(os.fspath(path).encode()):
        yield event.FromString(record)
