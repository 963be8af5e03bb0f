"""The demonstration from start to end: train, check, print, write the files."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kit.cluster import Cluster
from kit.demo import phases, placed, recovered
from kit.demo.digits import digits_mlp
from kit.demo.phases import DemoPhase, Training
from kit.demo.placed import Replicated
from kit.demo.recovered import Recovered
from kit.demo.text import text_model
from kit.errors import InvalidArgumentError, NotFoundError
from kit.trace.file import write_atomically
from kit.training.client.run import view
from kit.wire.shaping import LinkSettings

_GOOD_ACCURACY = 0.96
_ENOUGH_STEPS = 300  # fewer do not learn the digits
_TRAINER_STEPS, _SAVE_EVERY = 1000, 100


@dataclass(frozen=True)
class DemoOptions:
    """The options of the command line."""

    ps: int = 1
    worker: int = 3
    steps: int = 600
    text_steps: int = 24
    link: str = "1gbit"
    seed: int = 0
    out: Path = Path("build/demo")
    json: Path | None = None


def show(options: DemoOptions) -> int:
    """Run the demonstration; return the exit code, 0 if all promises were kept."""
    check(options)
    began = time.perf_counter()
    print(f"Starting {options.ps} ps and {options.worker} workers ...", flush=True)
    with Cluster(ps=options.ps, worker=options.worker) as cluster:
        summary = repr(cluster).strip("<>")
        print(f"  {summary} after {time.perf_counter() - began:.1f} s\n")
        trainings = _train(cluster, options)
        replicated = _replicate(cluster, options)
    recoveries = _recover(options)
    switched, unswitched, text = trainings
    problems = _problems(options, switched, unswitched, text)
    problems += placed.problems(replicated)
    problems += [
        wrong for recovery in recoveries for wrong in recovered.problems(recovery)
    ]
    rows = [row for training in trainings for row in phases.phase_rows(training)]
    traffic = [
        row for training in (switched, text) for row in phases.traffic_rows(training)
    ]
    print(_table("\nWhat the trainings did", rows))
    print(_table("\nBytes a step (measured, and by formula)", traffic))
    for key, table in _placed(replicated).items():
        print(_table(f"\n{_TITLES[key]}", table))
    _tell(problems)
    notes = problems or [_PROMISE, *(recovery.sentence for recovery in recoveries)]
    _write(options, (switched, text), rows, notes)
    if options.json:
        tables = {"phases": rows, "traffic": traffic, **_placed(replicated)}
        tables["recovered"] = [recovery.to_plain() for recovery in recoveries]
        _write_json(options, tables, problems)
    print(f"\n{time.perf_counter() - began:.0f} s in all.")
    return 1 if problems else 0


def check(options: DemoOptions) -> None:
    """Refuse impossible options before anything is started."""
    LinkSettings.parse(options.link)
    if options.steps < 1 or options.text_steps < 1:
        raise InvalidArgumentError(
            f"{options.steps} and {options.text_steps} steps are too few; give 1 or "
            f"more of each."
        )


def _train(
    cluster: Cluster, options: DemoOptions
) -> tuple[Training, Training, Training]:
    model, seed = digits_mlp(options.seed), options.seed
    through = phases.thirds(options.steps) if options.ps else _ring(options.steps)
    print("1. Handwritten digits, switched twice while training")
    switched = phases.digits(cluster, model, through, seed, "digits")
    print("   the same training, never switched")
    never = [DemoPhase(through[0].topology, 0, options.steps)]
    unswitched = phases.digits(cluster, model, never, seed, "digits, unswitched")
    larger = text_model(options.seed)
    size = sum(value.nbytes for value in larger.params.values()) / 2**20
    print(f"2. Next characters of Python source, {size:.1f} MiB, links {options.link}")
    both = (
        phases.halves(options.text_steps) if options.ps else _ring(options.text_steps)
    )
    text = phases.text(cluster, larger, both, seed, options.link)
    return switched, unswitched, text


def _replicate(cluster: Cluster, options: DemoOptions) -> list[Replicated]:
    """Train the digits as a graph too; without a ps there is nowhere to place them."""
    if not options.ps:
        return []
    print("3. Handwritten digits, a graph over variables placed on the ps")
    steps = max(1, options.steps // 4)
    trainings = placed.train(cluster, digits_mlp(options.seed), steps, options.seed)
    for training in trainings:
        print(
            f"  {training.style:28}{training.steps} updates, {training.seconds:.1f} s"
        )
    return trainings


def _recover(options: DemoOptions) -> list[Recovered]:
    """Kill a parameter server of a program in four processes, if there is to be one."""
    if not options.ps:
        return []
    print(
        "4. Handwritten digits by a program for TensorFlow 1.x, 2 ps and 2 workers in "
        "four\n   processes; one ps is killed on the way",
        flush=True,
    )
    folder = options.out / "trainer"
    recovery = recovered.train(folder, _TRAINER_STEPS, _SAVE_EVERY)
    print(*(f"  {line}" for line in recovery.lines), sep="\n")
    print(f"  what each task said, and its checkpoints: {folder}")
    return [recovery]


def _placed(replicated: list[Replicated]) -> dict[str, list[dict[str, Any]]]:
    if not replicated:
        return {}
    return {
        "placement": placed.placement_rows(replicated[0]),
        "replicated": placed.rows(replicated),
    }


def _ring(steps: int) -> list[DemoPhase]:
    return [DemoPhase("ring", 0, steps)]


def _problems(
    options: DemoOptions, switched: Training, unswitched: Training, text: Training
) -> list[str]:
    problems = [
        sentence
        for training in (switched, unswitched, text)
        for sentence in phases.disagreements(training)
    ]
    bits = phases.differing_bits(switched.run.params, unswitched.run.params)
    if bits:
        problems.append(
            f"the parameters of the switched and of the unswitched training differ in "
            f"{bits} bits."
        )
    assert switched.accuracy is not None
    accuracy = switched.accuracy(switched.run.params)
    if options.steps >= _ENOUGH_STEPS and accuracy < _GOOD_ACCURACY:
        problems.append(
            f"the digits were learned to {accuracy:.3f}, less than {_GOOD_ACCURACY}."
        )
    return problems


def _tell(problems: list[str]) -> None:
    if problems:
        print("\nA promise was broken:")
        print(*(f"  - {problem}" for problem in problems), sep="\n")
        return
    print(f"\n{_PROMISE}")


def _table(title: str, rows: list[dict[str, Any]]) -> str:
    frame = pd.DataFrame(rows).fillna("")
    if "model" in frame:  # its name only in its first row
        frame["model"] = frame["model"].where(~frame["model"].duplicated(), "")
    return f"{title}\n{frame.to_string(index=False, float_format='{:,.6g}'.format)}"


def _write(
    options: DemoOptions,
    trainings: tuple[Training, Training],
    rows: list[dict[str, Any]],
    notes: list[str],
) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    files = [options.out / "trace.json", options.out / "trace-text.json"]
    for path, training in zip(files, trainings, strict=True):
        training.run.trace.save(path)
    report = options.out / "report.html"
    write = view("report")
    if write is None:
        raise NotFoundError(
            "the view 'report' cannot be loaded; install the package: pip install -e ."
        )
    sections = []
    for item in trainings:
        said = _TITLES[item.model], _TEXTS[item.model]
        sections.append((*said, item.run.trace, phases.formula(item.run)))
    write(report, sections, rows, notes)
    names = ", ".join(str(path) for path in (report, *files))
    print(f"\nWritten: {names}")
    print("Open the report in a browser, the traces at https://ui.perfetto.dev.")


def _write_json(
    options: DemoOptions, tables: dict[str, list[dict[str, Any]]], problems: list[str]
) -> None:
    assert options.json is not None
    plain = {
        "options": {name: str(value) for name, value in asdict(options).items()},
        "python": platform.python_version(),
        "machine": platform.machine(),
        **tables,
        "problems": problems,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.json, [json.dumps(plain, indent=2), "\n"])


_PROMISE = (
    "Every measured byte agrees with the formulas, and the parameters are the same to "
    "the last bit whether the training was switched or not."
)
_TITLES = {
    "digits": "Handwritten digits: one training, two switches",
    "text": "Next characters of Python source: the links are the bottleneck",
    "placement": "Where the variables are",
    "replicated": "What the graphs did (bytes measured, and by formula)",
}
_TEXTS = {
    "digits": "A perceptron learns 1,438 images, synchronously. The gradients meet at "
    "the parameter server, then on the ring, then at the server again, without a "
    "restart. The loss goes on as if nothing had happened, because the result does not "
    "depend on the topology.",
    "text": "A model of 2.3 million parameters on links of limited speed. At the "
    "server every worker's gradient passes one line, one after the other; on the ring "
    "all lines work at once.",
}
