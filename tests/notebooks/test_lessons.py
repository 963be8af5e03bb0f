"""The lessons do what they say: run as a reader does, exercises, solutions and all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest

from tests.notebooks.kernel import ROOT, execute, printed, read, run

MEMORY = 1 << 30
SIZE = 104_488  # bytes of the parameters of digits_mlp: 26,122 numbers of four

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(300)]


def numbers(text: str, pattern: str) -> list[float]:
    result = re.findall(pattern, text)
    assert result, (pattern, text)
    return [float(item.replace(",", "")) for item in result]


@contextmanager
def most_memory() -> Iterator[list[int]]:
    """Put the most bytes that all processes below this one had into the list."""
    result, is_over = [0], Event()

    def look() -> None:
        while not is_over.wait(0.5):
            result[0] = max(result[0], _memory_below())

    looking = Thread(target=look)
    looking.start()
    try:
        yield result
    finally:
        is_over.set()
        looking.join()


def _memory_below() -> int:
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            total += process.memory_full_info().pss  # what is shared counts once
        except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
            continue  # it has just ended
    return total


def number(text: str, after: str) -> float:
    """Return the first number behind some words."""
    return numbers(text, rf"{after} *([\d.]+)")[0]


def test_lesson_on_placement_does_what_it_says(tmp_path: Path) -> None:
    lesson = run("01_placement", tmp_path)

    assert "Cluster ready: ps=1 worker=2" in printed(lesson, "start")
    assert "<svg" in printed(lesson, "place")
    ran = printed(lesson, "run")
    assert re.search(r"w/read:0 +-> /job:worker/task:0 +2,560 bytes", ran)  # 64 x 10
    assert ">w  2.6 kB</text>" in ran
    assert "Measured: 2,600 bytes" in printed(lesson, "reveal")
    assert "Not yet: 1,600,000 bytes moved" in printed(lesson, "work")
    assert "Right. 8 bytes moved" in printed(lesson, "work-solution-answer")
    arrays = printed(lesson, "array")
    assert "computed on {'/job:worker/replica:0/task:1/device:" in arrays
    assert arrays.rstrip().endswith("True")
    wrong = printed(lesson, "wrong")
    assert "[?, 64] and cannot be fed a value of [96, 32]" in wrong
    assert "PlacementError: no task is called '/job:worker/task:7'" in wrong
    assert "the first has 64 columns and the second 10 rows" in wrong
    assert "tower_1/" in printed(lesson, "towers")
    trained = printed(lesson, "train-towers")
    # w and b to each worker, and the gradient of each back.
    assert f"{2 * 2 * 650 * 4:,} bytes in a step" in trained
    assert number(trained, "in-graph: loss") < 0.5 < number(ran, "loss")
    between = printed(lesson, "between-run")
    assert "worker 0: loss" in between
    assert "worker 1: loss" in between
    later = number(between, "between-graph: loss")
    assert later < number(trained, "in-graph: loss")
    both = printed(lesson, "run-train")
    assert max(number(both, "ps +loss"), number(both, "ring loss")) < 0.5
    assert "the same to the last bit" in both


def test_lesson_on_the_server_counts_bytes_and_runs_the_old_program(
    tmp_path: Path,
) -> None:
    lesson = run("02_parameter_server", tmp_path)

    assert f"Measured: {6 * SIZE:,} bytes" in printed(lesson, "reveal")
    assert "ps:0" in printed(lesson, "watch")
    assert "Finished after step 600 of 600" in printed(lesson, "board")
    turn, greedy = (
        numbers(printed(lesson, "two"), rf"{kind} +ps:\d +([\d,]+) bytes")
        for kind in ("round_robin", "greedy")
    )
    assert sum(turn) == sum(greedy) == 6 * 4 * (64 * 64 * 2 + 64 * 2 + 64 * 10 + 10)
    assert max(turn) > 50 * min(turn)  # all matrices on one server
    assert max(greedy) < 1.3 * min(greedy)
    (stale,) = numbers(printed(lesson, "async"), r"Measured: ([\d.]+) updates")
    assert 1 < stale < 3  # two others
    shares = numbers(printed(lesson, "staleness"), r"-&gt; ([\d.]+)")
    assert sum(shares) == pytest.approx(2 * 100, abs=1)  # a line and its dots
    made = numbers(printed(lesson, "on-run"), r"I made (\d+) of the steps")
    assert len(made) == 3
    assert 400 <= sum(made) <= 400 + 2  # two may see the end one run late
    again = printed(lesson, "on-again")
    assert re.search(r"Restored \S+/model\.ckpt-40[0-2]\.", again)
    assert len(numbers(again, r"I made (\d+) of the 100")) == 3


def test_lesson_on_the_ring_counts_what_its_picture_shows(tmp_path: Path) -> None:
    lesson = run("03_ring_allreduce", tmp_path)

    assert "chunk 3" in printed(lesson, "watch")
    sums = printed(lesson, "numpy")
    assert numbers(sums, r"(\d+)\*") == [32, 36, 40, 28]  # of 1, 5, 9, 13 and so on
    said = printed(lesson, "reveal")
    (sent,) = numbers(said, r"Measured: ([\d,]+) bytes")
    assert sent == pytest.approx(4 / 3 * SIZE, abs=4 * 4)  # chunks differ by a number
    assert "Measured: 4 messages" in said
    busiest = printed(lesson, "busiest")
    assert re.search(r"ps, measured: 3 -&gt; 6", busiest)
    assert re.search(r"ring, measured: 3 -&gt; 2.667", busiest)
    assert re.search(r"ring-whole, measured: 3 -&gt; 4", busiest)
    assert "(a + b) + c is 1.0, a + (b + c) is 0.0" in printed(lesson, "bits")
    assert printed(lesson, "bits").count("same bits as ring: True") == 3


def test_lesson_on_switching_makes_the_server_the_bottleneck_within_a_gigabyte(
    tmp_path: Path,
) -> None:
    with most_memory() as most:
        lesson = run("04_switch_it", tmp_path, "train", "switch", "stop-run", "reveal")

    assert 1 << 27 < most[0] < MEMORY
    assert re.search(r"ring since step \d+", printed(lesson, "switch"))
    assert "S times 4.00, and S times 1.50" in printed(lesson, "reveal")
    # Also when the training is begun again after others, on more workers.
    assert "S times 4.00, and S times 1.50" in printed(lesson, "reveal-again")
    assert "Stopped after step" in printed(lesson, "board")
    rows = re.findall(r"^ *([\d,]+) +(.*[\d.])$", printed(lesson, "slow"), re.M)
    server = {mbit: [float(number) for number in row.split()] for mbit, row in rows}
    for mbit in ("100", "30"):
        ps, ps_formula, ring, ring_formula = server[mbit]
        assert 0.95 * ps_formula <= ps < 2 * ps_formula  # the line decides
        assert 0.95 * ring_formula <= ring < ps
    assert server["30"][0] > 2 * server["30"][2]
    assert server["10,000"][0] > 2 * server["10,000"][1]  # here the processors do
    more, latency = printed(lesson, "more"), printed(lesson, "latency")
    assert (
        measured(more, "ps")["6"] > 1.5 * measured(more, "ps")["2"]
    )  # 7 / 3 by formula
    assert measured(more, "ps")["6"] >= 0.95 * (6 + 1) * SIZE * 8 / 50e6 * 1e3
    assert measured(more, "ps")["6"] > 2 * measured(more, "ring")["6"]
    assert measured(latency, "ps")["0"] >= 0.95 * (4 + 1) * SIZE * 8 / 100e6 * 1e3
    assert measured(latency, "ring")["0"] < measured(latency, "ps")["0"]
    assert measured(latency, "ring")["24"] > measured(latency, "ps")["24"]


def measured(text: str, name: str) -> dict[str, float]:
    result = re.search(rf"{name}, measured: (.*)", text)
    assert result is not None, text
    pairs = re.findall(r"(\d+) -&gt; ([\d.,]+\d)", result[1])
    return {x: float(y.replace(",", "")) for x, y in pairs}


def test_lesson_on_evolution_learns_without_gradients(tmp_path: Path) -> None:
    lesson = run("05_evolution_strategies", tmp_path)

    before, after = numbers(printed(lesson, "evolve"), r"([\d.]+) (?:before|after)")
    assert before < 0.2
    assert after > 0.85
    assert f"Measured: {(64 + 1) * 10 * 4:,} bytes" in printed(lesson, "reveal")
    (counted,) = numbers(printed(lesson, "count"), r"accuracy ([\d.]+)")
    assert counted > 0.6
    assert printed(lesson, "sizes").count(": 2,600 bytes a step") == 3


def test_lesson_on_losses_kills_tasks_and_keeps_the_bits(tmp_path: Path) -> None:
    lesson = run("06_survive", tmp_path)

    assert "Measured: 3 trainings;" in printed(lesson, "plain")
    assert printed(lesson, "plain").count(" killed: failed after step ") == 3
    board = printed(lesson, "elastic")  # as it stood at the end
    assert "worker:2 is gone</text>" in board
    assert "now on worker:0</text>" in board
    assert re.search(r"worker:2 was lost at step \d+; (\d+|no) steps? w", board)
    assert "Tasks lost, joined and left" in board
    reveal = printed(lesson, "elastic-reveal")
    assert "the bits of the undisturbed training: True" in reveal
    assert printed(lesson, "others").count("same bits: True") == 2
    back = printed(lesson, "back")
    assert "lost ('worker:2',), joined (), again" in back
    assert "lost (), joined ('worker:2',), again 0" in back
    assert "worker:0 worker:1 worker:0 worker:1" in printed(lesson, "size")
    grown = printed(lesson, "add")
    assert "worker:0 worker:1 worker:2 worker:0" in grown
    assert "worker:0 worker:0 worker:0 worker:0" in grown
    assert len(re.findall(r"worker:\d lost; places", printed(lesson, "spare"))) == 2
    pair = printed(lesson, "pair")
    assert "worker:0 worker:2 lost at once: it goes on" in pair
    assert re.search("worker:0 worker:1 lost at once: .*the only copies", pair)


def test_lesson_on_compression_sends_less_and_forgets_nothing(tmp_path: Path) -> None:
    lesson = run("07_send_less", tmp_path)

    assert f"Measured: {SIZE // 2:,} bytes" in printed(lesson, "reveal")
    sent, ms, accuracy = {}, {}, {}
    for cell in ("run", "half", "fewer", "top-k", "power", "forget"):
        text = printed(lesson, cell)
        (sent[cell],) = numbers(text, r"([\d,]+) bytes")
        (ms[cell],) = numbers(text, r"([\d.]+) ms a step")
        (accuracy[cell],) = numbers(text, r"accuracy ([\d.]+)")
    assert (sent["run"], sent["half"]) == (SIZE, SIZE / 2)
    assert sent["top-k"] == sent["forget"] < SIZE / 45
    assert ms["run"] >= SIZE * 8 / 20e6 * 1e3
    assert min(accuracy[cell] for cell in ("run", "half", "fewer", "top-k")) > 0.85
    assert accuracy["forget"] < accuracy["top-k"] - 0.1
    language = printed(lesson, "language")
    whole, half, top_k, power = numbers(language, r"([\d,]+) bytes")
    assert (whole, half) == (9_216_000, 4_608_000)
    assert max(top_k, power) < whole / 45
    loss, at_half, *others = numbers(language, r"loss ([\d.]+)")
    assert abs(at_half - loss) < 0.05
    assert loss - 0.05 < min(others) < max(others) < 5


def test_lesson_on_an_experiment_foretells_replays_and_compares(tmp_path: Path) -> None:
    lesson = run("08_experiment", tmp_path)

    assert "12 of 12 combinations done" in printed(lesson, "sweep")
    slow = printed(lesson, "sweep-reveal")
    server, ring = map(float, re.findall(r"100mbit +64 +([\d.]+) +([\d.]+)", slow)[0])
    assert server > ring
    why = printed(lesson, "why")
    # On a busy machine, tasks may wait longer for a core than for the links.
    verdicts = dict(re.findall(r"^(ps|ring): +(.*)$", why, re.M))
    busy = "There are more threads to run than cores: "
    assert verdicts["ps"].startswith(("The line of ps:0 is slow: ", busy))
    short = r"Messages are short .*: (\d) of them in a row, ([\d.]+) ms each, take"
    if result := re.match(short, verdicts["ring"]):
        in_a_row, each = result.groups()
        assert float(each) == pytest.approx(5, rel=0.1)
        assert float(in_a_row) == pytest.approx(6, abs=1)
    else:
        assert verdicts["ring"].startswith((busy, "No clear cause: "))
    foretold = printed(lesson, "rehearse")
    assert f"ps    exact:  {2 * 64 * SIZE:,} bytes a step" in foretold
    assert foretold.count(" exact: ") == foretold.count(" predicted: ") == 3
    assert foretold.rstrip().splitlines()[-1].startswith("mesh: predicted ")
    replayed = printed(lesson, "record")
    assert re.search(r"^96 losses and \d+ digests are equal$", replayed, re.M)
    (chunk,) = numbers(replayed, r"reduce (\d+)")
    assert abs(chunk - SIZE / 4) < 4  # chunks differ by a number
    assert "differ for the first time in step 0" in printed(lesson, "diff")
    bytes_moved = numbers(printed(lesson, "hook"), r"(?m)^\w+ +(\d+)\.0 ")
    assert bytes_moved == [6 * SIZE, 3 * SIZE, 6 * SIZE]


def test_lesson_on_choosing_measures_what_its_two_numbers_say(tmp_path: Path) -> None:
    lesson = run("09_choose", tmp_path)

    rows = re.findall(r"^(.{10}) +([\d. ]+)$", printed(lesson, "table"), re.M)
    times = {
        name.strip(): [float(number) for number in row.split()] for name, row in rows
    }
    once = 104_000 * 8 / 30e6 * 1e3
    servers = {"1 server": 5 * once, "4 servers": 2 * once}
    formulas = servers | {"ring": 1.5 * once, "mesh": 1.5 * once}
    for name, predicted in formulas.items():
        short, short_formula, long, long_formula = times[name]
        assert short_formula == pytest.approx(predicted, abs=0.1)
        in_a_row = 6 if name == "ring" else 2
        assert long_formula == pytest.approx(predicted + 20 * in_a_row, abs=0.1)
        assert 0.9 * short_formula < short < 2 * short_formula, name
        assert 0.9 * long_formula < long < 2 * long_formula, name
    revealed = printed(lesson, "reveal")
    assert "Well guessed. It is: ring." in revealed
    assert "It is: 4 servers. You guessed: ring." in revealed


def test_lesson_on_writing_it_has_the_bytes_the_deadlock_and_the_bits(
    tmp_path: Path,
) -> None:
    lesson = run("10_write_it", tmp_path)

    assert printed(lesson, "mean").count("[15. 15. 15.]") == 4
    assert printed(lesson, "count").count("group.all_reduce: True") == 4
    assert "Measured: 12,000 bytes" in printed(lesson, "reveal")
    rows = re.findall(r"hop \d .{5} +([\d. ]+)$", printed(lesson, "watch"), re.M)
    hops = [[float(number) for number in row.split()] for row in rows]
    assert len(hops) == 6
    for before, after in pairwise(hops):  # what comes had come one hop before that
        assert all(before[k - 1] < after[k] for k in range(4))
    waits = printed(lesson, "deadlock")
    assert all(
        f"worker:{k} is in receive(source={(k - 1) % 4})" in waits for k in range(4)
    )
    assert waits.count("still a group: 4") == 4
    took = dict(re.findall(r"(\w+) (\d+) ms", printed(lesson, "quickest")))
    once = 52_500 * 8 / 30e6 * 1e3
    least = {"mine": 1.5 * once + 60, "ring": 1.5 * once + 60}
    least |= {"mesh": 1.5 * once + 20, "tree": 4 * (once + 10)}
    for name, ms in least.items():
        assert 0.95 * ms < float(took[name]) < 3 * ms, (name, took)
    (mine,) = re.findall(r"mine: +(\w{24})", printed(lesson, "mine"))
    assert f"kit.train: {mine}" in printed(lesson, "same")


def test_course_moves_what_its_formulas_say(tmp_path: Path) -> None:
    folder = ROOT / "notebooks" / "course"
    course = read(folder / "mpi_in_cells.ipynb")
    execute(course, tmp_path, folder)

    counted = re.findall(r"([\d,]+) bytes, by formula ([\d,]+)", printed(course))
    assert len(counted) == 9
    assert [row for row in counted if row[0] != row[1]] == []
    assert "the bits of recursive-doubling: True" in printed(course, "tree-run")
    assert "the bits of ring: False" in printed(course, "tree-run")
    assert "True; 0 of 576" in printed(course, "race-run")
    assert "solved" in printed(course, "gauss-run")
    assert "2.443 by 0 7 2 3 5 6 4 8 1" in printed(course, "bound-run")
    assert "Cluster stopped" in printed(course, "stop")
