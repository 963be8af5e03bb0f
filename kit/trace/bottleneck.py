"""What makes the newest steps of a trace as long as they are, and what that costs.

Pure. The critical path (`kit.trace.critical_path`) says where the time of a step goes;
here its parts become causes. One is named only if it costs a good part of a step and
clearly more than the next one, else the verdict is that there is no clear cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kit.trace.critical_path import UNKNOWN
from kit.trace.step_times import LEAST_STEPS, Hops, StepTimes, window_of
from kit.trace.traffic import Phase

if TYPE_CHECKING:
    from kit.trace.trace import Trace

_MOST_STEPS = 100
_NAMED = 0.15  # of a step: what costs less is not worth naming
_AHEAD = 1.4  # times the cost of the next cause
_MOSTLY = 0.6  # of the steps: in so many the same worker must be last
_SLOW = 2.0  # times the usual computing of a step: from here on it is a slow one
_BESIDES = 0.05  # of a step: what else messages take is said from here on
_NOW_AND_THEN = 3  # slow steps at least, since one or two may be anything
_QUEUES = 0.1  # of computing: from here on, late messages are due to missing cores too
_WHOLE = 0.5  # of a step: computing of all workers alike, from which it is the cause


class Cause(Enum):
    """What a step waits for."""

    WORKER = "slow worker"
    STRAGGLER = "a worker that is slow now and then"
    LINK = "slow link"
    UPDATE = "slow server or update"
    DATA = "data loading"
    CORES = "too many tasks for the cores"
    LATENCY = "small messages"
    HOOKS = "validation or hooks"
    COMPUTE = "computation, balanced"
    NONE = "no clear cause"


class Bottleneck(NamedTuple):
    """What the steps from `first_step` to `last_step` wait for; `str` is a sentence.

    Attributes
    ----------
    cause : Cause
        Compare it by identity: `verdict.cause is kit.Cause.LINK`.
    task : str
        The task that makes others wait, such as "worker:2"; empty if none does.
    link : tuple of str
        The two ends of a slow link, such as ("worker:2", "ps:0"); else empty.
    cost_ms, step_ms : float
        Milliseconds of a step that the cause takes, and those of a whole step.
    first_step, last_step : int
        The first and the last of these steps; 0 and -1 if there were too few.
    said, help : str
        What is slow, and what would help.
    parts : dict of str to float
        How many milliseconds of a step each activity takes on the critical path, by a
        name such as "computing".
    """

    cause: Cause
    task: str
    link: tuple[str, ...]
    cost_ms: float
    step_ms: float
    first_step: int
    last_step: int
    said: str
    help: str
    parts: Mapping[str, float]

    @property
    def share(self) -> float:
        """The part of a step that the cause takes, 0 to 1."""
        return self.cost_ms / self.step_ms if self.step_ms else 0.0

    @property
    def window(self) -> str:
        """Which steps it is about, in words; empty if there were too few."""
        if self.last_step < self.first_step:
            return ""
        return f"steps {self.first_step:,} to {self.last_step:,}"

    def __str__(self) -> str:
        return f"{self.said} {self.help}".strip()

    def __repr__(self) -> str:
        return f"<Bottleneck {self.cause.value}, {self.window or 'no steps'}: {self}>"


def bottleneck(trace: Trace, most_steps: int = _MOST_STEPS) -> Bottleneck:
    """Return what makes the newest steps of a trace as long as they are.

    It is about at most `most_steps` of the newest configuration, and about fewer if
    they have many messages, so it costs at most some 30 ms. Loading data inside a step
    function counts as computing; only the data source of `kit.train` counts by itself.

    >>> from kit.trace.trace import Trace
    >>> str(bottleneck(Trace(("/job:worker/task:0",))))
    'No clear cause: fewer than 3 whole steps were recorded.'
    """
    window = window_of(trace, most_steps)
    if window is None:
        return _unknown(f"fewer than {LEAST_STEPS} whole steps were recorded.")
    times = StepTimes(trace, window)
    if not times.total:
        return _unknown("what the tasks did was not recorded (settings(trace=False)).")
    return _verdict(times)


def _unknown(why: str) -> Bottleneck:
    said = f"No clear cause: {why}"
    return Bottleneck(Cause.NONE, "", (), 0.0, 0.0, 0, -1, said, "", {})


# --------------------------------------------------------------------------------------
# What the times mean.


@dataclass(frozen=True)
class _Suspect:
    """A cause with what it costs (ns of all steps), and how it is reported."""

    cause: Cause
    ns: float
    tell: Callable[[str], tuple[str, str]]  # "9 ms of a step of 31 ms (29 %)" -> words
    task: str = ""
    link: tuple[str, ...] = ()


def _verdict(account: StepTimes) -> Bottleneck:
    queueing, hops = account.queueing(), account.hops()
    suspects = [
        _worker(account),
        _straggler(account),
        _data(account),
        _cores(account, queueing, hops.late),
        _update(account),
        _line(account, hops),
        _latency(account, hops),
        _hooks(account),
    ]
    suspects.sort(key=lambda cause: -cause.ns)
    most, second = suspects[:2]
    computing = sum(account.path.of(Phase.COMPUTE, Phase.QUEUE).values())
    slow = sum(
        suspect.ns
        for suspect in suspects
        if suspect.cause in (Cause.WORKER, Cause.STRAGGLER)
    )
    # Computing that no worker could avoid by being as fast as the others.
    balanced = computing - sum(queueing.values()) - slow
    parts = _parts(account, queueing, hops)
    if most.ns < _NAMED * account.total and balanced > _WHOLE * account.total:
        # Nothing else costs much, and most of a step is computing by all alike.
        most = _Suspect(Cause.COMPUTE, balanced, _tell_balanced)
    elif most.ns < max(_NAMED * account.total, _AHEAD * second.ns):
        most = _Suspect(Cause.NONE, 0.0, _tell_nothing(parts))
    cost, step = account.ms(most.ns), account.ms(account.total)
    share = cost / step
    said = f"{_ms(cost)} of a step of {_ms(step)} ({share:.0%})".replace("%", " %")
    words = most.tell(said if most.cause is not Cause.NONE else _ms(step))
    window = account.window
    return Bottleneck(
        most.cause,
        most.task,
        most.link,
        cost,
        step,
        window.first,
        window.last,
        *words,
        parts,
    )


def _worker(account: StepTimes) -> _Suspect:
    """Return the worker that computes longest, and how long the others wait for it."""
    times, names = account.own(Phase.COMPUTE), account.names
    n_workers = len(account.workers)
    if n_workers < 2 or account.window.epoch.is_asynchronous:
        return _Suspect(Cause.WORKER, 0.0, _tell_balanced)
    # By the medians: a few steps that take far longer are another cause.
    column = int(np.median(times, axis=0).argmax())
    mine, others = times[:, column], np.delete(times, column, axis=1).mean(axis=1)
    worker = account.workers[column]
    on_path = account.path.of(Phase.COMPUTE)[worker]
    is_last = float((times.argmax(axis=1) == column).mean()) >= _MOSTLY
    wait = float(np.median(mine - others)) * len(times)
    # Steps that do not need it, as with backup workers, do not wait for it.
    ns = min(wait, on_path) if is_last else 0.0
    longer = ns / others.sum() if others.any() else np.inf
    as_long = f"{longer:.0%} longer than".replace("%", " %")
    if longer >= 1:
        as_long = f"{longer + 1:.3g} times as long as"

    def tell(cost: str) -> tuple[str, str]:
        who = "the other waits" if n_workers == 2 else "they wait"
        whom = "the other worker" if n_workers == 2 else "the others"
        return (
            f"{names[worker]} computes {as_long} {whom}; {who} {cost}.",
            "Move it to a faster or less busy machine, give it less to compute, or let "
            "steps go on without the slowest: kit.train(..., aggregate=R).",
        )

    return _Suspect(Cause.WORKER, max(0.0, ns), tell, names[worker])


def _straggler(account: StepTimes) -> _Suspect:
    """Return the workers that compute far longer in some steps, and what that costs."""
    times, n_workers = account.own(Phase.COMPUTE), len(account.workers)
    nobody = _Suspect(Cause.STRAGGLER, 0.0, _tell_balanced)
    if n_workers < 2 or account.window.epoch.is_asynchronous:
        return nobody
    usual = np.median(times, axis=0)
    is_slow = times > _SLOW * usual
    slow_steps, by_worker = is_slow.any(axis=1), is_slow.sum(axis=0)
    n_slow, first = int(slow_steps.sum()), int(by_worker.argmax())
    if n_slow < _NOW_AND_THEN or not usual.all():
        return nobody
    longest = times.max(axis=1)
    others = (times.sum(axis=1) - longest) / (n_workers - 1)
    on_path = sum(account.path.of(Phase.COMPUTE).values())
    ns = min(float((longest - others)[slow_steps].sum()), on_path)
    as_long = float(np.median((times / usual)[is_slow]))
    is_one = by_worker[first] > _MOSTLY * by_worker.sum()
    name = account.names[account.workers[first]] if is_one else ""

    def tell(cost: str) -> tuple[str, str]:
        who = name or "one of the workers"
        return (
            f"Now and then {who} is slow: in {n_slow} of {account.n_steps} steps it "
            f"computes {as_long:.3g} times as long as usual; the others wait "
            f"{cost}.",
            "Let steps go on without the slowest: kit.train(..., topology='ps', "
            f"aggregate={n_workers - 1}), or a smaller number where that is given. Or "
            "look for what disturbs it: other "
            "programs, or steps that do more than others.",
        )

    return _Suspect(Cause.STRAGGLER, max(0.0, ns), tell, name)


def _data(account: StepTimes) -> _Suspect:
    on_path = account.path.of(Phase.LOAD)
    means = account.own(Phase.LOAD).mean(axis=0)
    task = ""
    if len(means) > 1 and account.workers:
        column = int(means.argmax())
        if means[column] > 2 * np.delete(means, column).max():
            task = account.names[account.workers[column]]

    def tell(cost: str) -> tuple[str, str]:
        whose = f"The data of {task} are slow: loading" if task else "Loading"
        return (
            f"{whose} a mini-batch takes {cost}.",
            "Prepare mini-batches ahead in a thread of the data source, or keep the "
            "examples in memory as arrays.",
        )

    return _Suspect(Cause.DATA, sum(on_path.values()), tell, task)


def _cores(account: StepTimes, queueing: Mapping[int, int], late: int) -> _Suspect:
    """Return what waiting for a core costs.

    If computing has to queue for a core, so has a task that is to notice a message.
    """
    queued = sum(queueing.values())
    own = sum(account.path.of(Phase.COMPUTE, Phase.QUEUE).values())
    if queued > _QUEUES * own:
        queued += late + sum(account.path.of(Phase.WAIT).values())

    def tell(cost: str) -> tuple[str, str]:
        return (
            f"There are more threads to run than cores: tasks wait {cost} for a core.",
            "Start fewer tasks on a machine, let each use fewer threads, or end other "
            "programs.",
        )

    return _Suspect(Cause.CORES, queued, tell)


def _update(account: StepTimes) -> _Suspect:
    """Return the task for whose adding and updating the steps wait."""
    ns_of = account.path.of(Phase.APPLY)
    for task, ns in account.path.of(Phase.SEND, Phase.RECEIVE).items():
        if task not in account.workers:
            ns_of[task] += ns
    (task, _), *_ = ns_of.most_common(1) or [(0, 0)]
    is_server, name = task not in account.workers, account.names[task]
    alone = sum(ns_of.values()) < 1.5 * ns_of[task]

    def tell(cost: str) -> tuple[str, str]:
        if is_server:
            whose = (
                f"{name} adds and updates" if alone else "The servers add and update"
            )
            return (
                f"{whose} for {cost}, and the workers wait.",
                "Spread the parameters over more servers (ps=2), take an optimizer "
                "that costs less, or a topology in which the workers update.",
            )
        return (
            f"The workers update parameters for {cost}.",
            "Take an optimizer that costs less, or larger mini-batches.",
        )

    return _Suspect(Cause.UPDATE, sum(ns_of.values()), tell, name if alone else "")


def _line(account: StepTimes, hops: Hops) -> _Suspect:
    ns_of, names = hops.bandwidth, account.names
    total = sum(ns_of.values())
    link: tuple[str, ...] = ()
    task, where, verb = "", "The links", "are"
    if total:
        (source, target), most = ns_of.most_common(1)[0]
        ends: Counter[int] = Counter()
        for pair, ns in ns_of.items():
            ends.update(dict.fromkeys(pair, ns))
        (end, share), *_ = ends.most_common(1)
        is_one = most + ns_of[target, source] > 0.8 * total
        if is_one and account.is_slow_alone(source, target):
            link, verb = (names[source], names[target]), "is"
            where = f"The link between {link[0]} and {link[1]}"
        elif share > 0.8 * total and len(names) > 2:
            task, where, verb = names[end], f"The line of {names[end]}", "is"

    def tell(cost: str) -> tuple[str, str]:
        # Where all lines carry as much, no topology has more of them to offer.
        spread = (
            ", or take a topology that spreads them over more links" if task else ""
        )
        return (
            f"{where} {verb} slow: payloads are on their way for {cost}"
            f"{_besides(account, hops.latency, 'their latency')}.",
            f"Send fewer bytes (compress=, local_steps=){spread}.",
        )

    return _Suspect(Cause.LINK, total, tell, task, link)


def _besides(account: StepTimes, ns_of: Counter[tuple[int, int]], what: str) -> str:
    """Return what else messages take, if it is worth naming."""
    share = sum(ns_of.values()) / account.total
    if share < _BESIDES:
        return ""
    return f", and {what} takes another {share:.0%}".replace("%", " %")


def _latency(account: StepTimes, hops: Hops) -> _Suspect:
    total = sum(hops.latency.values())
    n_hops = len(account.path.hops) / account.n_steps
    fewer = "Take a topology with fewer messages in a row," if n_hops > 2.5 else "Take"

    def tell(cost: str) -> tuple[str, str]:
        each = account.ms(total) / n_hops
        return (
            f"Messages are short and travel long: {n_hops:.0f} of them in a row, "
            f"{_ms(each)} each, take {cost}"
            f"{_besides(account, hops.bandwidth, 'the time for their bytes')}.",
            f"{fewer} larger mini-batches, or exchange less often (local_steps=).",
        )

    return _Suspect(Cause.LATENCY, total, tell)


def _hooks(account: StepTimes) -> _Suspect:
    """Return what the first worker does between two steps, while all others wait."""
    nobody = _Suspect(Cause.HOOKS, 0.0, _tell_balanced)
    if not account.workers or account.window.epoch.is_asynchronous:
        return nobody
    first = account.workers[0]
    name = account.names[first]

    def tell(cost: str) -> tuple[str, str]:
        return (
            f"Between two steps {name} does something else for {cost}, and the others "
            f"wait: it validates, or other hooks run there.",
            "Validate less often (every=) or on fewer examples, and let hooks do less "
            "in each step.",
        )

    return _Suspect(Cause.HOOKS, account.path.of(UNKNOWN)[first], tell, name)


def _tell_balanced(cost: str) -> tuple[str, str]:
    return (
        f"Computing takes {cost}, and no worker keeps the others waiting.",
        "Only faster computing or more cores make a step shorter.",
    )


def _tell_nothing(parts: Mapping[str, float]) -> Callable[[str], tuple[str, str]]:
    def tell(step: str) -> tuple[str, str]:
        order = sorted(parts, key=lambda name: -parts[name])[:3]
        most = ", ".join(f"{name} {_ms(parts[name])}" for name in order)
        return f"No clear cause: of a step of {step}, {most}.", ""

    return tell


def _parts(
    account: StepTimes, queueing: Mapping[int, int], hops: Hops
) -> dict[str, float]:
    def path(*phases: int) -> float:
        return sum(account.path.of(*phases).values())

    queued = sum(queueing.values())
    ns_of = {
        "loading data": path(Phase.LOAD),
        "computing": path(Phase.COMPUTE, Phase.QUEUE) - queued,
        "waiting for a core": queued,
        "adding and copying": path(Phase.SEND, Phase.RECEIVE),
        "updating": path(Phase.APPLY),
        "bytes on their way": sum(hops.bandwidth.values()),
        "latency of messages": sum(hops.latency.values()),
        "noticing messages": path(Phase.WAIT) + hops.late,
        "other": path(UNKNOWN),
    }
    return {name: account.ms(ns) for name, ns in ns_of.items()}


def _ms(value: float) -> str:
    """Return milliseconds in words, with two or three digits.

    >>> _ms(31.4159), _ms(0.0567), _ms(1234.5)
    ('31.4 ms', '57 us', '1,234 ms')
    """
    if value < 1:
        return f"{1000 * value:.0f} us"
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"
