"""Compute a recorded training again, compare all digests, and show any message."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from kit.arithmetic import differences, here, libraries
from kit.crc import digest
from kit.errors import AbortedError, FailedPreconditionError, OutOfRangeError
from kit.exchange.compression.compressor import Compressor
from kit.exchange.layout import Layout, Range
from kit.exchange.ports.memory import Array
from kit.exchange.stepping.stepped_exchange import SteppedExchange, SteppedMessage
from kit.graph.array_protocol import ArrayProtocol
from kit.handles import by_old_name, handle, names_its_arguments
from kit.recording.content import Content
from kit.recording.loaded import content_of
from kit.recording.recomputing.pushes import (
    Orders,
    Pushed,
    check_losses,
    has_losses,
    orders_with_losses,
)
from kit.recording.recomputing.recomputation import Recomputation, check_options
from kit.recording.recomputing.stretches import stretches
from kit.recording.replay_inputs import ReplayInputs, inputs_for
from kit.trace.named_rows import EpochRow
from kit.training.client.run import Run
from kit.training.optimizers.rule import Optimizer, check_range

_SHOWN: Final = 64  # numbers of each column in a picture of a message


class ReplayedMessage(NamedTuple):
    """One message of a step: its tasks, its bytes, and what each task held then.

    Attributes:
        step, number: which message it is: of the step, from 1, as they arrive.
        source, destination: the tasks, such as "worker:1".
        kind: push, pull, reduce or gather.
        who: for each column, the workers whose numbers are in the sum.
        values: what it carries: for each parameter, the elements in its range.
        payload: its bytes.
        exchange: all states of the step's exchange; `exchange.states[position]` is that
            after the message, as a stepper draws it.
        stage: of compressed gradients, in which stage it travels: these have an
            exchange each, and `values` are what the compressor has made.
        position: its number among the messages of its exchange.
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
    stage: int = 0
    position: int = 0

    @property
    def place(self) -> int:
        """The old name of `position`."""
        return by_old_name(self, "place", "position")  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        names = ", ".join(self.values) or "nothing"
        return (
            f"<message {self.number} of step {self.step}: {self.source} to "
            f"{self.destination}, {self.kind}, {len(self.payload):,} bytes of {names}>"
        )


class Mismatch(NamedTuple):
    """Where a replay first differs from its recording.

    `what` is "loss" or "parameters"; `task` is the worker, or the task that updates
    that share of the parameters. `step` is how many steps were done before.
    """

    step: int
    task: str
    what: str
    text: str


@handle
@dataclass
class Replay:
    """A recorded training, computed again up to a step.

    Attributes:
        step: how many steps are done.
        params: the parameters after them.
        losses: the loss of each worker's share, by (step, task).
        n_digests, n_losses: how many of the recorded ones were compared.
        mismatch: the first that differs, None if all are equal.
        tolerance: how far numbers may differ, relative to the recorded ones.
    """

    content: Content
    inputs: ReplayInputs
    step: int = 0
    params: dict[str, Array] = field(default_factory=dict)
    losses: dict[tuple[int, str], float] = field(default_factory=dict)
    n_digests: int = 0
    n_losses: int = 0
    mismatch: Mismatch | None = None
    tolerance: float = 0.0

    def at(self, step: int, message: int) -> ReplayedMessage:
        """Return a message of a step, with what each task held when it arrived.

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
            The step is asynchronous, or uses backup workers (`aggregate=`): its
            messages are one push and one pull for each worker and server.
        """
        with opened(self.content, self.inputs) as engine:
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
            exchanges = engine.exchanges(engine.gradients(), _SHOWN)
        places = [
            (stage, index)
            for stage, exchange in enumerate(exchanges)
            for index in range(len(exchange.messages))
        ]
        count = len(places)
        number = count + 1 + message if message < 0 else message
        if not 1 <= number <= count:
            raise OutOfRangeError(
                f"step {step} has {count} messages, and there is no message {message}; "
                f"give 1 to {count}.",
                step=step,
            )
        stage, index = places[number - 1]
        exchange = exchanges[stage]
        stepped: SteppedMessage = exchange.messages[index]
        payload, names = exchange.payloads[index], exchange.names
        layout = self.content.job.payload.stages[stage].layout
        return ReplayedMessage(
            step,
            number,
            names[stepped.source],
            names[stepped.destination],
            stepped.kind.name.lower(),
            stepped.who,
            _values(layout, exchange.ranges[index], payload),
            payload,
            exchange,
            stage,
            index + 1,
        )

    def __repr__(self) -> str:
        compared = f"{self.n_digests} digests and {self.n_losses} losses"
        said = f"all equal: {compared}"
        if self.mismatch is not None:
            said = self.mismatch.text
        return f"<replay of {self.content.name} up to step {self.step}; {said}>"


