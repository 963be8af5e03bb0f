"""Damaged bytes, many of them: only the declared error, and no memory."""

from __future__ import annotations

import random

import pytest

from kit.errors import ProtocolError
from kit.wire.frame import (
    CHECKSUM,
    SIZE,
    Bounds,
    FrameKind,
    Header,
    pack,
    unpack,
    verify,
)
from kit.wire.message import pack_message, unpack_message
from tests.wire.mutations import N_MUTATIONS, mutate

BOUNDS = Bounds(cluster=7, max_length=4096, max_sender=8, max_epoch=100)


def corpus() -> list[bytes]:
    """Valid frames, so that a mutation gets past the magic number."""
    bodies = [
        b"".join(pack_message(message, blob))
        for message in ({}, {"do": "run", "fetch": ["w:0"], "n": [1, 2.5, None, True]})
        for blob in (b"", bytes(range(64)))
    ]
    return [
        pack(
            Header(FrameKind.CONTROL, flags, 7, 3, 1, 50, 9, 2, 1, length=len(body)),
            body,
        )
        + body
        for flags in (0, CHECKSUM)
        for body in bodies
    ]


def parse(frame: bytearray) -> str:
    """Do what a link does with a frame; return the outcome."""
    try:
        header = unpack(frame, bounds=BOUNDS)
        body = frame[SIZE : SIZE + header.length]
        if len(body) < header.length:
            return "incomplete"
        verify(frame[:SIZE], header, body)
        unpack_message(body)
    except ProtocolError:
        return "refused"
    return "accepted"


@pytest.mark.slow
def test_mutated_frames_raise_only_the_declared_error() -> None:
    dice = random.Random(20_260_801)
    seeds = corpus()
    outcomes = dict.fromkeys(("accepted", "refused", "incomplete"), 0)

    for _ in range(N_MUTATIONS):
        outcomes[parse(mutate(dice.choice(seeds), dice))] += 1

    # All three ways were really taken: the corpus reaches beyond the magic number.
    assert min(outcomes.values()) > N_MUTATIONS // 100


def test_a_checksum_leaves_no_mutation_undetected() -> None:
    dice = random.Random(11)
    seeds = [seed for seed in corpus() if seed[6] & CHECKSUM]

    for _ in range(5_000):
        seed = dice.choice(seeds)
        frame = mutate(seed, dice)
        # Bytes after the frame belong to the next one.
        if frame[: len(seed)] != seed:
            assert parse(frame) != "accepted"
