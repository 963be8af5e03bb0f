"""Small benchmarks run from end to end, and judge what they measure rightly.

Nothing here is timed.
"""

from __future__ import annotations

import json
import random
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kit
from benchmarks import board, compression, roundtrip, session
from benchmarks.checkpoint_pause import EVERY, measured
from benchmarks.rank_group import RanksFailed
from benchmarks.rehearsal import Compared, Drawn, agrees, draw, measure
from benchmarks.roundtrip_rank import Rank
from benchmarks.switch_pause import pauses_s
from kit.testing.processes import process_cluster
from kit.trace.log import rows
from kit.trace.named_rows import EpochRow, SaveRow
from kit.trace.trace import Trace
from kit.trace.traffic import STEP
from tests.benchmarking import ended

MS = 1_000_000
TASKS = ("worker:0", "worker:1")


# -- pauses ----------------------------------------------------------------------------


def test_pause_for_a_switch_is_from_the_last_end_to_the_first_begin_across_it() -> None:
    times = [  # step, task, begin and end in ms; a switch before step 2
        *((0, 0, 0, 10), (0, 1, 1, 12)),
        *((1, 0, 11, 20), (1, 1, 13, 24)),
        *((2, 0, 31, 40), (2, 1, 30, 41)),
    ]
    table = [
        (task, step, 1, 0.0, 1, begin * MS, end * MS, 0, 0, 0)
        for step, task, begin, end in times
    ]
    epochs = (EpochRow(1, "ps", 0, 0, ""), EpochRow(2, "ring", 2, 29 * MS, ""))

    trace = Trace(TASKS, steps=rows(STEP, table), epochs=epochs)

    assert pauses_s(trace) == pytest.approx([0.006])


def test_pause_for_a_save_is_what_a_due_gap_is_longer_than_the_others() -> None:
    """Steps take 10 ms, gaps 1 ms; where a save is due one worker takes 5 ms more."""
    table, now = [], 0
    for step in range(2 * EVERY + 2):
        begin, now = now, now + 10 * MS
        for task in (0, 1):
            copy_s = 0.002 if task else 0.003
            table.append((task, step, 1, copy_s, 1, begin, now, 0, 0, 0))
        now += MS + (5 * MS if (step + 1) % EVERY == 0 else 0)
    first_begin = EVERY * 11 * MS
    saves = (
        SaveRow(EVERY, first_begin, first_begin + 20 * MS, ""),
        SaveRow(2 * EVERY, 10**12, 10**12, "no space"),
    )

    result = measured(Trace(TASKS, steps=rows(STEP, table), saves=saves))

    assert result.pauses == pytest.approx([0.005, 0.005])
    assert set(result.copies) == {0.003}
    assert len(result.beside) == 2
    assert result.steps == pytest.approx([0.010] * (2 * EVERY + 2 - 1 - 2))
    assert (result.saved, result.refused) == (1, 1)


@pytest.mark.slow
def test_pauses_of_a_training_are_measured() -> None:
    switches = ended("switch_pause", "--model 6-5-3 --switches 4").figures["6-5-3"]
    saves = ended("checkpoint_pause", "--sizes 65536 --saves 2", 120).figures["64 KiB"]

    assert len(switches["pauses"]) == 4
    assert len(saves["pauses"]) == 2
    assert saves["saved"] >= 1
    assert min(saves["copies"]) > 0


@pytest.mark.slow
def test_every_loss_that_is_counted_has_happened() -> None:
    options = "--quick --model small --kills 2 --turns 1"

    figures = ended("losses", options, 120).figures["small"]

    assert [kill["task"] for kill in figures["kills"]] == ["ps:0", "worker:0"]
    assert all(kill["seconds"] > 0 for kill in figures["kills"])
    rates = figures["rates"]
    assert [len(rates[kind]) for kind in ("elastic", "plain")] == [1, 1]
    assert all(rate > 0 for turns in rates.values() for rate in turns)


# -- a live board ----------------------------------------------------------------------


class Client:
    """A kernel's client whose kernel prints, opens a widget and then fails."""

    def __init__(self, status: str) -> None:
        self._status = status

    def execute_interactive(self, line: str, timeout: float, output_hook: Any) -> Any:
        for text in ("4", "2"):
            stream = {"msg_type": "stream", "content": {"text": text}, "buffers": []}
            output_hook(stream)
        output_hook({"msg_type": "comm_msg", "content": {}, "buffers": [b"abc"]})
        output_hook({"msg_type": "status", "content": {"a": "b"}, "buffers": []})
        return {"content": {"status": self._status, "ename": "E", "evalue": "no"}}


def test_a_row_of_a_board_has_the_middle_ratio_and_the_extremes() -> None:
    rates = {"off": [100.0, 200.0, 50.0], "on": [90.0, 200.0, 25.0], "sent": [4e4, 6e4]}
    rates |= {"cost off": [0.02, 0.04], "cost on": [0.05]}

    assert board.pairs(rates) == [0.9, 1.0, 0.5]
    assert board.rows({"ps": rates}) == (
        ("ps", "100", "90", "0.900", "0.500 to 1.000", "3.0 % and 5.0 %", "50 kB"),
    )


def test_a_line_gives_what_it_prints_or_ends_the_benchmark_and_its_bytes_count() -> (
    None
):
    kernel = board.Kernel(Client("ok"))

    assert kernel.run("print(6 * 7)") == "42"
    assert kernel.n_bytes == len("{}") + 3
    with pytest.raises(RuntimeError, match=r"^1 / 0: E: no$"):
        board.Kernel(Client("error")).run("1 / 0")


