"""How often `run.bottleneck` is right about trainings whose cause is known.

    python -m benchmarks.verdicts [--quick] [--cases N] [--seed N] [--json FILE]

Each case is a training in separate processes with one cause, of a random kind and size:
a worker that computes longer, in all steps or in some, slow data, a costly optimizer,
slow links, one slow link, latency, a validation, more computing tasks than cores, or
nothing but balanced computing. All but the one about cores sleep where they are slow,
so that a busy machine does not add another cause; what it adds all the same is shown as
the verdict says it.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import kit
from benchmarks.results import Table, arguments, report
from kit.machine import cores
from kit.testing.processes import ProcessCluster, process_cluster
from kit.trace.bottleneck import Bottleneck, Cause

_WAIT_S = 120.0
_STEPS = 14
Batch = tuple[np.ndarray[Any, Any], ...]


# --------------------------------------------------------------------------------------
# What is put into a training. Times are milliseconds.


@dataclass(frozen=True)
class Slowness:
    """How long the parts of a step take; sleeps, but for `spins`."""

    compute: float = 10.0
    worker: int = -1  # this one computes `longer`, and loads `late`
    longer: float = 0.0
    load: float = 0.0
    late: float = 0.0
    apply: float = 0.0  # for all parameters together
    spins: float = 0.0  # of a core's time
    between: float = 0.0  # a hook, after each step
    now_and_then: float = 0.0  # any worker computes `longer` in so many of its steps


class Numbered:
    """One worker's mini-batches: its number, after a time."""

    def __init__(self, slow: Slowness, worker: int) -> None:
        self._slow, self._worker = slow, worker

    def batch(self, step: int) -> Batch:
        """Return the number of the worker, as an array."""
        late = self._slow.late if self._worker == self._slow.worker else 0.0
        _sleep(self._slow.load + late)
        return (np.array([self._worker]),)

    def examples(self, step: int) -> int:
        """Return 1."""
        return 1


@dataclass(frozen=True)
class SlowData:
    """Data that know which worker reads them."""

    slow: Slowness

    def source(self, batch: int, seed: int, worker: int, n_workers: int) -> Numbered:
        """Return the source of a worker."""
        return Numbered(self.slow, worker)


@dataclass(frozen=True)
class SlowDescent:
    """Gradient descent that takes so many milliseconds for each byte."""

    ms_per_byte: float

    @property
    def slots(self) -> tuple[Any, ...]:
        """No slots."""
        return ()

    def apply(
        self, parameter: Any, gradient: Any, slots: Any, out: Any, step: int
    ) -> None:
        """Move against the gradient."""
        _sleep(self.ms_per_byte * parameter.nbytes)
        np.subtract(parameter, np.multiply(gradient, 0.01), out=out)


class Validating(kit.hooks.ValidationHook):
    """A validation that takes its time, every second step."""

    def __init__(self, slow: Slowness) -> None:
        """Take twice as long as a step is to wait on average."""

        def measure(params: Any, data: Any) -> float:
            _sleep(2 * slow.between)
            return 1.0

        super().__init__(measure, None, every=2)


def step_function(slow: Slowness) -> Callable[..., Any]:
    """Return a step that takes as long as given."""

    def step(params: Any, batch: Batch, rng: np.random.Generator) -> Any:
        (number,) = batch
        is_slow = (
            rng.random() < slow.now_and_then
            if slow.now_and_then
            else int(number[0]) == slow.worker
        )
        _sleep(slow.compute + (slow.longer if is_slow else 0.0))
        end = time.thread_time() + slow.spins / 1000
        while time.thread_time() < end:
            pass
        return 1.0, {name: np.ones_like(value) for name, value in params.items()}

    return step


def _sleep(ms: float) -> None:
    if ms > 0:
        time.sleep(ms / 1000)


# --------------------------------------------------------------------------------------
# Random cases.


