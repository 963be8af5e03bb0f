"""What is done to a recorded frame before it is sent: all chance comes from one dice.

`message` and `session_message` change what a frame carries, so that framing and
checksum are right and the handlers are reached; `raw` damages the bytes on the line.
"""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

from kit.errors import KitError
from kit.session.transport.serialization import pack, unpack
from kit.wire.message import pack_message, unpack_message

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, 2**200, 1.5, -0.5),
    *(float("nan"), float("inf"), "", "300", "worker:1", "x" * 10_000, "\0"),
    *([], [[]], [0], {}, {"a": {"b": [1]}}),
)
MOST = 2**32 - 1


def message(body: bytes, other: bytes, dice: random.Random) -> bytes:
    """Return a control frame's body with its values changed, or with another's blob."""
    try:
        values, blob = unpack_message(bytearray(body))
        others, their_blob = unpack_message(bytearray(other))
    except KitError:
        return scrambled(body, dice)
    changed = _values(values, others, dice)
    blob = dice.choice([blob, blob, their_blob, bytearray(scrambled(blob, dice))])
    return b"".join(bytes(part) for part in pack_message(changed, bytes(blob)))


def session_message(body: bytes, other: bytes, dice: random.Random) -> bytes:
    """Return a session frame's body with its values changed, or with other arrays."""
    try:
        values, arrays = unpack(bytearray(body))
        others, theirs = unpack(bytearray(other))
    except KitError:
        return scrambled(body, dice)
    match dice.randrange(4):
        case 0:
            arrays = theirs
        case 1:
            arrays = [*arrays, *theirs][: dice.randrange(4)]
        case _:
            values = _values(values, others, dice)
    return b"".join(bytes(part) for part in pack(values, arrays))


def scrambled(body: bytes | bytearray, dice: random.Random) -> bytes:
    """Return bytes with a few of them changed, cut off, doubled or put in."""
    changed = bytearray(body) or bytearray(1)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(changed))
        match dice.randrange(6):
            case 0:
                changed[at] ^= 1 << dice.randrange(8)
            case 1:
                changed[at] = dice.choice((0, 1, 34, 44, 48, 127, 128, 255))
            case 2:
                del changed[at:]
            case 3:
                changed[at:at] = dice.randbytes(dice.randrange(1, 9))
            case 4:
                width = dice.choice((1, 2, 4, 8))
                changed[at : at + width] = dice.choice((b"\xff", b"\0")) * width
            case 5:
                changed[at:at] = changed[at:][:4096]
        if not changed:
            break
    return bytes(changed)


def fields(values: dict[str, int], dice: random.Random) -> dict[str, int]:
    """Return the numbers of a header, one of them another one within its bounds."""
    name = dice.choice(("epoch", "step", "tensor", "chunk"))
    was = values.get(name, 0)
    most = 2**63 - 1 if name == "step" else MOST
    value = dice.choice((0, 1, was + 1, was - 1, was ^ (1 << dice.randrange(40)), most))
    return {**values, name: min(max(value, 0), most)}


def _values(values: Any, others: Any, dice: random.Random) -> dict[str, Any]:
    """Return a message with one to three of its values changed, wherever they are."""
    changed = json.loads(json.dumps(values))
    for _ in range(dice.randrange(1, 4)):
        places = list(_places(changed))
        if not places:
            return {**changed, "moon": deepcopy(dice.choice(ODD))}
        inner, name = dice.choice(places)
        match dice.randrange(6):
            case 0:
                del inner[name]
            case 1:
                theirs = [there[key] for there, key in _places(others)]
                inner[name] = deepcopy(dice.choice(theirs or [None]))
            case 2 if isinstance(inner[name], int):
                inner[name] += dice.choice((-1, 1, 2 ** dice.randrange(64)))
            case 2 if isinstance(inner[name], str):
                text = scrambled(inner[name].encode(), dice)
                inner[name] = text.decode("utf-8", "replace")
            case 3:
                inner[name] = [inner[name]]
            case 4 if isinstance(inner, dict):
                inner[dice.choice(("op", "run", "member", "moon"))] = deepcopy(
                    dice.choice(ODD)
                )
            case _:
                inner[name] = deepcopy(dice.choice(ODD))
    return dict(changed)


def _places(plain: Any) -> Any:
    """Yield each container in a message with each name or index in it."""
    named = plain.items() if isinstance(plain, dict) else ()
    for name, value in enumerate(plain) if isinstance(plain, list) else list(named):
        yield plain, name
        yield from _places(value)
