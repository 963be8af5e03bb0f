"""The messages of event files, as TensorBoard's own package defines them.

TensorBoard is an optional package, so this is loaded when a program asks for a message
or a file, and says how to install what is missing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from kit.errors import NotFoundError

INSTALL: Final = "pip install 'psring[tensorboard]'"

_PROTO: Final = "tensorboard.compat.proto"
_HOME: Final = {
    **dict.fromkeys(["Summary", "SummaryDescription", "SummaryMetadata"], "summary"),
    "HistogramProto": "histogram",
    **dict.fromkeys(
        ["Event", "LogMessage", "SessionLog", "TaggedRunMetadata"], "event"
    ),
    "GraphDef": "graph",
    **dict.fromkeys(["MetaGraphDef", "SignatureDef", "TensorInfo"], "meta_graph"),
    "RunMetadata": "config",
}
# The messages that are names of the original, by module.
MESSAGES: Final = {
    "": frozenset(
        {"Event", "HistogramProto", "LogMessage"}
        | {"SessionLog", "Summary", "SummaryMetadata"}
    ),
    "summary": frozenset(
        {"Event", "SessionLog", "Summary", "SummaryDescription", "TaggedRunMetadata"}
    ),
}


def is_installed() -> bool:
    """Return whether TensorBoard is installed."""
    return find_spec("tensorboard") is not None


def message(name: str) -> Any:
    """Return the class of a message; raises `NotFoundError` without TensorBoard."""
    check_installed()
    return getattr(import_module(f"{_PROTO}.{_HOME[name]}_pb2"), name)


def record_writer(file: Any) -> Any:
    """Return what writes records with their checksums to a file that is open."""
    check_installed()
    from tensorboard.summary.writer.record_writer import RecordWriter

    return RecordWriter(file)


def parsed(name: str, text: str) -> Any:
    """Return a message from its text."""
    check_installed()
    from google.protobuf import text_format

    return text_format.Parse(text, message(name)())


def check_installed() -> None:
    """Raise `NotFoundError` with the line that installs TensorBoard, if it is not."""
    if not is_installed():
        raise NotFoundError(
            f"event files are written by TensorBoard, which is not installed. Install "
            f"it with: {INSTALL}"
        )
