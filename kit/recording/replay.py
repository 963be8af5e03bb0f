"""Compute a recorded training again, compare every digest, and stop at any message."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from kit.crc import digest
from kit.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from kit.exchange.layout import Range
from kit.exchange.ports.memory import Array
from kit.exchange.stepping.stepped_exchange import (
    SteppedExchange,
    SteppedMessage,
    record,
)
from kit.graph.array_protocol import ArrayProtocol
from kit.recording.async_updates import Orders
from kit.recording.content import Content
from kit.recording.facts import (
    data_difference,
    data_facts,
    referred,
    step_difference,
    step_facts,
)
from kit.recording.loaded import content_of
from kit.recording.recomputation import Recomputation, check_can_be_recomputed
from kit.recording.stored_step import unpickled
from kit.recording.stretches import stretches
from kit.trace.trace import EpochRow
from kit.training.client.run import Run
from kit.training.graph_step.loss import work_of
from kit.training.job import Work

_SHOWN: Final = 64  # numbers of a column that a picture of a message has


class ReplayedMessage(NamedTuple):
    """One message of a step: between whom, its bytes, and who held what then.

    Attributes:
        step, number: which message it is: of the step, from 1, as they arrive.
        source, destination: the tasks, such as "worker:1".
        kind: push, pull, reduce or gather.
        who: the workers whose numbers are in the sum, for each column of `columns`.
        values: what it carries, by parameter: the elements that lie in its range.
        payload: its bytes.
        exchange: all states of the step's exchange; `exchange.states[number]` is that
            after the message, as a stepper draws it.
    """

    step: int
    number: int
    source: str
    destination: str
    kind: str
    who: tuple[tuple[int, ...], ...]
    values: dict[str, Array]
    payload: bytes
    exchange: SteppedExchange

    def __repr__(self) -> str:
        names = ", ".join(self.values) or "nothing"
        return (
            f"<message {self.number} of step {self.step}: {self.source} to "
            f"{self.destination}, {self.kind}, {len(self.payload):,} bytes of {names}>"
        )


class Mismatch(NamedTuple):
    """Where a replay differs from its recording for the first time.

    `what` is "loss" or "parameters"; `task` the worker, or who writes that share of the
    parameters. `step` counts the steps that were done before.
    """

    step: int
    task: str
    what: str
    text: str


@dataclass
class Replay:
    """A recorded training, computed again up to a step.

    Attributes:
        step: how many steps are done.
        params: the parameters after them.
        losses: the loss of each worker's share, by (step, task).
        n_digests, n_losses: how many of the recorded ones were compared.
        mismatch: the first that differs, None if all are equal.
    """

    content: Content
    work: Work
    step: int = 0
    params: dict[str, Array] = field(default_factory=dict)
    losses: dict[tuple[int, str], float] = field(default_factory=dict)
    n_digests: int = 0
    n_losses: int = 0
    mismatch: Mismatch | None = None

    def at(self, step: int, message: int) -> ReplayedMessage:
        """Stop before a message of a step; return it, with who held what.

        Computes from the newest kept state before the step.

        Parameters
        ----------
        step : int
            The number of the step, from 0.
        message : int
            The number of the message, from 1, in the order in which they arrive one by
            one; -1 is the last.

        Raises
        ------
        OutOfRangeError
            There is no such step or message.
        FailedPreconditionError
            The step is asynchronous: it has one push and one pull for each server.
        """
        with opened(self.content, self.work) as engine:
            _check_step(self.content, step, self.content.n_done - 1)
            go_to(engine, self.content, step)
            stretch = engine.enter()
            if stretch.row.is_asynchronous:
                raise FailedPreconditionError(
                    f"step {step} is asynchronous: one worker pushes its gradient to "
                    f"the servers and pulls what they have then. Messages can be "
                    f"looked at in synchronous steps."
                )
            engine.compute()
            job = self.content.job
            exchange = record(
                *(engine.topology(), job.layout, job.group),
                [task.short for task in job.tasks],
                engine.gradients(),
                _SHOWN,
            )
        count = len(exchange.messages)
        number = count + 1 + message if message < 0 else message
        if not 1 <= number <= count:
            raise OutOfRangeError(
                f"step {step} has {count} messages, and there is no message {message}; "
                f"give 1 to {count}.",
                step=step,
            )
        return self._message(step, number, exchange)

    def _message(
        self, step: int, number: int, exchange: SteppedExchange
    ) -> ReplayedMessage:
        found: SteppedMessage = exchange.messages[number - 1]
        payload, names = exchange.payloads[number - 1], exchange.names
        values = _values(self.content, exchange.ranges[number - 1], payload)
        return ReplayedMessage(
            step,
            number,
            names[found.source],
            names[found.destination],
            found.kind.name.lower(),
            found.who,
            values,
            payload,
            exchange,
        )

    def __repr__(self) -> str:
        compared = f"{self.n_digests} digests and {self.n_losses} losses"
        said = f"all equal: {compared}"
        if self.mismatch is not None:
            said = self.mismatch.text
        return f"<replay of {self.content.name} up to step {self.step}; {said}>"


def replay(
    recording: str | Path | Run,
    until: int | None = None,
    *,
    step: Callable[..., Any] | ArrayProtocol | None = None,
    data: Any = None,
    trust_step: bool = False,
    check: bool = True,
) -> Replay:
    """Compute a recorded training again, in this process and without a cluster.

    Every step from the newest kept state on is computed by the same parts as in the
    training. Without `until` it begins at the first state, and so compares everything.

    Parameters
    ----------
    recording : str, Path or Run
        The folder of a recording, or what `kit.load_run` gave.
    until : int, optional
        How many steps to do; by default all that were done.
    step : callable or Tensor, optional
        The step function, or the loss. By default the function that the recording
        names, if it can be imported here and has the recorded digest; give it where the
        recording is a stranger's.
    data : optional
        The data, as `kit.train` was given them. By default those that were stored with
        the recording.
    trust_step : bool, default False
        Load the step function that was stored with the recording. That executes what
        the file says: only for one that you trust.
    check : bool, default True
        Raise when anything differs from the recording. Else the first difference is in
        `mismatch`, and the replay goes on.

    Returns
    -------
    Replay
        Its `params` are those after the last step; `at` shows any message.

    Raises
    ------
    InvalidArgumentError
        The data or the step function have other digests than the recorded ones.
    AbortedError
        A loss or the parameters differ from the recording; it names the first.
    UnimplementedError
        The training used something that is not computed again, such as backup workers.
    FailedPreconditionError
        Something is missing: the step function, the data, a state to begin with.

    Notes
    -----
    Costs what all workers of the training compute, one after the other. The bits are
    those of the machine: another BLAS or processor may give others.

    Examples
    --------
    Look at the first message of step 12::

        found = kit.replay("run-1", until=12, step=step, data=(x, y))
        found.at(12, message=1).values["w1"]
    """
    content = content_of(recording)
    work = work_for(content, step, data, trust_step=trust_step)
    found = Replay(content, work)
    last = content.n_done if until is None else until
    _check_step(content, last, content.n_done)
    with opened(content, work) as engine:
        _compute(engine, found, last, from_start=until is None, check=check)
    return found


# --------------------------------------------------------------------------------------
# What a replay computes with: the step function and the data, and whether they are the
# recorded ones.


def work_for(
    content: Content, step: Any, data: Any, *, trust_step: bool = False
) -> Work:
    """Return step function and data of a replay; raises as `replay` does."""
    if isinstance(step, ArrayProtocol):
        if data is None:
            raise InvalidArgumentError(
                "a loss needs its data by placeholder: data={x: images, y: labels}."
            )
        found = work_of(step, data, None, content.job.seed)
        step, data = found.step, found.data
    if step is None:
        step = _step_of(content, trust_step)
    if data is None:
        if content.data is None:
            raise FailedPreconditionError(
                f"{content.name} does not hold the training data; give those that "
                f"kit.train was given as data=..., or record with "
                f"kit.Recording(folder, store_data=True)."
            )
        data = content.stored_data()
    recorded = content.about
    wrong = []
    if recorded["data"] is not None:
        wrong.append(data_difference(recorded["data"], data_facts(data)))
    if recorded["step"] is not None:
        wrong.append(step_difference(recorded["step"], step_facts(step)))
    if any(wrong):
        raise InvalidArgumentError(
            f"{content.name} was recorded with something else: "
            f"{'; '.join(filter(None, wrong))}. A replay needs the same."
        )
    return Work(step, data)


def _step_of(content: Content, trust_step: bool) -> Any:
    facts = content.about["step"] or {"importable": False, "name": "unknown"}
    if trust_step:
        return unpickled(content.stored_step())
    if facts["importable"]:
        # What is imported is code of this machine; its digest is compared before use.
        try:
            importlib.import_module(facts["module"])
        except Exception as exc:
            raise FailedPreconditionError(
                f"the step function is {facts['module']}.{facts['name']}, which cannot "
                f"be imported here ({type(exc).__name__}: {exc}); give it as step=...."
            ) from exc
        found = referred(facts["module"], facts["name"])
        if isinstance(found, FunctionType):  # nothing else is called by its name
            return found
    raise FailedPreconditionError(
        f"the step function of {content.name}, {facts['name']!r}, cannot be imported; "
        f"give it as step=..., or, if it was stored with the recording and you trust "
        f"that, trust_step=True."
    )


# --------------------------------------------------------------------------------------
# Computing, and what is compared on the way.


def opened(content: Content, work: Work) -> Recomputation:
    """Return the members of a recorded training, to be used with `with`."""
    check_can_be_recomputed(content.job, content.epochs)
    if not content.epochs:
        raise FailedPreconditionError(
            f"{content.name} ends before the training had begun: nothing to replay."
        )
    held = stretches(content.epochs, content.n_done)
    return Recomputation(content.job, Work(work.step, work.data), held, orders(content))


def orders(content: Content) -> Orders:
    """Return whose pushes each server took in each asynchronous epoch."""
    found: dict[tuple[int, int], list[int]] = {}
    table = content.tables["PUSH"]
    ordered = table[np.lexsort((table["step"], table["epoch"], table["server"]))]
    for server, worker, epoch, _ in dict.fromkeys(map(tuple, ordered.tolist())):
        found.setdefault((epoch, server), []).append(worker)
    return found


def _check_step(content: Content, step: int, most: int) -> None:
    if type(step) is not int or not 0 <= step <= most:
        raise OutOfRangeError(
            f"step {step!r} is not in {content.name}, which has the steps 0 to {most}."
        )


def _begin(engine: Recomputation, content: Content, step: int) -> None:
    """Begin at the newest kept state that is not after `step`."""
    known = [one for one in content.states if one <= step]
    if not known:
        first = min(content.states, default=None)
        there = f"the first is that after step {first}" if first is not None else "none"
        raise FailedPreconditionError(
            f"{content.name} holds no state up to step {step} to begin with "
            f"({there}): the recording was begun later, or without the initial values."
        )
    engine.begin(max(known), content.state(max(known)))


def go_to(engine: Recomputation, content: Content, step: int) -> None:
    """Compute up to a step, from the newest kept state before it."""
    _begin(engine, content, step)
    while engine.step < step:
        engine.advance(step)


def _compute(
    engine: Recomputation, found: Replay, last: int, *, from_start: bool, check: bool
) -> None:
    content = found.content
    first = min(content.states, default=0)
    _begin(engine, content, first if from_start else last)
    checker = _Checker(content, engine, found)
    engine.told = checker.updated
    checker.at_step()
    while engine.step < last and not (check and found.mismatch):
        engine.advance(last)
        checker.advanced()
    found.step = engine.step
    found.params = engine.parameters()
    if found.mismatch is None and last == content.n_done and content.final is not None:
        checker.at_end()
    if check and found.mismatch is not None:
        one = found.mismatch
        raise AbortedError(one.text, task=one.task, step=one.step)


class _Checker:
    """Compares losses and digests with the recorded ones, as the steps are done."""

    def __init__(self, content: Content, engine: Recomputation, found: Replay) -> None:
        self._content, self._engine, self._found = content, engine, found
        steps = content.tables["STEP"]
        mine = steps[steps["examples"] > 0]
        keys = zip(mine["step"].tolist(), mine["task"].tolist(), strict=True)
        self._losses = dict(zip(keys, mine["loss"].tolist(), strict=True))
        self._digests = digests(content)

    def advanced(self) -> None:
        """Compare what the last synchronous step gave."""
        engine = self._engine
        for worker, loss in engine.losses.items():
            self.updated(worker, engine.step - 1, loss)
        engine.losses = {}
        self.at_step()

    def updated(self, worker: int, step: int, loss: float) -> None:
        """Compare the loss of a worker's part of a step."""
        task = self._content.job.tasks[worker].short
        self._found.losses[step, task] = loss
        recorded = self._losses.get((step, worker))
        if recorded is None:
            return
        self._found.n_losses += 1
        if np.float64(recorded).tobytes() != np.float64(loss).tobytes():
            text = (
                f"{task} has the loss {loss!r} in step {step}, and in the recording "
                f"{recorded!r}"
            )
            self._differ(step, task, "loss", text)

    def at_step(self) -> None:
        """Compare the digests of the parameters, if there are any for this step."""
        engine = self._engine
        engine.enter()
        flat = None
        for row, writer, recorded in self._digests.get(engine.step, ()):
            ranges = engine.share(row, writer)
            flat = engine.flat() if flat is None else flat
            value = digest(flat[part.lo : part.hi].data for part in ranges)
            self._found.n_digests += 1
            if value != recorded:
                task = self._content.job.tasks[writer].short
                names = ", ".join(named(self._content, ranges))
                text = (
                    f"the parameters that {task} updates ({names}) have the digest "
                    f"{value:08x} after {engine.step} steps, and in the recording "
                    f"{recorded:08x}"
                )
                self._differ(engine.step, task, "parameters", text)

    def at_end(self) -> None:
        """Compare the last parameters."""
        content, engine = self._content, self._engine
        recorded = content.last_parameters() or {}
        for name, value in self._found.params.items():
            if recorded[name].tobytes() != value.tobytes():
                text = f"parameter {name!r} has other bits at the end"
                self._differ(engine.step, "", "parameters", text)

    def _differ(self, step: int, task: str, what: str, text: str) -> None:
        if self._found.mismatch is None:
            said = (
                f"the replay of {self._content.name} differs: {text}. The step "
                f"function depends on more than its arguments, this machine computes "
                f"other bits, or memory was damaged."
            )
            self._found.mismatch = Mismatch(step, task, what, said)


