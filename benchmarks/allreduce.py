"""All-reduce of one float32 array on one host, against MPI, Gloo and a memory copy.

    python -m benchmarks.allreduce [--quick] [--json FILE] [--python PATH]...

The time of one exchange goes from the last rank's arrival to the last rank's finish;
the table has medians over all rounds. How to read it: see README.md beside this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.conductor import Crew, CrewFailed, crew
from benchmarks.peers import PEERS, Peer, find_peers
from benchmarks.results import Table, arguments, median, ratio, report, size_text

_RANK = "benchmarks.allreduce_rank"
_SIZES = [1 << shift for shift in range(12, 27, 2)]
_QUICK_SIZES = [1 << 12, 1 << 18, 1 << 20, 1 << 24]
_LEAST, _BUDGET_BYTES = 3, 1 << 25  # repeats a round: at least; together so many bytes
_MOST = 200
OURS = ("ring", "mesh", "ring-step", "ps")


@contextmanager
def _start(system: str, n: int, peers: dict[str, Peer]) -> Iterator[Crew]:
    """Give the crew of a system; a parameter server is one process more."""
    peer = peers.get(system)
    launcher = peer.launcher(n) if peer else None
    if peer is None or launcher is None:
        python = {"python": peer.python} if peer else {}
        extra = 1 if system == "ps" else 0
        with crew(system, _RANK, n + extra, system, **python) as started:
            yield started
        return
    with Crew(system, n) as started:
        started.start([*launcher, peer.python, "-m", _RANK, "-1", str(n), "mpi"])
        started.gather()
        yield started


def _values(system: str, n: int) -> list[float]:
    """Return what each rank brings: a different number, none from a server."""
    return [0.0] * (system == "ps") + [float(rank + 1) for rank in range(n)]


def _check(system: str, n: int, means: list[float]) -> None:
    expected = [float(rank + 1) for rank in range(n)]
    if system != "copy":
        expected = [(n + 1) / 2] * n
    if means[-n:] != expected:
        raise CrewFailed(f"{system}: the exchange gave {means}, not {expected}.")


def _durations(system: str, n: int, times: list[list[list[int]]]) -> list[float]:
    """Return the microseconds of each exchange, from all ranks' begins and ends."""
    found = []
    for repeat in zip(*times[-n:], strict=True):  # a server's own times do not count
        begins, ends = zip(*repeat, strict=True)
        if system == "copy":  # nobody waits for anybody
            took = max(end - begin for begin, end in repeat)
        else:
            took = max(ends) - max(begins)
        found.append(took / 1000)
    return found


def compare(
    n: int, sizes: list[int], rounds: int, peers: dict[str, Peer]
) -> dict[int, dict[str, list[float]]]:
    """Return the microseconds of all exchanges: size -> system -> list."""
    found: dict[int, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        systems = ["copy", *OURS, *peers]
        crews = [stack.enter_context(_start(name, n, peers)) for name in systems]
        for size in sizes:
            found[size] = {one.name: [] for one in crews}
            for one in crews:
                values = _values(one.name, n)
                means = one.order(do="prepare", n_bytes=size, values=values)
                _check(one.name, n, means)
            repeats = min(_MOST, max(_LEAST, _BUDGET_BYTES // size))
            for turn in range(rounds + 1):
                for one in crews:
                    times = one.order(do="measure", repeats=repeats)
                    if turn:  # the first one warms up
                        found[size][one.name] += _durations(one.name, n, times)
    return found


def _row(n: int, size: int, took: dict[str, list[float]]) -> tuple[str, ...]:
    of = {name: median(values) for name, values in took.items()}
    mpi = min((of[name] for name in PEERS[1:] if name in of), default=float("nan"))
    cells = [f"{of[name]:.1f}" if name in of else "missing" for name in PEERS]
    ours = [f"{of[name]:.1f}" for name in ("copy", *OURS)]
    ratios = [
        ratio(of["ring"], of["copy"]),
        ratio(mpi, of["ring"]),
        ratio(mpi, of["mesh"]),
        ratio(of.get("gloo", float("nan")), of["ring"]),
    ]
    return (str(n), size_text(size), *ours, *cells, *ratios)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--members", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", metavar="BYTES")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    sizes = options.sizes or (_QUICK_SIZES if options.quick else _SIZES)
    rounds = options.rounds or (3 if options.quick else 15)
    peers = find_peers(options.python)
    found = {n: compare(n, sizes, rounds, peers) for n in options.members}
    rows = [_row(n, size, took) for n in found for size, took in found[n].items()]
    report(_table(rows, peers), {"microseconds": found}, options.json)


def _table(rows: list[tuple[str, ...]], peers: dict[str, Peer]) -> Table:
    versions = ", ".join(f"{one.name} {one.version}" for one in peers.values())
    return Table(
        "All-reduce on one host, median microseconds",
        (
            "ring and mesh sum in place, in memory that members share; the peers sum "
            "in place in private arrays. ring-step and ps do what a training does: the "
            "mean goes into a second array. ps has one process more. copy: every rank "
            "copies its array once, all together.",
            f"Peers found: {versions or 'none'}. The last four columns are ratios.",
        ),
        (
            *("members", "size", "copy", *OURS, *PEERS),
            *("ring / copy", "best MPI / ring", "best MPI / mesh", "Gloo / ring"),
        ),
        tuple(rows),
    )


if __name__ == "__main__":
    main()
