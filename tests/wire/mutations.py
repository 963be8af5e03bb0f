"""Bytes that were changed on the way."""

from __future__ import annotations

import os
import random

N_MUTATIONS = int(os.environ.get("KIT_FUZZ_MUTATIONS", "200000"))


def mutate(frame: bytes, dice: random.Random) -> bytearray:
    changed = bytearray(frame)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(changed))
        match dice.randrange(6):
            case 0:
                changed[at] ^= 1 << dice.randrange(8)
            case 1:
                changed[at] = dice.choice((0, 1, 127, 128, 255))
            case 2:
                del changed[at:]
            case 3:
                changed[at:at] = dice.randbytes(dice.randrange(1, 9))
            case 4:
                width = dice.choice((1, 2, 4, 8))
                changed[at : at + width] = dice.choice((b"\xff", b"\0")) * width
            case 5:
                changed += changed[at:]
        if not changed:
            break
    return changed
