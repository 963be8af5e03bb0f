"""What can be asked of a training under way: each command with its values.

Pure. The asking side checks by this table before anything is sent, and the coordinator
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kit.errors import InvalidArgumentError
from kit.message_fields import (
    Fields,
    check,
    flag,
    optional,
    shown,
    table_of,
    text,
    whole,
)
from kit.training.elastic.placing import SHARE

COMMANDS: Final[Mapping[str, Fields]] = {
    "configure": {
        "at": optional(whole(0)),
        "topology": optional(text(100)),
        "link": optional(text(100)),
        "synchronous": optional(flag()),
    },
    "pause": {"steps": optional(whole(0))},
    "resume": {},
    "stop": {},
    "save": {"ticket": text(100)},
    "place": {
        "workers": optional(whole(0)),
        "shares": optional(table_of(SHARE)),
    },
    "leave": {"task": text(1000)},
    "look": {},
}


def check_command(what: str, values: object) -> dict[str, Any]:
    """Return a command's values; `InvalidArgumentError` for what cannot be meant.

    >>> check_command("pause", {"steps": 3})
    {'steps': 3}
    """
    if what not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise InvalidArgumentError(
            f"{shown(what)} is not a command; there are {known}."
        )
    return check(what, COMMANDS[what], values)


_MOST_TICKETS: Final = 32


class RequestLog:
    """The requests that a training has heard, through all its generations.

    One that is asked again, because its answer did not come, has the same ticket.

    >>> log = RequestLog({"n_commands": 4, "tickets": ["a"]})
    >>> log.note("b", is_change=True); "a" in log, "c" in log
    (True, False)
    >>> log.to_plain()
    {'n_commands': 5, 'tickets': ['a', 'b']}
    """

    def __init__(self, told: Mapping[str, Any] | None = None) -> None:
        """Go on from what the coordinator before has `told`."""
        self._n_commands = int(told["n_commands"]) if told else 0
        self._tickets = [str(one) for one in told["tickets"]] if told else []

    def __contains__(self, ticket: str) -> bool:
        return ticket in self._tickets

    def note(self, ticket: str, *, is_change: bool) -> None:
        """Note a request, with "" as the ticket of one that is not asked again."""
        self._n_commands += is_change or bool(ticket)
        self._tickets = [*self._tickets, *filter(None, [ticket])][-_MOST_TICKETS:]

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry; `n_commands` tells what is newest."""
        return {"n_commands": self._n_commands, "tickets": self._tickets}