@names_its_arguments
def replay(
    recording: str | Path | Run,
    until: int | None = None,
    *,
    step: Callable[..., Any] | ArrayProtocol | None = None,
    data: Any = None,
    optimizer: Optimizer | str | None = None,
    outer: Optimizer | str | None = None,
    compress: Compressor | str | None = None,
    trust_step: bool = False,
    check: bool = True,
    tolerance: float = 0.0,
) -> Replay:
    """Compute a recorded training again, in this process and without a cluster.

    Every step from the newest kept state on is computed by the same code as in the
    training. Without `until` it begins at the first state, so everything is compared.

    Parameters
    ----------
    recording : str, Path or Run
        The folder of a recording, or what `kit.load_run` gave.
    until : int, optional
        How many steps to do; by default all that were done.
    step : callable or Tensor, optional
        The step function, or the loss. It must have the recorded digest.
    data : optional
        The data that `kit.train` was given. By default those stored with the recording.
    optimizer, outer, compress : optional
        What `kit.train` was given, if it is of a custom class. Its digest must be the
        recorded one.
    trust_step : bool, default False
        Take the step function and custom objects that are not given from the recording:
        those that were stored with it, else what can be imported here under the
        recorded names (of objects the dataclasses whose settings are numbers and
        texts). That executes code that the file holds or chooses: only for a recording
        that you trust.
    check : bool, default True
        Raise when anything differs from the recording. Otherwise the first difference
        is in `mismatch`, and the replay goes on.
    tolerance : float, default 0
        How far a loss, and each of the last parameters, may be from the recorded one,
        relative to it; digests are not compared then. For a machine that computes other
        last bits: before it begins, a warning says what is not the same.

    Returns
    -------
    Replay
        Its `params` are those after the last step; `at` returns any message.

    Raises
    ------
    InvalidArgumentError
        The data, the step function, an optimizer or a compressor do not have the
        recorded digest.
    AbortedError
        A loss or the parameters differ from the recording; it names the first.
    UnimplementedError
        The training used something that is not computed again, such as asynchronous
        steps that were done once more when a server was lost.
    FailedPreconditionError
        Something is missing: the step function, the data, a state to begin with.

    Notes
    -----
    Takes as long as the computing of all workers together. It computes with as many
    BLAS threads as the training, whatever is set here; another BLAS or processor may
    give other bits, and the error names what is not the same.

    Examples
    --------
    Look at the first message of step 12::

        replay = kit.replay("run-1", until=12, step=step, data=(x, y))
        replay.at(12, message=1).values["w1"]
    """
    content = content_of(recording)
    own = {"optimizer": optimizer, "outer": outer, "compress": compress}
    inputs = inputs_for(content, step, data, own, trust_step=trust_step)
    check_range("tolerance", tolerance, 0, np.inf)
    result = Replay(content, inputs, tolerance=tolerance)
    unlike = _differences_here(content) + [
        f"{name} was {content.libraries[name]} and is {version} here."
        for name, version in libraries().items()
        if content.libraries.get(name, version) != version
    ]
    for text in unlike:
        said = f"the replay of {content.name} may have other bits: {text}"
        warnings.warn(said, stacklevel=2)
    last = content.n_done if until is None else until
    _check_step(content, last, content.n_done)
    with opened(content, inputs) as engine:
        _compute(engine, result, last, from_start=until is None, check=check)
    return result


