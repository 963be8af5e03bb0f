"""All-reduce of one float32 array on one host, against MPI, Gloo and a memory copy.

Over memory that members share, and on the loopback interface over TCP, records of
AES-GCM (what data links between hosts carry) and TLS.

    python -m benchmarks.allreduce [--quick] [--json FILE] [--python PATH]...

The time of one exchange goes from the last rank's arrival to the last rank's finish;
the table has medians over all rounds. How to read it: see README.md beside this file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.allreduce_links import introduce
from benchmarks.peers import PEERS, Peer, find_peers
from benchmarks.rank_group import RankGroup, RanksFailed, rank_group
from benchmarks.results import Table, arguments, median, ratio, report, size_text

_RANK = "benchmarks.allreduce_rank"
_SIZES = [1 << shift for shift in range(12, 27, 2)]
_QUICK_SIZES = [1 << 12, 1 << 18, 1 << 20, 1 << 24]
_LEAST, _BUDGET_BYTES = 3, 1 << 25  # repeats a round: at least; together so many bytes
_MOST = 200
OURS = ("ring", "mesh", "ring-step", "ps")
MEMORY, TCP, MPI = "memory", "tcp", "mpi"  # what an exchange goes over
STREAMS = (TCP, "aes-gcm", "tls", MPI)
BESIDE_TCP = ("ring", "ring-step")  # whose times are divided by those over TCP
STREAMED = (  # what goes over streams; "bytes" are those of a ring, unsummed
    *("bytes tcp", "ring tcp", "mesh tcp", "ring-step tcp"),
    *("bytes aes-gcm", "ring aes-gcm", "ring-step aes-gcm"),
    *("bytes tls", "ring tls"),
    *("ring mpi", "ring-step mpi"),
)


@contextmanager
def _start(
    system: str, n: int, peers: dict[str, Peer], checksum: bool
) -> Iterator[RankGroup]:
    """Give the rank group of a system; a parameter server is one process more."""
    is_over_mpi = system.endswith(f" {MPI}")
    peer = own_mpi(peers) if is_over_mpi else peers.get(system)
    launcher = peer.launcher(n) if peer else None
    if peer is None or launcher is None:
        python = {"python": peer.python} if peer else {}
        extra = 1 if system == "ps" else 0
        with rank_group(system, _RANK, n + extra, system, **python) as started:
            if system in STREAMED:
                introduce(started, system.split()[1], checksum=checksum)
            yield started
        return
    with RankGroup(system, n) as started:
        name = system if is_over_mpi else MPI
        started.start([*launcher, peer.python, "-m", _RANK, "-1", str(n), name])
        started.gather()
        if is_over_mpi:
            introduce(started, TCP, checksum=checksum)
        yield started


def own_mpi(peers: dict[str, Peer]) -> Peer | None:
    """Return the MPI of this interpreter, over which our ring can go; None without."""
    own = (peer for peer in peers.values() if peer.python == sys.executable)
    return next((peer for peer in own if peer.name in PEERS[1:]), None)


def _values(system: str, n: int) -> list[float]:
    """Return what each rank brings: a different number, none from a server."""
    return [0.0] * (system == "ps") + [float(rank + 1) for rank in range(n)]


def check(system: str, n: int, result: list[float]) -> None:
    expected = [(n + 1) / 2] * n
    if system == "copy":
        expected = [float(rank + 1) for rank in range(n)]
    if system.startswith("bytes "):  # what the rank before has
        expected = [float(rank or n) for rank in range(n)]
    if result[-n:] != expected:
        raise RanksFailed(f"{system}: the exchange gave {result}, not {expected}.")


def durations(system: str, n: int, times: list[list[list[int]]]) -> list[float]:
    """Return the microseconds of each exchange, from all ranks' begins and ends."""
    result = []
    for repeat in zip(*times[-n:], strict=True):  # a server's own times do not count
        begins, ends = zip(*repeat, strict=True)
        if system == "copy":  # nobody waits for anybody
            took = max(end - begin for begin, end in repeat)
        else:
            took = max(ends) - max(begins)
        result.append(took / 1000)
    return result


