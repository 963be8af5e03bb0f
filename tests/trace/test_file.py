from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.errors import DataLossError, InvalidArgumentError, VersionMismatch
from kit.trace.events import lanes, micros
from kit.trace.file import save, write_atomically
from kit.trace.log import rows
from kit.trace.named_rows import SaveRow
from kit.trace.trace import Trace
from kit.trace.traffic import SPAN, STEP, TOTAL
from kit.training.client.watched import News, RunRows
from kit.training.core.news import LOGS
from tests.cases import for_each
from tests.trace.events import EPOCHS, SMALL, TASKS, events_of

TABLES = ("transfers", "spans", "steps", "totals")


def number(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    if dtype.kind == "f":
        return st.floats()
    limits = np.iinfo(dtype)
    most = min(int(limits.max), 2**62)
    return st.integers(max(int(limits.min), -most), most)


def tables(dtype: np.dtype[Any], tasks: int) -> st.SearchStrategy[Any]:
    names = dtype.names or ()
    ends = ("source", "destination", "task")
    columns = [
        st.integers(0, tasks - 1) if name in ends else number(dtype[name])
        for name in names
    ]
    return st.lists(st.tuples(*columns), max_size=6).map(lambda r: rows(dtype, r))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=8,
    deadline=None,
)
@given(
    st.builds(
        Trace,
        st.just(TASKS),
        st.just(EPOCHS),
        st.just(SMALL.transfers),
        tables(SPAN, 3),
        tables(STEP, 3),
        tables(TOTAL, 3),
    )
)
def test_a_saved_trace_comes_back_exactly(tmp_path: Path, trace: Trace) -> None:
    save(trace, tmp_path / "run.json")

    again = Trace.load(tmp_path / "run.json")

    assert (again.tasks, again.epochs) == (trace.tasks, trace.epochs)
    for name in TABLES:
        ours, theirs = getattr(trace, name), getattr(again, name)
        assert ours.dtype == theirs.dtype
        for column in ours.dtype.names:  # NaN is equal to NaN here
            np.testing.assert_array_equal(ours[column], theirs[column])