def digests(content: Content) -> Mapping[int, list[tuple[EpochRow, int, int]]]:
    """Return by step the epoch, writer and value of each digest.

    Members count the epochs of each generation from 1.
    """
    rows: dict[tuple[int, int], EpochRow] = {}
    counts: dict[int, int] = {}
    for row in content.epochs:
        counts[row.generation] = counts.get(row.generation, 0) + 1
        rows[row.generation, counts[row.generation]] = row
    found: dict[int, list[tuple[EpochRow, int, int]]] = {}
    for generation, epoch, step, writer, value in content.tables["DIGS"].tolist():
        known = rows.get((generation, epoch))
        if known is not None:
            found.setdefault(step, []).append((known, writer, value))
    return found


def named(content: Content, ranges: Iterable[Range]) -> tuple[str, ...]:
    """Return the parameters that lie in some ranges."""
    parts = tuple(ranges)
    return tuple(
        leaf.spec.name
        for leaf in content.job.layout.leaves
        if any(leaf.range.lo < part.hi and part.lo < leaf.range.hi for part in parts)
    )


def _values(content: Content, part: Range, payload: bytes) -> dict[str, Array]:
    found = {}
    for leaf in content.job.layout.leaves:
        lo, hi = max(part.lo, leaf.range.lo), min(part.hi, leaf.range.hi)
        if lo < hi:
            raw = payload[lo - part.lo : hi - part.lo]
            found[leaf.spec.name] = np.frombuffer(raw, leaf.spec.dtype)
    return found
