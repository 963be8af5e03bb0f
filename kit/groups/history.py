"""What a task remembers of its calls in a group: words, formulas, and small inputs.

The rows of a call (when it began, what it waited, who sent what) are in the meter, as a
training's; here is what a row has no room for. Calls that are alike and follow each
other are one note, so a loop costs no more memory than a single call.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kit.groups import scope
from kit.groups.values import Form, Value
from kit.trace.log import Log
from kit.trace.traffic import ANYONE, RECEIPT

_MOST_NOTES, _MOST_INPUTS = 2_000, 16
_MOST_RECEIPTS, _FEW_RECEIPTS = 20_000, 256
MOST_INPUT_BYTES = 1_024  # of a call whose numbers are kept, on one task
_MOST_LINE = 2**32 - 1


@dataclass
class CallNote:
    """Calls of one generation that were alike and followed each other."""

    generation: int
    first: int
    last: int
    text: str
    where: tuple[str, int]
    topology: str
    formula: int

    def is_followed_by(self, other: CallNote) -> bool:
        """Whether another call is like these, and the next one."""
        return (
            self.last + 1 == other.first
            and self.text == other.text
            and self.where == other.where
            and self.generation == other.generation
            and self.topology == other.topology
            and self.formula == other.formula
        )

    def to_plain(self) -> list[Any]:
        """Return it for another process."""
        line = scope.words_for(*self.where) if self.where[0] else ""
        return [
            *(self.generation, self.first, self.last),
            *(self.text, line, self.topology, self.formula),
        ]


@dataclass
class CallInput:
    """What a task gave to the newest of some calls that were alike."""

    generation: int
    number: int
    what: str
    options: tuple[tuple[str, Any], ...]
    form: Form
    data: bytes

    def to_plain(self) -> dict[str, Any]:
        """Return all but the data for another process."""
        return {
            "generation": self.generation,
            "number": self.number,
            "what": self.what,
            "options": dict(self.options),
            "form": self.form,
        }


class CallHistory:
    """The newest calls of one task in one group, and the messages that it asked for."""

    def __init__(self, me: int) -> None:
        self._me = me
        self.notes: deque[CallNote] = deque(maxlen=_MOST_NOTES)
        self.inputs: OrderedDict[tuple[str, tuple[str, int]], CallInput] = OrderedDict()
        self.receipts = Log(RECEIPT, _MOST_RECEIPTS, window=_FEW_RECEIPTS)
        self.highest: dict[int, int] = {}  # number of a call, by generation

    def called(self, note: CallNote) -> None:
        """Note a call that was completed."""
        self.highest[note.generation] = note.last
        before = self.notes[-1] if self.notes else None
        if before is not None and before.is_followed_by(note):
            before.last = note.last
        else:
            self.notes.append(note)

    def keep_input(
        self,
        note: CallNote,
        what: str,
        options: Sequence[tuple[str, Any]],
        value: Value,
    ) -> None:
        """Keep what was given to a call, if it is small."""
        if sum([array.nbytes for array in value.arrays]) > MOST_INPUT_BYTES:
            return
        data = b"".join([array.tobytes() for array in value.arrays])
        key = note.text, note.where
        kept = self.inputs.pop(key, None)  # it is the newest from now on
        if kept is None:
            at = note.generation, note.first
            kept = CallInput(*at, what, tuple(options), value.form, data)
        else:
            kept.generation, kept.number = note.generation, note.first
            kept.form, kept.data = value.form, data
        self.inputs[key] = kept
        if len(self.inputs) > _MOST_INPUTS:
            self.inputs.popitem(last=False)

    def asked_for(
        self,
        source: int | None,
        tag: int,
        epoch: int,
        line: int,
        times: tuple[int, int, int, int] = (0, 0, 0, 0),
        n_bytes: int = -1,
    ) -> None:
        """Note a message that was asked for; times: sent, arrived, from and to."""
        whose = ANYONE if source is None else source
        line = min(max(line, 0), _MOST_LINE)
        self.receipts.add((whose, self._me, epoch, line, tag, n_bytes, *times))
