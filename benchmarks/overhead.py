"""What recording costs: the same training with the setting `trace` on and off.

    python -m benchmarks.overhead [--quick] [--json FILE]

The two run in turn (off on, on off, ...) in the same processes. Each pair gives one
ratio; the median of the ratios says what is lost. The totals of each link are counted
in both cases. Beside it, without the noise of two trainings: the processor time that it
takes to record one step's rows again, by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.problem import stored
from benchmarks.rank_group import RankGroup
from benchmarks.results import Table, arguments, median, report
from benchmarks.tasks import Training, tasks, train

_HOW = {
    f"{topology}, trace {word}": Training(topology, trace=word == "on")
    for topology in ("ring", "ps")
    for word in ("off", "on")
}


def compare(
    models: Sequence[str], steps: int, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Return the rates of all rounds: model -> topology and trace -> list."""
    result: dict[str, dict[str, list[float]]] = {name: {} for name in models}
    with tasks() as on:
        for name in models:
            with stored(name) as problem:
                for turn in range(rounds + 1):
                    rates = _turn(on, problem, steps, in_order=turn % 2 == 1)
                    if turn:  # the first one warms up
                        for how, rate in rates.items():
                            result[name].setdefault(how, []).append(rate)
    return result


def _turn(on: RankGroup, problem: Path, steps: int, in_order: bool) -> dict[str, float]:
    result = {}
    order = list(_HOW.items())
    for how, training in order if in_order else reversed(order):
        result[how] = train(on, training, problem, steps).rate
        if training.trace:
            result[f"{how}, us"] = max(on.order(do="record")[1:])
    return result


def pairs(rates: dict[str, list[float]], topology: str) -> list[float]:
    """Return the ratios on / off of the rounds.

    >>> pairs({"ps, trace off": [2.0, 4.0], "ps, trace on": [1.0, 4.0]}, "ps")
    [0.5, 1.0]
    """
    on, off = (rates[f"{topology}, trace {word}"] for word in ("on", "off"))
    return [item / other for item, other in zip(on, off, strict=True)]


def _rows(result: dict[str, dict[str, list[float]]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for model, rates in result.items():
        for topology in ("ring", "ps"):
            on, off = (median(rates[f"{topology}, trace {w}"]) for w in ("on", "off"))
            both = pairs(rates, topology)
            alone = median(rates[f"{topology}, trace on, us"])
            cells = [f"{off:.1f}", f"{on:.1f}", f"{median(both):.3f}"]
            cells += [f"{min(both):.3f} to {max(both):.3f}", f"{alone:.1f}"]
            cells += [f"{alone * off / 10_000:.2f} %"]
            rows.append((model, topology, *cells))
    return rows


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, default=300, help="of each training")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 21)
    result = compare(["small"], options.steps, rounds)
    table = Table(
        "Cost of recording, median steps a second",
        ("on / off is the median of the ratios of paired trainings; 1 costs nothing.",),
        (
            *("model", "topology", "trace off", "trace on", "on / off", "all pairs"),
            *("recording us a step", "of a step"),
        ),
        tuple(_rows(result)),
    )
    report(table, {"steps_per_second": result}, options.json)


if __name__ == "__main__":
    main()
