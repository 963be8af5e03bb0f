"""How much of the exchange is hidden behind the computation, on links of one speed.

    python -m benchmarks.overlap [--quick] [--json FILE] [--link 1gbit]

The model of text hands its gradients over as they are ready, the last layer's first,
and they travel while the rest is computed. Each step of each worker is taken from the
records that every training keeps, the same that `run.trace` shows as a timeline. The
limit is the longer of two times: what the worker computed, and what the bytes of the
busiest task take on its link at full speed. Buckets of half a mebibyte keep such links
busier than the larger ones that are best on one host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from benchmarks.problem import stored
from benchmarks.results import Table, arguments, median, ratio, report
from benchmarks.tasks import Training, begin, tasks
from kit.wire.shaping import LinkSettings

Stretch = tuple[int, int]  # nanoseconds of the machine's clock: begin, end
TOPOLOGIES = ("ring", "mesh", "ps")
_WARM = 3  # steps that do not count


class Step(NamedTuple):
    """One step of one worker, in nanoseconds.

    `transfer` is the time in which something was on its way to it or from it, `both`
    the part of that in which it computed.
    """

    compute: int
    transfer: int
    both: int
    whole: int


def union(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the same time as stretches that do not touch each other, in order.

    >>> union([(5, 7), (0, 2), (1, 3)])
    [(0, 3), (5, 7)]
    """
    result: list[Stretch] = []
    for begin_, end in sorted(stretches):
        if result and begin_ <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin_, end))
    return result


def length(stretches: Iterable[Stretch]) -> int:
    """Return how long they are together; they must not overlap."""
    return sum(end - begin_ for begin_, end in stretches)


def common(left: Sequence[Stretch], right: Sequence[Stretch]) -> int:
    """Return for how long both were going on.

    >>> common([(0, 3), (5, 7)], [(2, 6)])
    2
    """
    return length(
        (max(a[0], b[0]), min(a[1], b[1]))
        for a in left
        for b in right
        if max(a[0], b[0]) < min(a[1], b[1])
    )


def steps_of(rows: list[dict[str, Any]], worker: int) -> dict[int, Step]:
    """Return the steps of the member `worker` out of all members' records.

    Of each row: its "computed" and its "steps" as (step, begin, end), and "moved" as
    (source, step, begin, end, bytes), which are the payloads that it received.
    """
    result = {}
    mine = rows[worker]
    for step, begun, ended in mine["steps"]:
        computed = union((a, b) for n, a, b in mine["computed"] if n == step)
        moved = union(
            (max(a, begun), min(b, ended))
            for member, row in enumerate(rows)
            for source, n, a, b, _ in row["moved"]
            if n == step and worker in (member, source) and a < ended and b > begun
        )
        both = common(computed, moved)
        result[step] = Step(length(computed), length(moved), both, ended - begun)
    return result


def busiest(rows: list[dict[str, Any]], step: int) -> int:
    """Return the bytes of the task that sends or receives most in a step."""
    n_bytes = [[0, 0] for _ in rows]
    for member, row in enumerate(rows):
        for source, n, _, _, size in row["moved"]:
            if n == step:
                n_bytes[source][0] += size
                n_bytes[member][1] += size
    return max(map(max, n_bytes))


def measure(
    name: str, how: Training, steps: int, n_workers: int
) -> dict[str, list[float]]:
    """Train and return what each counted step of each worker took, in milliseconds."""
    with stored(name) as problem, tasks(n_workers=n_workers) as on:
        begin(on, how, problem, steps, n_workers)
        on.order(do="finish")
        rows = [row for row in on.order(do="records") if row is not None]
    n_servers = len(rows) - n_workers
    result: dict[str, list[float]] = {part: [] for part in (*Step._fields, "link")}
    for worker in range(n_servers, len(rows)):
        for number, step in steps_of(rows, worker).items():
            if number >= _WARM:
                for part, took in step._asdict().items():
                    result[part].append(took / 1e6)
    bandwidth = LinkSettings.parse(how.link).bandwidth or float("inf")
    result["link"] = [busiest(rows, _WARM) * 8 / bandwidth * 1e3]
    return result


def _row(n_workers: int, topology: str, result: dict[str, list[float]]) -> Any:
    of = {part: median(values) for part, values in result.items()}
    limit = max(of["compute"], of["link"])
    order = ("compute", "link", "transfer", "both", "whole")
    times = [f"{of[part]:.1f}" for part in order]
    return (str(n_workers), topology, *times, ratio(of["whole"], limit))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--model", default="text")
    parser.add_argument("--link", default="1gbit")
    parser.add_argument("--bucket-bytes", type=int, default=1 << 19)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--workers", nargs="+", type=int, default=[2, 3], metavar="N")
    options = parser.parse_args()
    steps = options.steps or (20 if options.quick else 60)
    how = partial(Training, link=options.link, bucket_bytes=options.bucket_bytes)
    result = {
        f"{n}, {topology}": measure(options.model, how(topology), steps, n)
        for n in options.workers
        for topology in TOPOLOGIES
    }
    rows = [
        _row(int(key.split(",")[0]), key.split()[1], of) for key, of in result.items()
    ]
    table = Table(
        f"Overlap on links of {options.link}, milliseconds of a step, medians",
        (
            f"Model: {options.model}. link: the bytes of the busiest task, sent or "
            f"received, at the link's full speed. transfer: something was under way to "
            f"the worker or from it. both: and it computed meanwhile. limit: the "
            f"longer of compute and link. Buckets of {options.bucket_bytes:,} bytes.",
        ),
        (
            *("workers", "topology", "compute", "link", "transfer", "both", "step"),
            "step / limit",
        ),
        tuple(rows),
    )
    report(table, {"milliseconds": result}, options.json)


if __name__ == "__main__":
    main()
