"""Seconds and memory until a cluster is ready: `kit.Cluster` and plain ipyparallel.

    python -m benchmarks.startup [--quick] [--json FILE]
    python -m benchmarks.startup --starts 30 --engines 16 32 [--beside 2]

Each start is a new process, from the call until the first answer of every engine; the
import of the library is not counted. Memory is the proportional set size of all
processes that the start added, so pages that several of them share count once.

`--starts` counts instead how many of so many starts of `kit.Cluster` succeed, beside as
many endless loops as asked for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psutil

from benchmarks.rank_group import ROOT, RanksFailed
from benchmarks.results import Table, arguments, median, ratio, report

SYSTEMS = ("kit.Cluster", "ipyparallel.Cluster")
_START_S = 120.0


def memory_mib(root: psutil.Process) -> float:
    """Return the proportional set size of all processes below `root`, in MiB."""
    total = 0
    for process in root.children(recursive=True):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:  # it has just ended
            continue
    return total / 2**20


def _measure(start: Callable[[], AbstractContextManager[Any]]) -> dict[str, float]:
    me = psutil.Process()
    begin = time.monotonic()
    with start():
        seconds = time.monotonic() - begin
        return {"seconds": seconds, "mib": memory_mib(me)}


def measure_here(system: str, n_engines: int) -> dict[str, float]:
    """Start one cluster from this process and stop it again."""
    if system == "kit.Cluster":
        import kit

        return _measure(lambda: kit.Cluster(ps=1, worker=n_engines - 1))
    import ipyparallel

    # Entering it starts controller and engines, waits for all and gives a client.
    return _measure(lambda: ipyparallel.Cluster(n=n_engines, log_level=50))


def _measure_there(system: str, n_engines: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.startup", "--single", system]
    command += ["--engines", str(n_engines)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_START_S
    )
    if done.returncode:
        raise RanksFailed(f"{system} with {n_engines}: {done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(
    sizes: list[int], rounds: int
) -> dict[int, dict[str, list[dict[str, float]]]]:
    """Return all measurements: number of engines -> system -> list."""
    result: dict[int, dict[str, list[dict[str, float]]]] = {}
    for n_engines in sizes:
        result[n_engines] = {system: [] for system in SYSTEMS}
        for _ in range(rounds):
            for system in SYSTEMS:
                result[n_engines][system].append(_measure_there(system, n_engines))
    return result


@contextmanager
def beside(n_loops: int) -> Iterator[None]:
    """Keep so many cores busy meanwhile."""
    command = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(n_loops)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def count(n_engines: int, n_starts: int) -> list[float]:
    """Return the seconds of the starts that succeeded; tells of the others."""
    seconds = []
    for _ in range(n_starts):
        try:
            seconds.append(_measure_there(SYSTEMS[0], n_engines)["seconds"])
        except (RanksFailed, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr)
    return seconds


def _count_row(n_engines: int, n_starts: int, seconds: list[float]) -> tuple[str, ...]:
    worst = max(seconds, default=float("nan"))
    succeeded = f"{len(seconds)} of {n_starts}"
    return (str(n_engines), succeeded, f"{median(seconds):.2f}", f"{worst:.2f}")


def count_all(options: argparse.Namespace, sizes: list[int]) -> bool:
    """Count for all sizes and report it; returns whether all starts succeeded."""
    n_starts, n_loops = options.starts, options.beside
    with beside(n_loops):
        result = {n_engines: count(n_engines, n_starts) for n_engines in sizes}
    table = Table(
        f"Starts of a cluster that succeed, beside {n_loops} endless loops",
        ("Seconds from the call to the answer of all engines.",),
        ("engines", "succeeded", "median s", "worst s"),
        tuple(_count_row(n, n_starts, seconds) for n, seconds in result.items()),
    )
    report(table, {"seconds": result}, options.json)
    return all(len(seconds) == n_starts for seconds in result.values())


def _row(n_engines: int, result: dict[str, list[dict[str, float]]]) -> tuple[str, ...]:
    seconds, mib = (
        [median([row[what] for row in result[system]]) for system in SYSTEMS]
        for what in ("seconds", "mib")
    )
    cells = [f"{second:.2f}" for second in seconds] + [ratio(*seconds)]
    cells += [f"{item:.0f}" for item in mib] + [ratio(*mib)]
    return (str(n_engines), *cells)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--engines", type=int, nargs="+")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--starts", type=int, metavar="N", help="count successes")
    parser.add_argument("--beside", type=int, default=0, metavar="N", help="loops")
    parser.add_argument("--single", choices=SYSTEMS, help="print its figures")
    options = parser.parse_args()
    sizes = options.engines or ([4] if options.quick else [2, 4, 8])
    if options.single:
        print(json.dumps(measure_here(options.single, sizes[0])))
        return
    if options.starts:
        sys.exit(0 if count_all(options, sizes) else 1)
    result = compare(sizes, options.rounds or (1 if options.quick else 5))
    table = Table(
        "Start of a cluster, median seconds and MiB",
        ("From the call to the answer of all engines; MiB of all processes (PSS).",),
        (
            *("engines", "kit s", "ipyparallel s", "ratio"),
            *("kit MiB", "ipyparallel MiB", "ratio"),
        ),
        tuple(_row(n, item) for n, item in result.items()),
    )
    report(table, {"starts": result}, options.json)


if __name__ == "__main__":
    main()