def _differences_here(content: Content) -> list[str]:
    """Return how computing here differs from that of the recorded training."""
    if content.arithmetic is None:
        return []
    both = ("the recording", content.arithmetic), ("this process", here())
    return differences(both)


# --------------------------------------------------------------------------------------
# Computing, and what is compared meanwhile.


def opened(content: Content, inputs: ReplayInputs) -> Recomputation:
    """Return the members of a recorded training, to be used with `with`."""
    check_options(inputs.job)
    if not content.epochs:
        raise FailedPreconditionError(
            f"{content.name} ends before the training had begun: nothing to replay."
        )
    held = stretches(content.epochs, content.n_done)
    check_losses(inputs.job, held, content.changes)
    about = inputs.job, inputs.work, held, orders(content), pushed(content)
    threads = content.arithmetic.threads if content.arithmetic is not None else 0
    return Recomputation(*about, threads)


def orders(content: Content) -> Orders:
    """Return whose pushes each server took in each asynchronous epoch."""
    held = stretches(content.epochs, content.n_done)
    if has_losses(held):
        tables = content.tables["STEP"], content.tables["PUSH"]
        return orders_with_losses(content.job, held, *tables)
    orders_of: dict[tuple[int, int], list[int]] = {}
    table = content.tables["PUSH"]
    ordered = table[np.lexsort((table["step"], table["epoch"], table["server"]))]
    for server, worker, epoch, _ in dict.fromkeys(map(tuple, ordered.tolist())):
        orders_of.setdefault((epoch, server), []).append(worker)
    return orders_of


def pushed(content: Content) -> dict[int, Pushed]:
    """Return the workers that pushed a gradient of each step, with backup workers."""
    if not content.job.schedule_of(synchronous=True).is_served:
        return {}
    sets: dict[str, dict[int, set[int]]] = {"PUSH": {}, "LATE": {}}
    for kind, by_step in sets.items():
        for _, worker, _, step in content.tables[kind].tolist():
            by_step.setdefault(step, set()).add(worker)
    counted, late = sets["PUSH"], sets["LATE"]
    return {
        step: Pushed(frozenset(workers), frozenset(late.get(step, ())))
        for step, workers in counted.items()
    }


def _check_step(content: Content, step: int, most: int) -> None:
    if type(step) is not int or not 0 <= step <= most:
        raise OutOfRangeError(
            f"step {step!r} is not in {content.name}, which has the steps 0 to {most}."
        )


def _begin(engine: Recomputation, content: Content, step: int) -> None:
    """Begin at the newest kept state that is not after `step`."""
    steps = [state for state in content.states if state <= step]
    if not steps:
        first = min(content.states, default=None)
        there = f"the first is that after step {first}" if first is not None else "none"
        raise FailedPreconditionError(
            f"{content.name} holds no state up to step {step} to begin with "
            f"({there}): the recording was begun later, or without the initial values."
        )
    engine.begin(max(steps), content.state(max(steps)))


def go_to(engine: Recomputation, content: Content, step: int) -> None:
    """Compute up to a step, from the newest kept state before it."""
    _begin(engine, content, step)
    while engine.step < step:
        engine.advance(step)


def _compute(
    engine: Recomputation, result: Replay, last: int, *, from_start: bool, check: bool
) -> None:
    content = result.content
    first = min(content.states, default=0)
    _begin(engine, content, first if from_start else last)
    checker = _Checker(content, engine, result)
    engine.on_loss = checker.updated
    checker.at_step()
    while engine.step < last and not (check and result.mismatch):
        engine.advance(last)
        checker.at_step()
    result.step = engine.step
    result.params = engine.parameters()
    if result.mismatch is None and last == content.n_done and content.final is not None:
        checker.at_end()
    if check and result.mismatch is not None:
        mismatch = result.mismatch
        raise AbortedError(mismatch.text, task=mismatch.task, step=mismatch.step)


