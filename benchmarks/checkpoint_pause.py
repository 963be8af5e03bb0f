"""How long a training stands still for a checkpoint, beside one copy of its parameters.

    python -m benchmarks.checkpoint_pause [--quick] [--json FILE] [--sizes BYTES ...]

Two workers in separate processes train over a ring, with momentum; each owns half
of the parameters and of the slots, so in a save each copies as many bytes as there are
parameters. The pause is the time between two steps where a save is due, less the usual
time between two steps. In each step each worker also copies all parameters once, by
`np.copyto`, and reports how long that took as its loss: so both are of the same steps,
in the same processes, on the same memory.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kit
from benchmarks.results import Table, arguments, median, ratio, report, size_text
from kit.settings import settings
from kit.testing.processes import process_cluster
from kit.trace.trace import Trace

SIZES = (1 << 20, 16 << 20, 128 << 20)
EVERY = 8
_WAIT_S = 580.0


class Measured(NamedTuple):
    """Seconds of one training, and what came of its saves."""

    pauses: list[float]  # at the steps where a save is due, of the slower worker
    copies: list[float]  # of all parameters, in each step, of the slower worker
    steps: list[float]  # how long the steps took outside of saves
    beside: list[float]  # and while a checkpoint was being written
    saved: int
    refused: int


class Copying:
    """A step that times a copy of the parameters; its gradients are ones."""

    def __init__(self) -> None:
        self._mine: dict[str, Any] = {}

    def __call__(self, params: Any, batch: Any, grads: Any) -> float:
        for name, value in params.items():
            if name not in self._mine:
                self._mine[name] = np.zeros_like(value)  # touched, as the scribe's is
            grads[name][...] = 1
        begin = time.perf_counter()
        for name, value in params.items():
            np.copyto(self._mine[name], value)
        return time.perf_counter() - begin


def measure(n_bytes: int, saves: int) -> Measured:
    """Train with so many bytes of parameters until as many saves were due."""
    params = {f"w{i}": np.zeros(n_bytes // 32, np.float32) for i in range(8)}
    rows = np.arange(2.0)
    with tempfile.TemporaryDirectory() as folder, process_cluster(0, 2) as cluster:
        with settings(heartbeat_s=1.0, step_deadline_s=120.0):
            run = kit.train(
                Copying(),
                params,
                (rows,),
                optimizer=kit.Momentum(1e-6),
                topology="ring",
                steps=EVERY * saves + EVERY // 2,
                batch=2,
                cluster=cluster,
                checkpoint=kit.Checkpoints(folder, every_steps=EVERY, keep=2),
            )
        run.wait(_WAIT_S)
        kept = sorted(path.name for path in Path(folder).glob("step-*"))
        if len(kept) < 2 or kit.load_checkpoint(folder).step != run.step:
            raise RuntimeError(
                f"the training has left {kept}, and did {run.step} steps"
            )
        return measured(run.trace)


def measured(trace: Trace) -> Measured:
    """Sort the times of a trace; its loss is the seconds that a copy took."""
    by_task = [trace.steps[trace.steps["task"] == n] for n in range(len(trace.tasks))]
    tables = [np.sort(table, order="step") for table in by_task]
    gaps = np.max([(t["start"][1:] - t["end"][:-1]) * 1e-9 for t in tables], axis=0)
    after = tables[0]["step"][:-1] + 1  # how many steps are done in each gap
    is_due = after % EVERY == 0
    usual = float(np.median(gaps[~is_due]))
    copies = np.max([table["loss"] for table in tables], axis=0)
    start, end = tables[0]["start"], tables[0]["end"]
    beside = np.zeros(len(start), bool)
    for save in trace.saves:
        beside |= (start < save.end) & (end > save.begin)
    took = (end - start) * 1e-9
    failed = sum(bool(save.error) for save in trace.saves)
    return Measured(
        [max(0.0, float(gap) - usual) for gap in gaps[is_due]],
        copies[1:].tolist(),  # the first one touches new pages
        took[1:][~beside[1:]].tolist(),
        took[beside].tolist(),
        len(trace.saves) - failed,
        failed,
    )


def main() -> None:
    """Measure all sizes, print the table, write the figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="BYTES")
    parser.add_argument("--saves", type=int, metavar="N", help="saves of each size")
    options = parser.parse_args()
    sizes = options.sizes or (SIZES[:2] if options.quick else SIZES)
    saves = options.saves or (4 if options.quick else 8)
    result = {size: measure(size, saves) for size in sizes}
    figures = {size_text(size): item._asdict() for size, item in result.items()}
    report(_table(result), figures, options.json)


def _table(result: dict[int, Measured]) -> Table:
    return Table(
        "The pause for a checkpoint",
        (
            "Milliseconds that a training stands still for a save, and those of one "
            "copy of its parameters in the same steps. `beside` are steps that were "
            "made while a checkpoint was written, and all others.",
        ),
        (
            "parameters",
            "saves",
            "pause",
            "longest",
            "copy",
            "pause/copy",
            "beside",
        ),
        tuple(_row(size, item) for size, item in result.items()),
    )


def _row(size: int, item: Measured) -> tuple[str, ...]:
    pause, copy = median(item.pauses), median(item.copies)
    refused = f" ({item.refused} refused)" if item.refused else ""
    return (
        size_text(size),
        f"{item.saved}{refused}",
        _ms([pause]),
        _ms([max(item.pauses)]),
        _ms([copy]),
        ratio(pause, copy),
        f"{_ms(item.beside)} / {_ms(item.steps)}",
    )


def _ms(seconds: Sequence[float]) -> str:
    return f"{median(seconds) * 1e3:.2f}"


if __name__ == "__main__":
    main()
