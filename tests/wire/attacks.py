"""What an attacker on the way does to records."""

from __future__ import annotations

import random
from collections.abc import Callable

from kit.wire.records import HEAD_BYTES, Direction, RecordKind

Attack = Callable[[random.Random, list[bytes], bytes], list[bytes]]
FOREIGN = Direction(b"f" * 32)  # of another link


def flip(chance: random.Random, line: list[bytes], _: bytes) -> list[bytes]:
    """Change one bit, of heads as often as of data and tags."""
    number = chance.randrange(len(line))
    changed = bytearray(line[number])
    end = HEAD_BYTES if chance.random() < 0.5 else len(changed)
    changed[chance.randrange(end)] ^= 1 << chance.randrange(8)
    return [*line[:number], bytes(changed), *line[number + 1 :]]


def leave_out(chance: random.Random, line: list[bytes], _: bytes) -> list[bytes]:
    number = chance.randrange(len(line))
    return line[:number] + line[number + 1 :]


def repeat(chance: random.Random, line: list[bytes], _: bytes) -> list[bytes]:
    """Send a record again, at once or later, but before the end."""
    number = chance.randrange(len(line) - 1)
    later = chance.randrange(number + 1, len(line))
    return [*line[:later], line[number], *line[later:]]


def reorder(chance: random.Random, line: list[bytes], _: bytes) -> list[bytes]:
    first, two = sorted(chance.sample(range(len(line)), 2))
    changed = list(line)
    changed[first], changed[two] = changed[two], changed[first]
    return changed


def cut(chance: random.Random, line: list[bytes], _: bytes) -> list[bytes]:
    """End the connection at any byte, at the bounds of records as often."""
    if chance.random() < 0.5:
        return line[: chance.randrange(len(line))]
    whole = b"".join(line)
    return [whole[: chance.randrange(len(whole))]]


def send_back(chance: random.Random, line: list[bytes], other: bytes) -> list[bytes]:
    """Put in a record of the other direction."""
    number = chance.randrange(len(line))
    return [*line[:number], other, *line[number + chance.randrange(2) :]]


def from_another_link(
    chance: random.Random, line: list[bytes], _: bytes
) -> list[bytes]:
    room = memoryview(bytearray(64))
    foreign = bytes(room[: FOREIGN.seal(chance.choice([*RecordKind]), b"", room)])
    return send_back(chance, line, foreign)


ATTACKS: list[Attack] = [
    *(flip, leave_out, repeat, reorder, cut, send_back, from_another_link),
]
