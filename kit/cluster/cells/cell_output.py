"""The output of a cell on one task, as plain data; read from the engine's messages.

Pure. The messages are those of Jupyter's protocol; other messages than outputs are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kit.task import Task

# Called with each message of Jupyter's protocol, as a dict, when it arrives.
OnMessage = Callable[[Mapping[str, Any]], object]


class OutputKind(StrEnum):
    """The kind of an output."""

    STDOUT = "stdout"
    STDERR = "stderr"
    DISPLAY = "display"
    UPDATE = "update"
    RESULT = "result"


@dataclass(frozen=True)
class CellOutput:
    """One output: text of a stream, or something displayed, in several formats.

    `display_id` is set if a later output may update this one.
    """

    task: Task
    kind: OutputKind
    text: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    display_id: str = ""

    @property
    def is_stream(self) -> bool:
        """Whether this is text of stdout or stderr."""
        return self.kind in (OutputKind.STDOUT, OutputKind.STDERR)

    @property
    def size(self) -> int:
        """About how many characters it takes to keep it."""
        shown = (
            part if isinstance(part, str) else repr(part) for part in self.data.values()
        )
        return _OVERHEAD + len(self.text) + sum(map(len, shown))

    @property
    def is_plain(self) -> bool:
        """Whether it has no richer format than text."""
        return set(self.data) <= {"text/plain"}


# What an output takes besides its characters.
_OVERHEAD = 1_000
_SHOWN = {
    "display_data": OutputKind.DISPLAY,
    "update_display_data": OutputKind.UPDATE,
    "execute_result": OutputKind.RESULT,
}


def read(task: Task, message: Mapping[str, Any]) -> CellOutput | None:
    """Return the output that a message carries, None if it carries none.

    >>> stream = {"name": "stdout", "text": "hello"}
    >>> message = {"header": {"msg_type": "stream"}, "content": stream}
    >>> read(Task("worker", 1), message).text
    'hello'
    """
    kind, content = message["header"]["msg_type"], message["content"]
    if kind == "stream":
        stream = OutputKind.STDERR if content["name"] == "stderr" else OutputKind.STDOUT
        return CellOutput(task, stream, text=content["text"])
    if kind not in _SHOWN:
        return None
    return CellOutput(
        task,
        _SHOWN[kind],
        text=content["data"].get("text/plain", ""),
        data=content["data"],
        metadata=content.get("metadata", {}),
        display_id=content.get("transient", {}).get("display_id", ""),
    )