@pytest.mark.slow
@pytest.mark.engines
def test_a_board_is_open_in_every_second_stretch() -> None:
    options = "--topologies ps --workers 2 --steps 150 --rounds 1"

    rates = ended("board", options).figures["steps_per_second"]["ps"]

    for kind in ("off", "on", "cost off", "cost on"):
        assert len(rates[kind]) == 1
        assert rates[kind][0] > 0
    assert rates["sent"][0] > 1000  # bytes a second: more than the controls alone


# -- compressed gradients, and rehearsals ----------------------------------------------


@pytest.mark.slow
def test_compressed_gradients_send_the_bytes_that_are_calculated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures.json"
    monkeypatch.setattr(compression, "SHAPE", (30, 20))
    monkeypatch.setattr(compression, "SPEED", "10mbit")
    monkeypatch.setattr("sys.argv", ["compression", "--quick", "--json", str(path)])

    compression.main()

    figures = json.loads(path.read_text("utf-8"))["figures"]["2 workers"]
    n_bytes = {name: item["bytes"] for name, item in figures.items()}
    # Two workers on a ring send each array once in all: 600 elements of float32.
    assert n_bytes == {
        "none": 2400,
        "float16": 1200,
        "int8": 600 + 4,
        "TopK(0.01)": 6 * (4 + 4),
        "PowerSGD(4)": 4 * 4 * (30 + 20),
    }
    for name, row in figures.items():
        assert row["formula"] == pytest.approx(8 * n_bytes[name] / 10e6, rel=0.01)
        assert min(row["measured"]) >= 0.9 * row["formula"]


def test_choice_is_right_where_nothing_was_measured_to_be_quicker() -> None:
    result = [
        Compared("ring", 0.1, [1.0, 1.0, 1.0]),
        Compared("mesh", 0.2, [0.99, 0.99, 0.99]),
        Compared("ps", 0.3, [2.0, 2.0, 2.0]),
    ]

    assert agrees("ring", result)
    assert agrees("mesh", result)
    assert agrees("ps", result) is False
    assert agrees("ring", result[:1]) is None


def test_two_to_sixteen_tasks_with_two_workers_at_least_are_drawn() -> None:
    dice = random.Random(0)
    drawn = [draw(dice) for _ in range(200)]

    assert {item.ps + item.worker for item in drawn} == {2, 3, 4, 6, 8, 12, 16}
    assert min(item.worker for item in drawn) == 2
    assert {item.ps for item in drawn} == {0, 1, 2}


@pytest.mark.slow
def test_rehearsal_is_carried_out_and_one_of_other_bytes_is_noticed() -> None:
    case = Drawn(0, 2, 4000, "100mbit,5ms", 0.0)
    reply = kit.rehearse(case.n_bytes, worker=2, link=case.link)
    with process_cluster(case.ps, case.worker) as cluster:
        result = measure(case, reply, cluster)
        with pytest.raises(RanksFailed, match="were rehearsed"):
            measure(case, replace(reply, n_bytes=1), cluster)

    assert (result.topology, result.predicted) == (reply.topology, reply.seconds)
    assert min(result.measured) > 0.005  # two messages follow on each other


# -- round trips and sessions ----------------------------------------------------------


@pytest.mark.slow
def test_every_way_to_ask_is_measured() -> None:
    result = ended("roundtrip", "--sizes 8 524288 --rounds 1").figures["microseconds"]

    assert set(result) == {"8", "524288"}
    for took in result.values():
        assert set(took) == {"copy", *roundtrip.SYSTEMS}
        assert all(us > 0 for values in took.values() for us in values)


def test_a_wrong_answer_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = socket.socketpair()
    monkeypatch.setenv("BENCH_PEERS", f"-1,{near.fileno()}")
    rank = Rank(0, "socket")
    near.detach()
    far.sendall(b"not that")

    with pytest.raises(ValueError, match="8 bytes came back"):
        rank.measure(8, 1)
    far.close()
    rank.close()


def test_ratios_are_to_the_bare_socket() -> None:
    row = roundtrip.row_of(
        8, {name: [2.0] for name in ("copy", *roundtrip.SYSTEMS)} | {"frames": [3.0]}
    )

    assert row[0] == "8 B"
    assert row[-3:] == ("1.50", "1.00", "1.00")


@pytest.mark.slow
def test_every_run_of_a_session_is_measured() -> None:
    printed, figures = ended("session", "--rounds 1")

    result = figures["microseconds"]
    assert set(result) == set(session.CLIENTS)
    for cases in result.values():
        assert set(cases) == {case.name for case in session.CASES}
        for case in session.CASES:
            assert len(cases[case.name]["kit"]) == case.repeats
    assert printed.count("\n| ") == 1 + 2 * len(session.CASES)


class Wrong:
    """A rank group that gives another value."""

    name = "wrong"

    def order(self, **_: object) -> list[dict[str, object]]:
        return [{"us": [1.0], "value": 7.0}] * session.N_RANKS


def test_a_wrong_value_ends_the_benchmark_and_a_missing_peer_is_called_so() -> None:
    row = session.row_of("inside", session.CASES[0], {"kit": [30.0]})

    assert row[2:] == ("30", "missing", "-")
    with pytest.raises(RanksFailed, match=r"wrong gives 7\.0"):
        session.measure(Wrong(), session.CASES[0], 1)  # type: ignore[arg-type]
