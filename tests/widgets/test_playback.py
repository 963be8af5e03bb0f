"""A saved board that plays: its moments are the rows of the trace, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.markup import Html
from kit.trace.log import rows
from kit.trace.named_rows import Kept
from kit.trace.trace import STEP_KINDS
from kit.trace.traffic import STEP
from tests.training.toy import BATCH, DATA, fit, initial, quick_cluster
from tests.widgets.playing import unpacked
from tests.widgets.traces import toggled
from widgets import TrafficBoard
from widgets.board.playback import frames, stretches
from widgets.board.scene import scene
from widgets.board.watcher import beat_of
from widgets.drawing import player


def unknown(_: str) -> None:
    """Know no formula of a topology."""


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.integers(1, 50),
    st.integers(1, 3),
)
def test_stretches_are_in_order_and_each_of_one_epoch(
    lengths: list[int], most: int, n_workers: int
) -> None:
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    inputs = [
        (w, number, epoch, 0.5, 8, 0, 1, 0, 0, 0)
        for w in range(n_workers)
        for number, epoch in enumerate(epochs.tolist())
    ]

    result = stretches(rows(STEP, inputs), most)

    covered = [n for each in result for n in range(each.first, each.last + 1)]
    assert covered == sorted(set(covered))
    assert 1 <= len(result) <= most
    for item in result:
        assert set(epochs[item.first : item.last + 1]) == {item.epoch}
    if len(lengths) == 1:
        assert covered == list(range(len(epochs)))


@pytest.mark.parametrize("most", [1000, 7])
def test_each_byte_of_the_trace_is_in_one_moment(most: int) -> None:
    trace = toggled(("ps", "ring"), steps=20)

    result = frames(trace, beat_of(trace).moment, unknown, most)

    reply: dict[tuple[int, int], float] = {}
    for copy in result:
        for link, n_bytes in copy.moment.per_step.items():
            whole = n_bytes * copy.moment.numbers.n_steps
            reply[link] = reply.get(link, 0.0) + whole
    table = trace.transfers[np.isin(trace.transfers["kind"], STEP_KINDS)]
    links = set(
        zip(table["source"].tolist(), table["destination"].tolist(), strict=True)
    )
    assert reply.keys() == links
    for source, target in links:
        mine = (table["source"] == source) & (table["destination"] == target)
        assert reply[source, target] == pytest.approx(table["bytes"][mine].sum())


def test_a_moment_has_the_loss_of_its_last_step_and_its_own_topology() -> None:
    trace = toggled(("ps", "ring"), steps=20)

    result = frames(trace, beat_of(trace).moment, unknown, 10)

    for copy in result:
        mine = trace.steps[trace.steps["step"] == copy.step]
        assert copy.moment.loss == pytest.approx(mine["loss"].mean())
        assert copy.end == mine["end"].max()
        assert copy.moment.topology == ("ps" if copy.step < 20 else "ring")
        assert copy.moment.step == copy.step + 1
    assert len({item.moment.scale for item in result}) == 1


def test_steps_without_their_transfers_are_not_shown_as_idle() -> None:
    trace = toggled(("ps",), steps=20)
    table = trace.transfers[trace.transfers["step"] >= 12]
    cut = replace(trace, transfers=table, kept=Kept(details=12))

    result = frames(cut, beat_of(cut).moment, unknown)

    assert [item.step for item in result] == list(range(12, 20))
    assert all(any(copy.moment.rates.values()) for copy in result)


def test_the_page_draws_at_each_step_what_the_board_would(tmp_path: Path) -> None:
    trace = toggled(("ps", "ring"), steps=10)
    shown = frames(trace, beat_of(trace).moment, unknown)

    TrafficBoard(trace).save(tmp_path / "board.html")

    (result,) = unpacked((tmp_path / "board.html").read_text("utf-8")).values()
    assert len(result) == len(shown) == 20
    for copy, (said, places) in zip(shown, result, strict=True):
        assert said == f"step {copy.step + 1} of 20"
        assert places[2].startswith(scene(copy.moment))


@pytest.mark.slow
def test_a_page_of_many_steps_and_links_stays_below_two_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = toggled(("ring", "ps"), n_workers=8, steps=160)
    path = tmp_path / "board.html"

    TrafficBoard(trace).save(path)

    page = path.read_text("utf-8")
    assert len(page) < 2_000_000
    assert 150 <= len(unpacked(page)[""]) <= 200
    monkeypatch.setattr("widgets.board.playback.MOST_BYTES", 30_000)
    TrafficBoard(trace).save(path)
    assert len(unpacked(path.read_text("utf-8"))[""]) < 100


@pytest.mark.slow
def test_a_loaded_recording_plays_as_the_training_itself_does(tmp_path: Path) -> None:
    with quick_cluster(1, 2) as cluster:
        how: Any = {"steps": 30, "batch": BATCH, "cluster": cluster}
        run = kit.train(fit, initial(), DATA, record=tmp_path / "run", **how)
        run.wait(60)
    loaded = kit.load_run(tmp_path / "run")

    TrafficBoard(run).save(tmp_path / "one.html")
    TrafficBoard(loaded).save(tmp_path / "other.html")

    first, other = (
        unpacked((tmp_path / f"{name}.html").read_text("utf-8"))
        for name in ("one", "other")
    )
    assert len(first[""]) == 30
    for (said, mine), (again, its) in zip(first[""], other[""], strict=True):
        assert (said, mine[0], mine[1]) == (again, its[0], its[1])


@given(st.lists(st.lists(st.text("<>&a\u2013 /"), min_size=2, max_size=2), max_size=5))
def test_packed_frames_come_out_as_they_went_in(texts: list[list[str]]) -> None:
    track = player.Track(
        "t", [player.Frame("said", tuple(map(Html, text))) for text in texts]
    )

    packed = player.pack([track])

    page = f'<script class="ps-packed">{packed}<'
    assert unpacked(page) == {"t": [("said", tuple(text)) for text in texts]}