class _Checker:
    """Compares losses and digests with the recorded ones, as the steps are done."""

    def __init__(self, content: Content, engine: Recomputation, replay: Replay) -> None:
        self._content, self._engine, self._replay = content, engine, replay
        self._losses, self._digests = losses(content), digests(content)

    def updated(self, worker: int, step: int, loss: float) -> None:
        """Compare the loss of a worker's part of a step."""
        task = self._content.job.tasks[worker].short
        self._replay.losses[step, task] = loss
        recorded = self._losses.get((step, worker))
        if recorded is None:
            return
        self._replay.n_losses += 1
        # By bits: a NaN is not equal to itself.
        if not _is_same(np.float64(recorded), loss, self._replay.tolerance):
            text = (
                f"{task} has the loss {loss!r} in step {step}, and in the recording "
                f"{recorded!r}"
            )
            self._differ(step, task, "loss", text)

    def at_step(self) -> None:
        """Compare the digests of the parameters, if there are any for this step."""
        engine = self._engine
        engine.enter()
        if self._replay.tolerance:
            return
        flat = None
        for row, writer, recorded in self._digests.get(engine.step, ()):
            ranges = engine.share(row, writer)
            flat = engine.flat() if flat is None else flat
            value = digest(flat[part.lo : part.hi].data for part in ranges)
            self._replay.n_digests += 1
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
        for name, value in self._replay.params.items():
            if not _is_same(recorded[name], value, self._replay.tolerance):
                text = f"parameter {name!r} has other bits at the end"
                self._differ(engine.step, "", "parameters", text)

    def _differ(self, step: int, task: str, what: str, text: str) -> None:
        if self._replay.mismatch is None:
            said = (
                f"the replay of {self._content.name} differs: {text}. The step "
                f"function depends on more than its arguments, this machine computes "
                f"other bits, or memory was damaged."
            )
            more = map(str.capitalize, _differences_here(self._content))
            self._replay.mismatch = Mismatch(step, task, what, " ".join([said, *more]))


def _is_same(recorded: Any, value: Any, tolerance: float) -> bool:
    """Whether both have the same bits, or are as near to each other as allowed."""
    if not tolerance:
        return bool(np.asarray(recorded).tobytes() == np.asarray(value).tobytes())
    return np.allclose(value, recorded, tolerance, tolerance, equal_nan=True)


def losses(content: Content) -> dict[tuple[int, int], float]:
    """Return the loss of each worker's share, by step and worker."""
    steps = content.tables["STEP"]
    steps = steps[steps["examples"] > 0]
    keys = zip(steps["step"].tolist(), steps["task"].tolist(), strict=True)
    return dict(zip(keys, steps["loss"].tolist(), strict=True))


def digests(content: Content) -> Mapping[int, list[tuple[EpochRow, int, int]]]:
    """Return by step the epoch, writer and value of each digest.

    Members count the epochs of each generation from 1.
    """
    rows: dict[tuple[int, int], EpochRow] = {}
    counts: dict[int, int] = {}
    for row in content.epochs:
        counts[row.generation] = counts.get(row.generation, 0) + 1
        rows[row.generation, counts[row.generation]] = row
    digests_of: dict[int, list[tuple[EpochRow, int, int]]] = {}
    for generation, epoch, step, writer, value in content.tables["DIGS"].tolist():
        writer_row = rows.get((generation, epoch))
        if writer_row is not None:
            digests_of.setdefault(step, []).append((writer_row, writer, value))
    return digests_of


def named(content: Content, ranges: Iterable[Range]) -> tuple[str, ...]:
    """Return the names of the parameters in some ranges."""
    parts = tuple(ranges)
    return tuple(
        leaf.spec.name
        for leaf in content.job.layout.leaves
        if any(leaf.range.lo < part.hi and part.lo < leaf.range.hi for part in parts)
    )


def _values(layout: Layout, part: Range, payload: bytes) -> dict[str, Array]:
    arrays = {}
    for leaf in layout.leaves:
        lo, hi = max(part.lo, leaf.range.lo), min(part.hi, leaf.range.hi)
        if lo < hi:
            raw = payload[lo - part.lo : hi - part.lo]
            arrays[leaf.spec.name] = np.frombuffer(raw, leaf.spec.dtype)
    return arrays
