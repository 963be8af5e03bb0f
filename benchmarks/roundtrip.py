"""Question and answer between two processes over a link, against a bare socket.

    python -m benchmarks.roundtrip [--quick] [--json FILE]

Up to 4 KiB the answer is as large as the question; beyond, it is 8 bytes, so that the
time is that of one way. All on one host, over unix sockets.
"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.rank_group import rank_group
from benchmarks.results import Table, arguments, median, ratio, report, size_text

SYSTEMS = ("socket", "frames", "messages", "arrays", "loans")
_SIZES = (8, 4096, 1 << 16, 1 << 20, 1 << 23, 1 << 26)
_QUICK_SIZES = (8, 1 << 20, 1 << 26)
_LEAST, _MOST, _BUDGET_BYTES = 3, 1000, 1 << 26  # repeats a round; together so much


def compare(sizes: list[int], rounds: int) -> dict[int, dict[str, list[float]]]:
    """Return the microseconds of all round trips: size -> system -> list."""
    result: dict[int, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        groups = [
            stack.enter_context(rank_group(name, "benchmarks.roundtrip_rank", 2, name))
            for name in SYSTEMS
        ]
        for size in sizes:
            took = result[size] = {name: [] for name in ("copy", *SYSTEMS)}
            repeats = min(_MOST, max(_LEAST, _BUDGET_BYTES // size))
            for turn in range(rounds + 1):
                order = {"n_bytes": size, "repeats": repeats}
                copied = groups[0].order(do="copy", **order)[0]
                times = {c.name: c.order(do="measure", **order)[0] for c in groups}
                for name, values in {"copy": copied, **times}.items():
                    took[name] += values if turn else []  # the first one warms up
    return result


def row_of(size: int, took: dict[str, list[float]]) -> tuple[str, ...]:
    of = {name: median(values) for name, values in took.items()}
    cells = [f"{of[name]:.1f}" for name in ("copy", *SYSTEMS)]
    under = of["socket"]
    ratios = [ratio(of[name], under) for name in ("frames", "messages", "loans")]
    return (size_text(size), *cells, *ratios)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="BYTES")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    sizes = options.sizes or list(_QUICK_SIZES if options.quick else _SIZES)
    result = compare(sizes, options.rounds or (3 if options.quick else 15))
    table = Table(
        "Question and answer over a unix socket, median microseconds",
        (
            "frames: bytes; messages: a dict as JSON and bytes; arrays: one array; "
            "loans: an array, from 256 KiB on in lent memory. socket: sendall and recv "
            "into one buffer that is used again. Above 4 KiB the answer is 8 bytes.",
            "A bare socket is bimodal: some 7 us while both processes share a core, "
            "some 50 when the kernel has put them on two and wakes them each time.",
        ),
        (
            *("size", "copy", *SYSTEMS),
            *("frames / socket", "messages / socket", "loans / socket"),
        ),
        tuple(row_of(size, took) for size, took in result.items()),
    )
    report(table, {"microseconds": result}, options.json)


if __name__ == "__main__":
    main()
