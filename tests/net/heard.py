"""When those who wait for a training hear that a task was lost, or a line cut.

    python -m tests.net.heard FIRST COUNT [--dead 2] [--at-once 2] [--json FILE]

plays the faults with the seeds FIRST to FIRST + COUNT - 1, tells how long after each
fault every survivor's program heard of it, and what was later than promised.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kit.errors import KitError, from_plain
from kit.settings import Settings
from kit.testing.task_process import until
from kit.training.client.run import Run
from tests.net.bench import NetCluster, TaskProcess, net_cluster
from tests.net.cuts import cut
from tests.net.trainings import train, wait_for_step

PROMISED_S = 2.0  # beside `dead_after_s`
PLACES = {"ps:0": "a", "worker:0": "a", "worker:1": "a", "worker:2": "b"}
FAR = {"ps:0": "b", "worker:0": "a", "worker:1": "b", "worker:2": "b"}
SIDES = {"near": PLACES, "far": FAR}
WAYS = ("ab", "ba", "abba")  # the directions in which nothing gets through
MANY = 1_000_000
_STEPS = 3
_WAIT_S = 60.0


class Fault(NamedTuple):
    """What happens to which training, and who waits for it.

    Attributes:
        what: "cut", "kill" or "stop".
        whom: the directions of a cut ("ab", "ba", "abba"), else a task.
        callers: "a" or "b" for a notebook at that end, "programs" for the workers' own.
        side: where most tasks are; the coordinator is always at a.
        topology: how gradients meet.
        is_paused: whether all stand between two steps.
    """

    what: str
    whom: str
    callers: str = "a"
    side: str = "near"
    topology: str = "ring"
    is_paused: bool = False


class Heard(NamedTuple):
    """When a caller heard of a fault, in seconds after it, and what."""

    after_s: float
    error: KitError


def quick(dead_s: float) -> Settings:
    """Return settings with a short `dead_after_s`; all else is as users have it."""
    return Settings(dead_after_s=dead_s, suspect_after_s=min(2.0, dead_s / 2))


def play(fault: Fault, folder: Path, settings: Settings) -> dict[str, Heard]:
    """Begin a training, do it harm, and return when each survivor's caller heard."""
    places = SIDES[fault.side]
    with net_cluster(folder, places, settings=settings, counts=False) as cluster:
        begin = _programs if fault.callers == "programs" else _notebook
        with begin(cluster, fault) as waits:
            happened = time.monotonic()
            _happen(cluster, fault)
            if fault.what != "cut":
                waits.pop(fault.whom, None)
            with ThreadPoolExecutor(len(waits)) as pool:
                result = {name: pool.submit(wait) for name, wait in waits.items()}
                heard = {name: future.result() for name, future in result.items()}
    return {name: Heard(at - happened, error) for name, (at, error) in heard.items()}


Waits = dict[str, Callable[[], tuple[float, KitError]]]


@contextmanager
def _notebook(cluster: NetCluster, fault: Fault) -> Iterator[Waits]:
    cluster.end = fault.callers
    run = train(cluster, MANY, topology=fault.topology)
    wait_for_step(run, _STEPS)
    if fault.is_paused:
        run.pause()
        until(lambda: run.state == "paused")

    def wait() -> tuple[float, KitError]:
        error = _error_of(run)
        return time.monotonic(), error

    yield {"notebook": wait}


def _error_of(run: Run) -> KitError:
    try:
        run.wait(_WAIT_S)
    except KitError as error:
        return error
    raise AssertionError(f"{run} has ended well")


@contextmanager
def _programs(cluster: NetCluster, fault: Fault) -> Iterator[Waits]:
    workers = [item for item in cluster.processes if item.task.job == "worker"]
    asked = {"do": "train", "topology": fault.topology}
    for process in workers:
        process.tell(asked)
    for process in workers:
        process.answer()
    for process in workers:
        process.ask(do="reach", step=_STEPS)
    if fault.is_paused:
        workers[0].ask(do="pause")

    def wait(process: TaskProcess) -> Callable[[], tuple[float, KitError]]:
        def ask() -> tuple[float, KitError]:
            at, error = process.ask(do="hear")
            return at, from_plain(error)

        return ask

    yield {worker.task.short: wait(worker) for worker in workers}


def _happen(cluster: NetCluster, fault: Fault) -> None:
    if fault.what == "cut":
        cut(cluster.wire, fault.whom, True)
        return
    sign = signal.SIGKILL if fault.what == "kill" else signal.SIGSTOP
    process = {item.task.short: item for item in cluster.processes}[fault.whom]
    process.process.send_signal(sign)


def late(fault: Fault, heard: dict[str, Heard], settings: Settings) -> dict[str, Heard]:
    """Return who heard later than promised."""
    promised_s = settings.dead_after_s + PROMISED_S
    return {name: item for name, item in heard.items() if item.after_s > promised_s}


def draw(seed: int) -> Fault:
    """Return the fault with a seed."""
    chance = random.Random(seed)
    what = chance.choice(["cut", "cut", "kill", "stop"])
    whom = chance.choice(WAYS if what == "cut" else [*PLACES])
    return Fault(
        what,
        whom,
        chance.choice(["a", "b", "programs"]),
        chance.choice([*SIDES]),
        chance.choice(["ps", "ring", "mesh"]),
        chance.random() < 0.3,
    )


def _played(seed: int, settings: Settings) -> dict[str, Any]:
    fault = draw(seed)
    row: dict[str, Any] = {"seed": seed, "fault": fault._asdict(), "wrong": ""}
    with tempfile.TemporaryDirectory() as folder:
        try:
            heard = play(fault, Path(folder), settings)
        except Exception as error:
            row |= {"heard": {}, "wrong": f"{type(error).__name__}: {error}"}
            return row
    row["heard"] = {name: item.after_s for name, item in heard.items()}
    row["said"] = {name: item.error.message for name, item in heard.items()}
    if slow := late(fault, heard, settings):
        row["wrong"] = f"late: {', '.join(slow)}"
    return row


def main() -> None:
    """Play faults, and print when each was heard of."""
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--dead", type=float, default=2.0, help="dead_after_s")
    parser.add_argument("--at-once", type=int, default=2, help="so many side by side")
    parser.add_argument("--json", default="", help="a file for all that was found")
    options = parser.parse_args()
    settings, guard = quick(options.dead), threading.Lock()
    rows: list[dict[str, Any]] = []

    def play_seed(seed: int) -> None:
        row = _played(seed, settings)
        with guard:
            rows.append(row)
            words = {name: round(s, 2) for name, s in row["heard"].items()}
            print(seed, *row["fault"].values(), words, row["wrong"], flush=True)

    seeds = range(options.first, options.first + options.count)
    with ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(play_seed, seeds))
    times = sorted(after for row in rows for after in row["heard"].values())
    n_wrong = sum(bool(row["wrong"]) for row in rows)
    print(f"{len(rows)} faults, {len(times)} callers, {n_wrong} faults wrong")
    for share in (0.5, 0.9, 0.99, 1.0):
        print(
            f"  {share:4.0%} heard within {times[int(share * (len(times) - 1))]:.2f} s"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