def compare(
    n: int,
    sizes: list[int],
    rounds: int,
    peers: dict[str, Peer],
    streamed: Sequence[str] = STREAMED,
    *,
    checksum: bool = True,
) -> dict[int, dict[str, list[float]]]:
    """Return the microseconds of all exchanges: size -> system -> list."""
    result: dict[int, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        systems = ["copy", *OURS, *streamed, *peers]
        if own_mpi(peers) is None:
            systems = [name for name in systems if not name.endswith(f" {MPI}")]
        groups = [
            stack.enter_context(_start(name, n, peers, checksum)) for name in systems
        ]
        for size in sizes:
            result[size] = {item.name: [] for item in groups}
            for group in groups:
                values = _values(group.name, n)
                came = group.order(do="prepare", n_bytes=size, values=values)
                check(group.name, n, came)
            repeats = min(_MOST, max(_LEAST, _BUDGET_BYTES // size))
            for group in groups:  # warm up
                group.order(do="measure", repeats=max(_LEAST, repeats // 4))
            for _ in range(rounds):
                for group in groups:
                    times = group.order(do="measure", repeats=repeats)
                    result[size][group.name] += durations(group.name, n, times)
            for group in groups:
                check(group.name, n, group.order(do="look"))
    return result


def row(n: int, over: str, size: int, took: dict[str, list[float]]) -> tuple[str, ...]:
    """Return the cells of one size, over memory or over one kind of streams."""
    of = {name: median(values) for name, values in took.items()}
    is_memory = over == MEMORY
    limit, *ours = (
        of.get(name if is_memory else f"{name} {over}", float("nan"))
        for name in ("copy" if is_memory else "bytes", *OURS)
    )
    own = dict(zip(OURS, ours, strict=True))
    peers = {name: of[name] for name in PEERS if name in of and _meets(name, over)}
    mpi = min(
        (peers[item] for item in PEERS[1:] if item in peers), default=float("nan")
    )
    gloo = peers.get("gloo", float("nan"))
    nan = float("nan")
    ratios = [(own["ring"], limit)]
    ratios += [(own[name], of.get(f"{name} {TCP}", nan)) for name in BESIDE_TCP]
    ratios += [(mpi, own["ring"]), (mpi, own["mesh"])]
    ratios += [(gloo, own["ring"]), (gloo, own["ring-step"])]
    return (
        *(str(n), over, size_text(size)),
        *("-" if value != value else f"{value:.1f}" for value in (limit, *ours)),
        *(_cell(name, over, of) for name in PEERS),
        *(ratio(above, below) for above, below in ratios),
    )


def _meets(peer: str, over: str) -> bool:
    """Whether a peer does the same over it: Gloo always uses TCP, MPI the memory."""
    return peer == "gloo" or over == MEMORY


def _cell(peer: str, over: str, of: dict[str, float]) -> str:
    if not _meets(peer, over):
        return "-"
    return f"{of[peer]:.1f}" if peer in of else "missing"


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--members", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", metavar="BYTES")
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--over",
        nargs="+",
        choices=(MEMORY, *STREAMS),
        default=STREAMS,
        help="memory, which is always there, or streams beside it",
    )
    parser.add_argument(
        "--no-checksum",
        action="store_true",
        help="over streams as with settings(checksum=False)",
    )
    options = parser.parse_args()
    sizes = options.sizes or (_QUICK_SIZES if options.quick else _SIZES)
    rounds = options.rounds or (3 if options.quick else 15)
    peers = find_peers(options.python)
    checksum = not options.no_checksum
    result = {
        n: compare(
            *(n, sizes, rounds, peers, streamed(n, options.over, options.quick)),
            checksum=checksum,
        )
        for n in options.members
    }
    rows = [
        row(n, over, size, took)
        for over in (MEMORY, *STREAMS)
        for n, by_size in result.items()
        for size, took in by_size.items()
        if over == MEMORY or f"ring {over}" in took
    ]
    report(table(rows, peers, checksum), {"microseconds": result}, options.json)


def streamed(n: int, over: Sequence[str], quick: bool) -> Sequence[str]:
    """Return what goes over streams: nothing in the short form of many members."""
    wanted = () if quick and n > 2 else over
    return [name for name in STREAMED if name.split()[1] in wanted]


def table(rows: list[tuple[str, ...]], peers: dict[str, Peer], checksum: bool) -> Table:
    frames = "with checksums, as by default" if checksum else "without checksums"
    versions = ", ".join(f"{peer.name} {peer.version}" for peer in peers.values())
    return Table(
        "All-reduce on one host, median microseconds",
        (
            "ring and mesh sum in place, in memory that members share; the peers sum "
            "in place in private arrays. ring-step and ps do what a training does: the "
            "mean goes into a second array. ps has one process more. limit: every rank "
            "copies its array once, all together.",
            "Over tcp, aes-gcm and tls: as between hosts, on the loopback interface, "
            f"{frames} over tcp. There limit sends the bytes of a ring through the "
            "same streams, bare, and sums nothing. Over mpi: the same frames, as "
            "messages of MPI. Gloo always uses TCP without TLS; MPI's own sum was "
            "given memory, so it has no place there.",
            f"Peers found: {versions or 'none'}. The last seven columns are ratios of "
            "times of this run.",
        ),
        (
            *("members", "over", "size", "limit", *OURS, *PEERS),
            *("ring / limit", *(f"{item} / {item} over tcp" for item in BESIDE_TCP)),
            *("best MPI / ring", "best MPI / mesh"),
            *("Gloo / ring", "Gloo / ring-step"),
        ),
        tuple(rows),
    )


if __name__ == "__main__":
    main()
