"""Live servers under mutated frames: a small form of `benchmarks.fuzz`."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Callable

import hypothesis
import numpy as np
import pytest

from benchmarks import fuzz_mutations as mutations
from benchmarks.fuzz import fuzz
from benchmarks.fuzz_server import Faults
from kit.session.transport.serialization import pack
from kit.wire.message import pack_message, unpack_message

# 2,000 frames of each transport, 4,000 in CI, 80,000 at night.
N_FRAMES = max(2_000, 40 * hypothesis.settings().max_examples)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["unix", "tcp", "tls"])
def test_servers_outlive_mutated_frames(transport: str) -> None:
    report = fuzz(transport, N_FRAMES, seed=1)

    assert report.failures == []
    assert report.frames >= N_FRAMES
    # Frames of many kinds have reached the handlers, and damaged ones the link.
    assert len(report.kinds) > 15
    assert report.outcomes["InvalidArgumentError"] > N_FRAMES // 20
    assert report.outcomes["answered"] > N_FRAMES // 50
    assert report.outcomes["raw"] > N_FRAMES // 100


def parts(*pieces: object) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]


ONE = {"op": "run.arrive", "run": "ab" * 16, "member": 1, "key": [3, 0]}
OTHER = {"op": "run.fail", "error": {"type": "PeerLost", "message": "gone"}}
CHANGES: list[tuple[Callable[..., bytes], bytes, bytes]] = [
    (mutations.message, parts(*pack_message(ONE, b"xy")), parts(*pack_message(OTHER))),
    (mutations.parcel, parts(*pack(ONE, [np.arange(3)])), parts(*pack(OTHER, []))),
]


@pytest.mark.parametrize(("change", "one", "other"), CHANGES, ids=["message", "parcel"])
def test_mutations_follow_from_their_dice_and_nearly_all_change_something(
    change: Callable[..., bytes], one: bytes, other: bytes
) -> None:
    first, again = (
        [change(one, other, random.Random(seed)) for seed in range(300)]
        for _ in range(2)
    )

    assert first == again
    assert sum(body != one for body in first) > 200
    assert len(set(first)) > 100


def test_changed_messages_are_still_messages() -> None:
    change, one, other = CHANGES[0]

    for seed in range(300):
        values, _ = unpack_message(bytearray(change(one, other, random.Random(seed))))
        json.dumps(values)


def test_only_errors_that_are_not_declared_are_faults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    faults = Faults()
    try:
        logging.getLogger("kit.server").warning("a link was refused")
        assert not faults.found
        try:
            raise ZeroDivisionError("a bug")
        except ZeroDivisionError:
            logging.getLogger("kit.server").exception("'run.poll' failed")
        thread = threading.Thread(target=lambda: dict[str, int]()["missing"])
        thread.start()
        thread.join()
    finally:
        logging.getLogger().removeHandler(faults)

    found = " ".join(faults.found)
    assert "ZeroDivisionError: a bug" in found
    assert "KeyError: 'missing'" in found
