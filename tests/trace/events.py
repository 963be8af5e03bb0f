"""A small trace, and what the viewer of a browser gets of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import SPAN, STEP, TOTAL, TRANSFER

TASKS = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")
EPOCHS = (EpochRow(0, "ps", 0, 1_000, ""), EpochRow(1, "ring", 2, 9_000, "1gbit"))
SMALL = Trace(
    TASKS,
    EPOCHS,
    rows(
        TRANSFER,
        [
            (1, 0, 1, 0, 0, 800, 2_000, 6_000),
            (2, 0, 1, 0, 0, 800, 3_000, 7_000),
            (1, 2, 3, 1, 2, 400, 9_500, 9_500),
        ],
    ),
    rows(SPAN, [(1, 1, 0, 1_000, 2_000), (1, 2, 0, 2_000, 6_001), (0, 4, 0, 1, 9)]),
    rows(STEP, [(1, 0, 0, 2.5, 32, 1_000, 8_000, 900, 100, 0)]),
    rows(TOTAL, [(1, 0, 1, 0, 800, 1)]),
)


def events_of(path: Path, phase: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event["ph"] == phase]
