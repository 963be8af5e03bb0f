"""What a class that watches costs the training, and how late it sees it.

    python -m benchmarks.share [--quick] [--viewers 30] [--json FILE]

A training goes on in stretches with and without a shared board (off on, on off, ...).
While it is on, another process is thirty pages: it takes all news and draws nothing, as
the browsers of a class are on other machines. Each pair gives one ratio of step rates.
The lag is from the end of the step that a page has been told of to its news; the age is
how long the next step had been over when the next news came.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from tornado.websocket import websocket_connect

import kit
from benchmarks.board import pairs
from benchmarks.board_kernel import Notebook
from benchmarks.rank_group import ROOT
from benchmarks.results import Table, arguments, median, report
from kit.trace.log import Rows
from widgets import TrafficBoard

GOAL, GOAL_LAG_S = 0.95, 1.0
_PATIENCE_S = 60
_STEP = re.compile(r"<span>step</span> <b>([\d,]+)</b>")
Seen = list[list[tuple[float, int]]]  # of each page: when, and which step it was told


async def watch(url: str, n_pages: int) -> tuple[Seen, float]:
    """Be some pages until the standard input ends; "ready" when all have the first.

    Returns what they saw, and the share of a processor that it took to be them.
    """
    news = url.replace("http", "ws", 1) + "news"
    seen: Seen = [[] for _ in range(n_pages)]
    sockets = [await websocket_connect(news) for _ in range(n_pages)]
    for socket in sockets:
        await socket.read_message()
        await socket.write_message("")

    async def be(page: int) -> None:
        socket = sockets[page]
        while (text := await socket.read_message()) is not None:
            at = time.monotonic()
            if result := _STEP.search(json.loads(text).get("numbers", "")):
                seen[page].append((at, int(result[1].replace(",", ""))))
            await socket.write_message("")

    pages = [asyncio.create_task(be(page)) for page in range(n_pages)]
    print("ready", flush=True)
    used, begun = time.process_time(), time.monotonic()
    await asyncio.to_thread(sys.stdin.read)
    share = (time.process_time() - used) / (time.monotonic() - begun)
    for page in pages:
        page.cancel()
    return seen, share


class Classroom:
    """Pages that watch each stretch, and what they saw."""

    def __init__(self, n_pages: int) -> None:
        self.n_pages = n_pages
        self.lags: list[float] = []
        self.ages: list[float] = []
        self.shares: list[float] = []  # of a processor that the pages took

    @contextmanager
    def shown(self, run: kit.Run) -> Iterator[None]:
        """Share the board of a run with them."""
        board = TrafficBoard(run)
        command = [sys.executable, "-m", "benchmarks.share", "--watch"]
        command += [board.share().url, "--viewers", str(self.n_pages)]
        pages = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
        )
        assert pages.stdout is not None
        try:
            assert pages.stdout.readline() == "ready\n"
            yield
        finally:
            output, _ = pages.communicate(timeout=_PATIENCE_S)
            board.close()
        seen, share = json.loads(output)
        self.shares.append(share)
        lags, ages = lags_and_ages(run.trace.steps, seen)
        self.lags += lags
        self.ages += ages


def lags_and_ages(rows: Rows, seen: Seen) -> tuple[list[float], list[float]]:
    """Return the lag of each news of a new step, and how old each became.

    What a page shows grows old from the end of the step after it.

    >>> from kit.trace.traffic import STEP, rows
    >>> steps = rows(STEP, [(1, n, 1, 0.5, 8, 0, n * 10**9, 0, 0, 0) for n in range(9)])
    >>> lags_and_ages(steps, [[(3.5, 4), (3.75, 4), (5.5, 6)]])  # step 4 is row 3
    ([0.5], [0.0, 1.5])
    """
    last = int(rows["step"].max()) + 1
    ends = np.zeros(last + 1)
    np.maximum.at(ends, rows["step"], rows["end"] / 1e9)
    ends[last] = np.inf
    lags, ages = [], []
    for page in seen:
        expected = [(at, step) for at, step in page if 0 < step <= last]
        news = [then for now, then in pairwise(expected) if then[1] > now[1]]
        lags += [float(at - ends[step - 1]) for at, step in news]
        ages += [
            max(0.0, float(at - ends[step]))
            for (_, step), (at, _) in pairwise(expected)
        ]
    return lags, ages


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, help="of each stretch")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--viewers", type=int, default=30)
    parser.add_argument("--watch", metavar="URL", help="be the pages")
    options = parser.parse_args()
    if options.watch:
        print(json.dumps(asyncio.run(watch(options.watch, options.viewers))))
        return
    rounds = options.rounds or (5 if options.quick else 20)
    steps = options.steps or (3000 if options.quick else 10_000)
    room = Classroom(options.viewers)
    book = Notebook(workers=2)
    try:
        result = json.loads(book.turns("ring", steps, rounds, room.shown))
    finally:
        book.close()
    ratios = pairs(result)
    costs = [100 * median(result[f"cost {word}"]) for word in ("off", "on")]
    cells = [f"{median(result[word]):.0f}" for word in ("off", "on")]
    cells += [f"{median(ratios):.3f}", f"{min(ratios):.3f} to {max(ratios):.3f}"]
    cells += [f"{costs[0]:.1f} % and {costs[1]:.1f} %"]
    cells += [f"{100 * median(room.shares):.1f} %"]
    oldest = np.percentile(room.ages or [np.nan], 99)
    cells += [f"{median(room.lags):.2f} s", f"{oldest:.2f} s"]
    table = Table(
        f"A board shared with {options.viewers} pages, median steps a second",
        (
            f"on / off is the median of the ratios of paired stretches; the goal is "
            f"{GOAL} or more, and an age of at most {GOAL_LAG_S:g} s. Two workers.",
        ),
        (
            *("shared off", "shared on", "on / off", "all pairs"),
            *("of a processor, without and with", "the pages'"),
            *("lag, median", "age, 99 of 100"),
        ),
        (tuple(cells),),
    )
    report(table, {"share": result | {"ratios": ratios}}, options.json)


if __name__ == "__main__":
    main()
