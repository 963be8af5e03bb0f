"""Checkpoints in a trace: what was written, what failed, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from kit.trace.file import save
from kit.trace.named_rows import SaveRow
from kit.trace.trace import Trace
from tests.trace.events import SMALL, events_of


def test_a_failed_checkpoint_is_an_instant_with_its_reason(tmp_path: Path) -> None:
    failed = SaveRow(7, 7_000, 8_500, "step 7 was not saved: No space left on device.")
    whole = replace(SMALL, saves=(SaveRow(3, 4_000, 5_000, ""), failed))

    save(whole, tmp_path / "run.json")

    marks = [e for e in events_of(tmp_path / "run.json", "i") if e["name"][0] == "c"]
    assert [(e["ts"], e["name"]) for e in marks] == [
        (4.999, "checkpoint of step 3"),
        (8.499, "checkpoint of step 7 failed"),
    ]
    assert marks[1]["args"]["error"] == failed.error
    assert Trace.load(tmp_path / "run.json").saves == whole.saves


def test_a_trace_of_the_time_before_checkpoints_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    save(SMALL, path)
    document = json.loads(path.read_text())
    del document["psring"]["saves"]
    path.write_text(json.dumps(document))

    assert Trace.load(path).saves == ()
