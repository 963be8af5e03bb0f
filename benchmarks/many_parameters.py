"""What it costs that the same bytes are cut into many parameters.

    python -m benchmarks.many_parameters [--quick] [--json FILE]

Two workers train with a gradient that is ready: what remains of a step is to check it,
to copy it, to exchange and to update. All numbers of parameters are up at the same time
and take turns; a ratio is that of medians to one parameter of the same bytes. `same`
hands over the same arrays in each step, `other` never those of the step before; in
`written` the step function takes `grads` and fills the memory that is exchanged. What
filling it takes is its own, and left out. At the end all parameters must be what so
many steps make of them.
"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.rank_group import RankGroup, RanksFailed, rank_group
from benchmarks.results import Table, arguments, median, ratio, report
from benchmarks.scaling import RANK, times
from benchmarks.scaling_rank import RATE

Steps = dict[str, dict[int, list[float]]]  # what -> number of parameters -> us a step

_BYTES = 4_000_000
_COUNTS, _QUICK_COUNTS = (1, 10, 100, 1_000, 10_000), (1, 10_000)
_WORKERS = 2
_SETS = {"same": 1, "other": 2, "written": 0}  # of arrays, handed over in turn
_QUICK_WORDS = ("other", "written")
_TOPOLOGIES = {"ring": 0, "mesh": 0, "ps": 1}  # and their servers
_WARM_STEPS, _STEPS = 4, 20


def compare(
    counts: tuple[int, ...],
    n_bytes: int,
    rounds: int,
    words: tuple[str, ...] = tuple(_SETS),
) -> Steps:
    """Return the microseconds of all steps."""
    result: Steps = {}
    for topology, n_ps in _TOPOLOGIES.items():
        with ExitStack() as stack:
            groups: dict[int, RankGroup] = {}
            for count in counts:
                starting = rank_group("parameters", RANK, _WORKERS + n_ps, str(n_ps))
                groups[count] = stack.enter_context(starting)
            for word in words:
                what = {"topology": topology, "n_bytes": n_bytes, "sets": _SETS[word]}
                for count, on in groups.items():
                    on.order(do="prepare", n_params=count, **what)
                result[f"{topology}, {word}"] = _take_turns(groups, n_ps, rounds)
    return result


def _take_turns(
    groups: dict[int, RankGroup], n_ps: int, rounds: int
) -> dict[int, list[float]]:
    took: dict[int, list[float]] = {count: [] for count in groups}
    for on in groups.values():
        on.order(do="measure", steps=_WARM_STEPS)
    for _ in range(rounds):
        for count, on in groups.items():
            _, step = times(on.order(do="measure", steps=_STEPS)[n_ps:])
            took[count] += step
    for count, on in groups.items():
        for result in on.order(do="parameters")[n_ps:]:
            check(count, *result)
    return took


def check(count: int, steps: int, least: float, greatest: float) -> None:
    if not least == greatest == 1 - steps * RATE:
        raise RanksFailed(
            f"{steps} steps with {count} parameters made them {least} to {greatest}, "
            f"not {1 - steps * RATE}."
        )


def _row(what: str, took: dict[int, list[float]]) -> tuple[str, ...]:
    of = {count: median(values) for count, values in took.items()}
    first = of[min(of)]
    cells = [f"{value:.0f}" for value in of.values()]
    return (what, *cells, *(ratio(value, first) for value in list(of.values())[1:]))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--bytes", type=int, default=_BYTES)
    options = parser.parse_args()
    counts = _QUICK_COUNTS if options.quick else _COUNTS
    words = _QUICK_WORDS if options.quick else tuple(_SETS)
    rounds = options.rounds or (5 if options.quick else 20)
    result = compare(counts, options.bytes, rounds, words)
    table = Table(
        f"Many parameters, {options.bytes} bytes together, median microseconds a step",
        (
            "Two workers (and a server for ps), a gradient that is ready: handed over "
            "in the same arrays each step or in others, or written by a step function "
            "that takes grads. What is in `written`: to mark and hand out the places, "
            "to look for NaN, the exchange, the update. To fill the places is not; it "
            "is done all at once. The last columns are ratios to one parameter.",
        ),
        ("exchange", *map(str, counts), *(f"{n} / 1" for n in counts[1:])),
        tuple(_row(what, took) for what, took in result.items()),
    )
    report(table, {"microseconds": result}, options.json)


if __name__ == "__main__":
    main()
