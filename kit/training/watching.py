"""What an observer has learned of one member: news come in, columns grow.

Bounded like the member's own logs: the oldest rows go first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kit.errors import KitError, from_plain
from kit.log import Rows, rows
from kit.trace import EpochRow, SaveRow
from kit.traffic import TOTAL
from kit.training.snapshot import LOGS, unpack_news
from kit.training.telling import Teller


@dataclass
class Watched:
    """State, news and account of one member, as far as they are known here."""

    limit: int
    state: str = "running"  # or done, failed, lost
    step: int = 0
    error: KitError | None = None
    epochs: list[EpochRow] = field(default_factory=list)
    leads: dict[str, Any] | None = None
    cursors: list[int] = field(default_factory=lambda: [0] * len(LOGS))
    totals: Rows = field(default_factory=lambda: rows(TOTAL))
    teller: Teller | None = None
    incarnation: int = 0
    _earlier: Rows = field(default_factory=lambda: rows(TOTAL))  # processes' totals
    # Each with the number of rows that had come with it.
    _pieces: list[list[tuple[int, Rows]]] = field(
        default_factory=lambda: [[] for _ in LOGS]
    )

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.state != "running"

    def take(self, reply: dict[str, Any], blob: bytes | bytearray) -> bool:
        """Take the answer of a poll; whether there is more to fetch at once."""
        *news, totals = unpack_news(reply["counts"], blob)
        self.totals = np.concatenate([self._earlier, totals])
        for pieces, piece in zip(self._pieces, news, strict=True):
            if len(piece):
                before = pieces[-1][0] if pieces else 0
                pieces.append((before + len(piece), piece))
            while len(pieces) > 1 and pieces[-1][0] - pieces[0][0] > self.limit:
                pieces.pop(0)
        self.cursors, self.leads = reply["cursors"], reply["leads"]
        self.step = int(reply["step"])
        self.epochs = [EpochRow(*row) for row in reply["epochs"]]
        if reply["error"]:
            self.error = from_plain(reply["error"])
        if not reply["more"]:
            self.state = reply["state"]
        self._tell()
        return bool(reply["more"])

    @property
    def saves(self) -> tuple[SaveRow, ...]:
        """The newest attempts to write a checkpoint."""
        found = ((self.leads or {}).get("saves") or {}).get("rows", ())
        return tuple(SaveRow(*row) for row in found)

    def let_tell(self, teller: Teller) -> None:
        """Let the lines of hooks be shown, those that have come included."""
        self.teller = teller
        self._tell()

    def _tell(self) -> None:
        if self.teller is not None and self.leads is not None:
            self.teller.take(self.leads.get("said", ()), self.is_over)

    def come_back(self, incarnation: int) -> Watched:
        """Return what is known of the member's new process: all of the last one's."""
        pieces = [list(one) for one in self._pieces]
        return Watched(
            self.limit,
            step=self.step,
            totals=self.totals,
            incarnation=incarnation,
            _earlier=self.totals,
            _pieces=pieces,
        )

    def lose(self, error: KitError) -> None:
        """Note that the member cannot be reached any more."""
        self.state, self.error = "lost", error

    def fail(self, error: KitError) -> None:
        """Note that the member answers, but not how it is doing."""
        self.state, self.error = "failed", error

    def column(self, number: int) -> Rows:
        """Return transfers (0), spans (1), steps (2) or measures (3)."""
        return self.since(number, 0)[0][-self.limit :]

    def since(self, number: int, cursor: int) -> tuple[Rows, int]:
        """Return the rows of a column that came after a cursor, and the cursor now."""
        pieces = list(self._pieces[number])  # others may be added meanwhile
        news = [rows(LOGS[number])]
        news += [piece[-(end - cursor) :] for end, piece in pieces if end > cursor]
        return np.concatenate(news), pieces[-1][0] if pieces else cursor


def gone(
    members: Sequence[Watched], told: Mapping[str, str], *, is_done: bool = False
) -> dict[int, str]:
    """Return who is gone, and why: nobody here reaches it, or so it is told.

    `told` is by the number of a member what the coordinator says of those that it goes
    on without. Such a member may still be there and say itself why it gave up. When the
    training `is_done` all others took part until its end, and may have left since.
    """
    return {
        number: one.error.message if one.error else told.get(str(number), "lost")
        for number, one in enumerate(members)
        if str(number) in told or (one.state == "lost" and not is_done)
    }
