"""How many cuts of a line a training outlasts, in each direction.

    python -m benchmarks.cuts [--seconds 8] [--dead 10] [--tries 20] [--old] [--rare]
                              [--json F]

A parameter server and a worker stand at one end of a wire, two workers at the other;
the line is cut for some seconds, then whole again. The next one is of the same training
or, where it has ended, of a new one. `--old` leaves out what TCP can do from
Linux 6.15 on; `--rare` asks for signs of life as rare as settings allow. Needs what the
network tests need, see `tests.net.netlab`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.results import Table, arguments, report
from kit.errors import DeadlineExceededError, KitError
from kit.settings import Settings
from kit.training.client.run import Run
from tests.net.bench import NetCluster, net_cluster
from tests.net.trainings import CUTS, PLACES, set_cut, train, wait_for_step

Running = tuple[NetCluster, Run]


@contextmanager
def running(dead_s: float, *, old: bool, rare: bool) -> Iterator[Running]:
    """Give a training that has begun, over a perfect line."""
    settings = Settings(dead_after_s=dead_s)
    if rare:
        settings = settings.replace(heartbeat_s=dead_s / 2, suspect_after_s=dead_s)
    with (
        tempfile.TemporaryDirectory() as folder,
        net_cluster(Path(folder), PLACES, settings=settings, old_kernel=old) as cluster,
    ):
        run = train(cluster, 10**9, topology="ps")
        wait_for_step(run, 3)
        yield cluster, run
        run.stop()
        with suppress(KitError):
            run.wait(20)


def outlasts(on: Running, directions: list[str], seconds: float) -> tuple[str, float]:
    """Cut once; returns what ended the training, if anything, and the pause after."""
    cluster, run = on
    set_cut(cluster, directions, cut=True)
    try:
        run.wait(seconds)
    except DeadlineExceededError:
        pass  # it goes on
    except KitError as error:
        return str(error.task or error.message), 0.0
    set_cut(cluster, directions, cut=False)
    whole = time.monotonic()
    try:
        wait_for_step(run, run.step + 3)
    except (KitError, AssertionError) as error:
        return str(getattr(error, "task", error)), 0.0
    return "", time.monotonic() - whole


def outlasted(
    directions: list[str], seconds: float, tries: int, **how: Any
) -> tuple[int, list[float], list[str]]:
    """Return how many of the cuts did no harm, the pauses after them, the blamed."""
    pauses, blamed = list[float](), list[str]()
    while len(pauses) + len(blamed) < tries:
        with running(**how) as on:
            who = ""
            while not who and len(pauses) + len(blamed) < tries:
                who, pause_s = outlasts(on, directions, seconds)
                (blamed.append(who) if who else pauses.append(pause_s))
    return len(pauses), pauses, blamed


def main() -> None:
    """Cut as often as asked for and report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each cut")
    parser.add_argument("--dead", type=float, default=10.0, help="dead_after_s")
    parser.add_argument("--tries", type=int, default=20, help="in each direction")
    parser.add_argument("--old", action="store_true", help="as before Linux 6.15")
    parser.add_argument("--rare", action="store_true", help="heartbeats")
    options = parser.parse_args()
    tries = min(options.tries, 3) if options.quick else options.tries
    rows, figures = list[tuple[str, ...]](), {}
    for name, directions in CUTS.items():
        good, pauses, blamed = outlasted(
            *(directions, options.seconds, tries),
            **{"dead_s": options.dead, "old": options.old, "rare": options.rare},
        )
        longest = f"{max(pauses):.1f}" if pauses else "-"
        who = ", ".join(sorted(set(blamed))) or "-"
        rows.append((name, f"{good} of {tries}", longest, who))
        figures[name] = {"pauses_s": pauses, "blamed": blamed}
        print(*rows[-1], flush=True)
    title = f"Cuts of {options.seconds:g} s, dead_after_s={options.dead:g}"
    head = ("cut", "outlasted", "longest pause after it, s", "blamed")
    report(Table(title, (), head, tuple(rows)), figures, options.json)


if __name__ == "__main__":
    main()
