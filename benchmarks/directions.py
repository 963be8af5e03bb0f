"""What threads for each direction of a link take off the one that computes.

    python -m benchmarks.directions [--groups [--streams N]] [--quick] [--json FILE]

A ring over TCP and over AES-GCM, on the loopback interface: in one thread a task, and
with a thread for each direction of each link. The busiest thread of a task, by its
processor time, is the least that an exchange takes where each thread has a core; how
long exchanges take shows that only on a machine with three cores for each task. With
--groups they are calls of a group (`kit.group`); with --streams both ways have threads,
and the second one has so many streams for each link.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple

from benchmarks.allreduce import check, durations
from benchmarks.allreduce_links import introduce
from benchmarks.rank_group import RankGroup, rank_group
from benchmarks.results import Table, arguments, median, ratio, report, size_text

_OVER = ("tcp", "aes-gcm")
_SIZES, _QUICK_SIZES = [1 << 20, 1 << 22, 1 << 24], [1 << 20, 1 << 24]
_BUDGET_BYTES, _MOST = 1 << 26, 40  # of the repeats of a round


class Turn(NamedTuple):
    """What one round of a system took, each exchange."""

    wall_us: float
    busiest_us: float  # of the busiest thread of any rank
    all_us: float  # of all threads of a rank, the mean over the ranks


def compare(
    n: int, sizes: list[int], rounds: int, what: str = "ring", streams: int = 1
) -> dict[str, list[Turn]]:
    """Return the rounds of each system, by its name and size."""
    result: dict[str, list[Turn]] = {}
    values = [float(rank + 1) for rank in range(n)]
    with ExitStack() as stack:
        groups: dict[tuple[str, bool], RankGroup] = {}
        for over in _OVER:
            for pumps in (False, True):
                system = f"{what} {over}"
                group = stack.enter_context(
                    rank_group(system, "benchmarks.allreduce_rank", n, system)
                )
                has = pumps or streams > 1
                more: dict[str, Any] = (
                    {"streams": streams if pumps else 1} if what == "group" else {}
                )
                introduce(group, over, pumps=has, **more)
                groups[over, pumps] = group
        for size in sizes:
            repeats = max(4, min(_MOST, _BUDGET_BYTES // size))
            for group in groups.values():
                came = group.order(do="prepare", n_bytes=size, values=values)
                check(group.name, n, came)
                group.order(do="measure", repeats=repeats)
            for _ in range(rounds):
                for (over, pumps), group in groups.items():
                    turns = result.setdefault(_name(over, size, pumps=pumps), [])
                    turns.append(_turn(group, n, repeats))
            for group in groups.values():
                check(group.name, n, group.order(do="look"))
    return result


def _name(over: str, size: int, *, pumps: bool) -> str:
    return f"{over} {size_text(size)} {'threads' if pumps else 'one thread'}"


def _turn(group: RankGroup, n: int, repeats: int) -> Turn:
    before = group.order(do="spent")
    times = group.order(do="measure", repeats=repeats)
    after = group.order(do="spent")
    spent = [
        [(now[name] - then.get(name, 0)) / repeats * 1e6 for name in now]
        for then, now in zip(before, after, strict=True)
    ]
    whole = sum(map(sum, spent)) / n
    return Turn(median(durations(group.name, n, times)), max(map(max, spent)), whole)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--members", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--groups", action="store_true")
    parser.add_argument("--streams", type=int, default=1)
    options = parser.parse_args()
    what = "group" if options.groups else "ring"
    sizes = _QUICK_SIZES if options.quick else _SIZES
    rounds = options.rounds or (3 if options.quick else 15)
    figures = {
        n: compare(n, sizes, rounds, what, options.streams) for n in options.members
    }
    rows = []
    for n, turns in figures.items():
        for over in _OVER:
            for size in sizes:
                alone, more = (
                    [median(part) for part in zip(*turns[name], strict=True)]
                    for name in (_name(over, size, pumps=p) for p in (False, True))
                )
                cells = [
                    f"{value:.0f}"
                    for pair in zip(alone, more, strict=True)
                    for value in pair
                ]
                ratios = [ratio(b, a) for a, b in zip(alone, more, strict=True)]
                rows.append((str(n), over, size_text(size), *cells, *ratios))
    report(_table(rows), {"microseconds": figures}, options.json)


def _table(rows: list[tuple[str, ...]]) -> Table:
    return Table(
        "A thread for each direction of a link, median microseconds of an exchange",
        (
            "A ring that sums in place, on the loopback interface. wall: from the last "
            "rank's arrival to the last one's finish. busiest: processor time of the "
            "busiest thread of any rank. all: of all threads of a rank. Each in one "
            "thread, and with a thread for each direction (with --streams, both with "
            "threads, the second with several streams); the last three columns are "
            "these over those.",
        ),
        (
            *("members", "over", "size"),
            *("wall", "wall, threads", "busiest", "busiest, threads"),
            *("all", "all, threads", "wall", "busiest", "all"),
        ),
        tuple(rows),
    )


if __name__ == "__main__":
    main()