class Case(NamedTuple):
    """A training, and what makes it slow."""

    cause: Cause
    task: str  # the task that must be named; "" if none
    n_workers: int
    slow: Slowness
    n_bytes: int
    topology: str = "ps"
    link: str = ""
    hosts: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What it is, for the table."""
        link = f" at {self.link}" if self.link else ""
        return f"{self.cause.value} ({self.topology}{link}, {self.n_workers} workers)"


def worker_case(dice: random.Random) -> Case:
    n, compute = dice.choice((2, 3, 4)), dice.uniform(20, 50)
    slow = Slowness(compute, dice.randrange(n), compute * dice.uniform(0.6, 2.0))
    topology, name = _any(dice), f"worker:{slow.worker}"
    return Case(Cause.WORKER, name, n, slow, dice.randrange(1, 200) * 1000, topology)


def _straggler(dice: random.Random) -> Case:
    n, compute = dice.choice((2, 3, 4)), dice.uniform(20, 40)
    slow = Slowness(
        compute,
        longer=compute * dice.uniform(4, 8),
        now_and_then=dice.uniform(0.2, 0.3),
    )
    size = dice.randrange(1, 200) * 1000
    return Case(Cause.STRAGGLER, "", n, slow, size, _any(dice))


def _data(dice: random.Random) -> Case:
    n, load = dice.choice((2, 3, 4)), dice.uniform(40, 80)
    size, topology = dice.randrange(1, 200) * 1000, _any(dice)
    if dice.random() < 0.5:
        worker = dice.randrange(n)
        slow = Slowness(dice.uniform(10, 40), worker, late=load)
        return Case(Cause.DATA, f"worker:{worker}", n, slow, size, topology)
    return Case(Cause.DATA, "", n, Slowness(load=load), size, topology)


def _update(dice: random.Random) -> Case:
    n, topology = dice.choice((2, 3, 4)), dice.choice(("ps", "ps", "ring"))
    share = n if topology == "ring" else 1  # each worker updates its part
    slow = Slowness(dice.uniform(10, 30), apply=share * dice.uniform(40, 80))
    name = "ps:0" if topology == "ps" else ""
    return Case(Cause.UPDATE, name, n, slow, dice.randrange(20, 200) * 1000, topology)


def _link(dice: random.Random) -> Case:
    n, n_bytes = dice.choice((2, 3, 4)), dice.randrange(100, 400) * 1000
    ms = dice.uniform(20, 40)  # for all parameters, once over a line
    link, slow = f"{n_bytes * 8 / ms / 1000:.0f}mbit", Slowness(dice.uniform(10, 20))
    if dice.random() < 0.5:
        return Case(Cause.LINK, "", n, slow, n_bytes, _any(dice), link)
    hosts = ("here",) * n + ("there",)  # the last worker has a slow link to the others
    return Case(Cause.LINK, "", n, slow, n_bytes, "ps", link, hosts)


def _latency(dice: random.Random) -> Case:
    n, size = dice.choice((2, 3, 4)), dice.randrange(1, 8) * 1000
    slow, link = Slowness(dice.uniform(5, 15)), f"{dice.uniform(20, 40):.0f}ms"
    return Case(Cause.LATENCY, "", n, slow, size, _any(dice), link)


def _cores(dice: random.Random) -> Case:
    slow = Slowness(0.0, spins=dice.uniform(10, 20))
    size = dice.randrange(1, 100) * 1000
    return Case(Cause.CORES, "", max(4, 2 * cores()), slow, size, _any(dice))


def _compute(dice: random.Random) -> Case:
    n, slow = dice.choice((2, 3, 4)), Slowness(dice.uniform(80, 120))
    return Case(Cause.COMPUTE, "", n, slow, dice.randrange(1, 200) * 1000, _any(dice))


def _hooks(dice: random.Random) -> Case:
    n, compute = dice.choice((2, 3, 4)), dice.uniform(10, 30)
    slow = Slowness(compute, between=dice.uniform(40, 80))
    size, topology = dice.randrange(1, 200) * 1000, _any(dice)
    return Case(Cause.HOOKS, "worker:0", n, slow, size, topology)


def _any(dice: random.Random) -> str:
    return dice.choice(("ps", "ring", "mesh"))


_KINDS = (
    *(worker_case, _straggler, _data, _update, _link, _latency, _cores, _compute),
    _hooks,
)


def cases(n_cases: int, seed: int) -> Iterator[Case]:
    """Yield random cases, of all kinds in turn."""
    dice = random.Random(seed)
    for number in range(n_cases):
        yield _KINDS[number % len(_KINDS)](dice)


# --------------------------------------------------------------------------------------
# Run them, and compare.


def run_case(case: Case, cluster: ProcessCluster, steps: int = _STEPS) -> Bottleneck:
    """Train, and return the verdict."""
    cluster.hosts = case.hosts
    slow = case.slow
    optimizer: Any = kit.GradientDescent(0.01)
    if slow.apply:
        optimizer = SlowDescent(slow.apply / case.n_bytes)
    run = kit.train(
        step_function(slow),
        {"w": np.zeros(case.n_bytes // 4, np.float32)},
        SlowData(slow),
        optimizer=optimizer,
        topology=case.topology,
        link=case.link,
        steps=steps,
        batch=case.n_workers,
        cluster=cluster,
        hooks=[Validating(slow)] if slow.between else [],
    )
    return run.wait(_WAIT_S).bottleneck


def is_right(case: Case, verdict: Bottleneck) -> bool:
    """Whether a verdict names the cause, and the task where one is to be named."""
    if case.cause is not verdict.cause:
        return False
    if case.hosts:
        return f"worker:{case.n_workers - 1}" in verdict.link
    return not case.task or case.task == verdict.task


def judge(chosen: Sequence[Case]) -> list[tuple[Case, Bottleneck]]:
    """Run cases, those of one size on one cluster; in their order."""
    with ExitStack() as stack:
        clusters: dict[int, ProcessCluster] = {}
        result = []
        for case in chosen:
            n = case.n_workers
            if n not in clusters:
                clusters[n] = stack.enter_context(process_cluster(1, n))
            verdict = run_case(case, clusters[n])
            result.append((case, verdict))
            mark = "right" if is_right(case, verdict) else "WRONG"
            print(f"{mark}: {case.words}: {verdict}", flush=True)
        return result


def main() -> None:
    """Run the cases, print how many verdicts were right, write the figures."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--cases", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    n_cases = options.cases or (14 if options.quick else 100)
    result = judge(list(cases(n_cases, options.seed)))
    figures = [
        {
            "case": case._asdict()
            | {"cause": case.cause.value, "slow": vars(case.slow)},
            "verdict": item.cause.value,
            "task": item.task,
            "said": str(item),
            "right": is_right(case, item),
        }
        for case, item in result
    ]
    report(_table(result), {"cases": figures}, options.json)


def _table(result: Sequence[tuple[Case, Bottleneck]]) -> Table:
    right, whole = Counter[str](), Counter[str]()
    for case, item in result:
        whole[case.cause.value] += 1
        right[case.cause.value] += is_right(case, item)
    unknown = sum(each.cause is Cause.NONE for _, each in result)
    rows = [(name, str(n), str(right[name])) for name, n in whole.items()]
    rows.append(("all", str(whole.total()), str(right.total())))
    notes = (
        "Trainings in processes of their own with one cause each, drawn at random. A "
        "verdict is right if it names the cause, and the task or link where there is "
        f"one. Of the others, {unknown} said that there was no clear cause. The load "
        f"was {os.getloadavg()[1]:.1f} on {cores()} cores: above two on each, whatever "
        "else runs is a cause as well.",
    )
    return Table("Verdicts", notes, ("cause", "cases", "right"), tuple(rows))


if __name__ == "__main__":
    main()
