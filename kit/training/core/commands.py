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
    number,
    optional,
    shown,
    table_of,
    text,
    whole,
)

#: How much more than another one a process may be given to do.
SHARE: Final = number(0.01, 100)
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