def test_an_empty_trace_makes_a_valid_file(tmp_path: Path) -> None:
    Trace(()).save(tmp_path / "run.json")

    assert json.loads((tmp_path / "run.json").read_text())["traceEvents"] == []
    assert Trace.load(tmp_path / "run.json").tasks == ()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return the path of a file with the small trace."""
    save(SMALL, tmp_path / "run.json")
    return tmp_path / "run.json"


def test_each_task_is_a_process_with_its_short_name(saved: Path) -> None:
    names = {
        event["pid"]: event["args"]["name"]
        for event in events_of(saved, "M")
        if event["name"] == "process_name"
    }
    assert names == {1: "ps:0", 2: "worker:0", 3: "worker:1"}


def test_a_transfer_is_a_slice_with_its_bytes_at_the_receiver(saved: Path) -> None:
    received = [
        event
        for event in events_of(saved, "X")
        if event["cat"] == "received" and event["pid"] == 1
    ]
    assert [(e["name"], e["ts"], e["dur"]) for e in received] == [
        ("push from worker:0", 1.999, 4.0),
        ("push from worker:1", 2.999, 4.0),
    ]
    assert received[0]["args"] == {"kind": "push", "bytes": 800, "step": 0, "epoch": 0}


def test_slices_of_one_track_never_overlap(saved: Path) -> None:
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events_of(saved, "X"):
        start = int(event["ts"] * 1000)
        span = (start, start + int(event["dur"] * 1000))
        tracks.setdefault((event["pid"], event["tid"]), []).append(span)
    assert len(tracks) > 5
    for spans in tracks.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_every_arrow_begins_and_ends_inside_a_slice(saved: Path) -> None:
    slices = events_of(saved, "X")
    tails, heads = events_of(saved, "s"), events_of(saved, "f")
    assert {e["id"] for e in tails} == {e["id"] for e in heads} == {0, 1, 2}
    for end in tails + heads:
        assert any(
            (s["pid"], s["tid"]) == (end["pid"], end["tid"])
            and s["ts"] <= end["ts"] < s["ts"] + s["dur"]
            for s in slices
        )


def test_switches_are_instants_and_links_are_counters(saved: Path) -> None:
    assert [(e["ts"], e["name"]) for e in events_of(saved, "i")] == [
        (0.999, "epoch 0: start with ps"),
        (8.999, "epoch 1: ps to ring"),
    ]
    counted = events_of(saved, "C")
    assert {(e["pid"], e["name"]) for e in counted} == {
        (2, "to ps:0 (bytes/s)"),
        (3, "to ps:0 (bytes/s)"),
        (2, "to worker:1 (bytes/s)"),
    }
    assert counted[0]["args"]["bytes/s"] == 800_000  # 800 bytes in a bin of 1 ms


def test_the_columns_follow_the_events_as_the_viewers_need_it(saved: Path) -> None:
    keys = list(json.loads((saved).read_text()))
    assert keys == ["displayTimeUnit", "traceEvents", "psring"]


def test_only_the_newest_rows_are_drawn_and_the_rest_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.json"

    undrawn = save(SMALL, path, max_rows=2)

    assert undrawn == {"transfers": 1, "spans": 1}
    assert json.loads(path.read_text())["psring"]["undrawn"] == undrawn
    drawn = events_of(path, "X")
    spans = {e["name"] for e in drawn if e["cat"] == "phases"}
    assert spans == {"compute", "send"}
    assert {e["name"] for e in drawn if e["cat"] == "received"} == {
        "push from worker:1",
        "reduce from worker:0",
    }


def long_trace() -> Trace:
    """Return what is held of more steps than there is room for."""
    recorded = RunRows(limit=100)
    for step in range(0, 2_000, 10):
        tables = [np.zeros(10, dtype) for dtype in LOGS]
        for table in tables:
            table["step"] = np.arange(step, step + 10)
            table["end"] = 1_000 * table["step"]
        recorded.add(News(tables, [0] * len(tables)))
    transfers, spans, steps, measures = recorded.since().tables
    saves = (SaveRow(3, 4_000, 5_000, ""),)
    held = replace(SMALL, transfers=transfers, spans=spans, steps=steps, saves=saves)
    return replace(held, measures=measures, kept=recorded.kept)


@pytest.mark.parametrize("max_rows", [100_000, 50, 0])
def test_every_row_that_is_held_is_saved_and_kept_says_the_same(
    tmp_path: Path, max_rows: int
) -> None:
    held = long_trace()
    assert held.kept.stride > 1
    assert held.steps["step"][0] == 0

    held.save(tmp_path / "run.json", max_rows=max_rows)

    again = Trace.load(tmp_path / "run.json")
    assert (again.kept, again.saves) == (held.kept, held.saves)
    for name in (*TABLES, "measures"):
        np.testing.assert_array_equal(getattr(again, name), getattr(held, name))


def test_a_negative_number_of_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="-1"):
        save(SMALL, tmp_path / "run.json", max_rows=-1)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("before")

    def pieces() -> Iterator[str]:
        yield "half of"
        raise RuntimeError("cut")

    with pytest.raises(RuntimeError, match="cut"):
        write_atomically(path, pieces())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_cut_file_is_reported_as_damaged(tmp_path: Path) -> None:
    save(SMALL, tmp_path / "run.json")
    text = (tmp_path / "run.json").read_text()

    for length in range(0, len(text) - 2, 211):
        (tmp_path / "cut.json").write_text(text[:length])
        with pytest.raises(DataLossError, match=r"cut\.json"):
            Trace.load(tmp_path / "cut.json")


@for_each(
    "damage",
    [
        lambda plain: plain["steps"]["loss"].pop(),
        lambda plain: plain.pop("spans"),
        lambda plain: plain["spans"]["task"].__setitem__(0, 70_000),
        lambda plain: plain["spans"]["start"].__setitem__(0, 1.5),
        lambda plain: plain.update(tasks=[["ps:0"]]),
    ],
    ids=["shortened", "lost", "overflowing", "fraction", "nested"],
)
def test_damaged_columns_are_reported(
    tmp_path: Path, damage: Callable[[dict[str, Any]], object]
) -> None:
    save(SMALL, tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_text())
    damage(document["psring"])
    (tmp_path / "run.json").write_text(json.dumps(document))

    with pytest.raises(DataLossError, match="damaged columns"):
        Trace.load(tmp_path / "run.json")


def test_a_file_of_another_program_or_version_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "run.json"

    path.write_text('{"traceEvents": []}')
    with pytest.raises(InvalidArgumentError, match="no columns"):
        Trace.load(path)
    path.write_text('{"psring": {"format": 99}}')
    with pytest.raises(VersionMismatch, match="99"):
        Trace.load(path)
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "absent.json")


@given(st.integers(0, 2**50))
def test_microseconds_keep_every_nanosecond(ns: int) -> None:
    assert int(micros(ns) * 1000) == ns


intervals = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)


@settings(max_examples=20)
@given(st.lists(intervals, max_size=30))
def test_lanes_are_as_many_as_the_deepest_overlap(spans: list[tuple[int, int]]) -> None:
    chosen = lanes(spans)

    deepest = max(
        (sum(start <= t < end for start, end in spans) for t in range(81)), default=0
    )
    assert len(set(chosen)) == deepest
    for i, (start, end) in enumerate(spans):
        for j in range(i):
            is_apart = end <= spans[j][0] or spans[j][1] <= start
            assert is_apart or chosen[i] != chosen[j]
