"""The messages of event files, as TensorBoard's own package defines them.

TensorBoard is an optional package, so this is loaded when a program asks for a message
or a file, and says how to install what is missing. A program's own `tensorboard.py`
hides the package from its imports, so it is looked for behind that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
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
    return _spec() is not None


def message(name: str) -> Any:
    """Return the class of a message; raises `NotFoundError` without TensorBoard."""
    check_installed()
    with _imports():
        return getattr(import_module(f"{_PROTO}.{_HOME[name]}_pb2"), name)


def record_writer(file: Any) -> Any:
    """Return what writes records with their checksums to a file that is open."""
    check_installed()
    with _imports():
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


def _spec() -> ModuleSpec | None:
    """Return where the package is, which a file of that name may hide."""
    spec = find_spec("tensorboard")
    if spec is None or spec.submodule_search_locations:
        return spec
    behind = (PathFinder.find_spec("tensorboard", [entry or "."]) for entry in sys.path)
    return next(
        (
            spec_behind
            for spec_behind in behind
            if spec_behind and spec_behind.has_location and spec_behind.parent
        ),
        None,
    )


@contextmanager
def _imports() -> Iterator[None]:
    """Let the imports of a block find the package, and others what they did."""
    held = sys.modules.get("tensorboard")
    spec = find_spec("tensorboard")
    if spec is None or spec.submodule_search_locations:
        yield
        return
    sys.modules["tensorboard"] = _package()
    try:
        yield
    finally:
        del sys.modules["tensorboard"]
        if held is not None:
            sys.modules["tensorboard"] = held


@cache
def _package() -> ModuleType:
    spec = _spec()
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'tensorboard'")
    module = sys.modules["tensorboard"] = module_from_spec(spec)  # it imports itself
    spec.loader.exec_module(module)
    return module
