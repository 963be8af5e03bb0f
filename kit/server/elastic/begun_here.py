"""The newest generation that a process of this host has begun; it outlives them.

A process that was stopped, or cut off, for long may find that another one has ended. It
cannot know from that whether a later generation has begun there, and goes on elsewhere.
On the same host it reads so here: each process appends a line before it begins. So the
others need not fear what those had begun whose lines one of them has read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kit.errors import InvalidArgumentError
from kit.message_fields import check, list_of, text, whole
from kit.regular_file import append_regular, read_regular

_LOG: Final = logging.getLogger("kit.server")
_MOST_BYTES: Final = 1 << 24
_NAMES: Final = list_of(text(1000))
_FIELDS: Final = {"number": whole(0), "processes": _NAMES, "by": text(1000)}


class Begun(NamedTuple):
    """The number of a generation, and the processes that take part in it.

    `by`: all that have noted here what they begin, this one or others.
    """

    number: int = 0
    processes: tuple[str, ...] = ()
    by: tuple[str, ...] = ()


class BegunHere:
    """The generations of one training that processes of this host have begun.

    What cannot be written or read, in a folder that is gone or full, is left out.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at `path`, which is made when there is something to note."""
        self._path = path

    def append(self, number: int, processes: Sequence[str], by: str) -> None:
        """Note that a process begins a generation here."""
        newest = self.newest()
        if number <= newest.number and by in newest.by:
            return
        line = json.dumps({"number": number, "processes": [*processes], "by": by})
        try:
            with append_regular(self._path) as file:
                file.write(f"{line}\n".encode())
        except OSError as error:
            _LOG.warning("generation %d is not noted: %s", number, str(error))

    def newest(self) -> Begun:
        """Return the newest one; without any, number 0 of nobody."""
        result, by, lines = Begun(), set[str](), list[bytes]()
        with suppress(OSError):
            lines = read_regular(self._path, _MOST_BYTES).splitlines()
        for line in lines:
            with suppress(ValueError, InvalidArgumentError):  # cut short on a full disk
                plain = check("generation", _FIELDS, json.loads(line))
                result = max(result, Begun(plain["number"], (*plain["processes"],)))
                by.add(plain["by"])
        return result._replace(by=(*sorted(by),))
