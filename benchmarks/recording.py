"""What a recording costs: the same training with and without `record=`.

    python -m benchmarks.recording [--quick] [--json FILE]

The digits model with four tasks, each in a separate process. The two are trained in
turn (without with, with without, ...); each pair gives one ratio of step rates. Beside
it: the bytes of a recording, how fast a replay is, and how long it takes to compute
steps chosen at random from the newest kept state before them.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import psutil

import kit
from benchmarks.results import Table, arguments, median, report, size_text
from kit.demo.digits import DigitsMlp, digits_mlp
from kit.testing.processes import process_cluster

TOPOLOGIES = ("ps", "ring")
GOAL, MOST_MIB, N_SEEKS = 0.95, 50, 5


def rate(run: kit.Run) -> float:
    """Return steps a second after the first tenth, which warms up."""
    steps = run.trace.steps
    steps = steps[(steps["examples"] > 0) & (steps["step"] >= run.step // 10)]
    seconds = int(steps["end"].max() - steps["start"].min()) * 1e-9
    return float(run.step - run.step // 10) / seconds


def processor_s(processes: list[psutil.Process]) -> float:
    """Return the seconds that this process and others have computed so far."""
    times = [process.cpu_times() for process in processes]
    return time.process_time() + sum(item.user + item.system for item in times)


def compare(topology: str, steps: int, rounds: int) -> dict[str, list[float]]:
    """Return the figures of all rounds: rates, bytes, and seconds of replays."""
    model = digits_mlp()
    result: dict[str, list[float]] = {
        name: []
        for name in ("off", "on", "cpu off", "cpu on", "bytes", "replay", "seek")
    }
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as parent,
        process_cluster(ps=1, worker=3) as cluster,
    ):
        tasks = psutil.Process().children(recursive=True)
        for turn in range(rounds + 1):
            for name in ("off", "on") if turn % 2 else ("on", "off"):
                folder = Path(parent) / f"{topology}-{turn}"
                before = processor_s(tasks)
                run = kit.train(
                    DigitsMlp.step,
                    model.params,
                    model.train,
                    optimizer=kit.Adam(0.003),
                    topology=topology,
                    batch=96,
                    steps=steps,
                    record=folder if name == "on" else None,
                    cluster=cluster,
                ).wait()
                if turn:  # the first one warms up
                    result[name].append(rate(run))
                    result[f"cpu {name}"].append(processor_s(tasks) - before)
        replayed(folder, result, model)
    return result


def replayed(folder: Path, figures: dict[str, list[float]], model: DigitsMlp) -> None:
    """Add what the last recording takes, and how fast it is computed again."""
    sizes = (path.stat().st_size for path in folder.iterdir())
    figures["bytes"].append(float(sum(sizes)))
    step, data = DigitsMlp.step, model.train
    begin = time.perf_counter()
    whole = kit.replay(folder, step=step, data=data)
    figures["replay"].append(whole.step / (time.perf_counter() - begin))
    dice = random.Random(0)
    for _ in range(N_SEEKS):
        begin = time.perf_counter()
        kit.replay(folder, dice.randrange(whole.step), step=step, data=data)
        figures["seek"].append(time.perf_counter() - begin)


def rows(results: dict[str, dict[str, list[float]]]) -> tuple[tuple[str, ...], ...]:
    """Return a row of cells for each topology."""
    table = []
    for topology, figures in results.items():
        pairs = zip(figures["on"], figures["off"], strict=True)
        ratios = [on / off for on, off in pairs]
        cells = [f"{median(figures[word]):.0f}" for word in ("off", "on")]
        cells += [f"{median(ratios):.3f}", f"{min(ratios):.3f} to {max(ratios):.3f}"]
        spent = [median(figures[f"cpu {word}"]) for word in ("off", "on")]
        cells += [f"{spent[0]:.2f} s, {spent[1]:.2f} s"]
        cells += [size_text(int(figures["bytes"][0])), f"{figures['replay'][0]:.0f}"]
        cells += [f"{median(figures['seek']):.2f} s, {max(figures['seek']):.2f} s"]
        table.append((topology, *cells))
    return tuple(table)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, default=600, help="of each training")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 15)
    result = {item: compare(item, options.steps, rounds) for item in TOPOLOGIES}
    table = Table(
        f"Cost of a recording of {options.steps} steps of the digits model",
        (
            f"with / without is the median of the ratios of paired trainings; the goal "
            f"is {GOAL} or more, and {MOST_MIB} MiB at most. 1 server, 3 workers.",
        ),
        (
            *("topology", "steps a second without", "with", "with / without"),
            *(
                "all pairs",
                "processor time without, with",
                "recording",
                "replayed steps a second",
            ),
            "to a step at random: median, longest",
        ),
        rows(result),
    )
    report(table, {"figures": result}, options.json)


if __name__ == "__main__":
    main()
