"""What a worker computes with, for the whole training: its data and its step function.

It outlives epochs: a switch neither opens the data again nor looks the parameters up.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections import deque
from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from kit.errors import GradientMismatch, KitError, NotFinite, StepFailed
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Array, Memory
from kit.features import load
from kit.trace.log import LONGEST_NAME, encoded_name
from kit.training.core.job import Job, Work
from kit.training.core.workplace import Workplace
from kit.training.data.agreement import DataReport
from kit.training.data.dask_source import Batch
from kit.training.data.sources import Reported, make_source
from kit.training.data.splits import check_seed
from kit.training.worker import kept_state
from kit.training.worker.accumulation import Accumulation, Measured, OwnGradient
from kit.training.worker.gradient_buffer import GradientBuffer, StepArrays
from kit.training.worker.own_part import OwnPart

# --------------------------------------------------------------------------------------
# What a step function returns besides its loss: numbers by name, such as its accuracy.


_MOST = 16
_READ_ONLY = (
    " Parameters are read-only in step(): return gradients, the optimizer does the "
    "update; or work on a copy."
)


def named(task: str, step: int, values: Any) -> dict[bytes, float]:
    """Return the measures of a step, ready to be recorded.

    Raises `StepFailed` for anything that is not a dict of a few numbers by short names.

    >>> named("worker:0", 7, {"accuracy": 1})
    {b'accuracy': 1.0}
    """
    wrong, measures = partial(_wrong, StepFailed, task, step), dict[bytes, float]()
    if not isinstance(values, Mapping) or len(values) > _MOST:
        what = f"{len(values)} of them" if isinstance(values, Mapping) else repr(values)
        raise wrong(
            f"step() gave {what} besides loss and gradients; give a dict of at most "
            f"{_MOST} numbers, such as {{'accuracy': 0.9}}."
        )
    for name, value in values.items():
        encoded = encoded_name(name)
        if not encoded:
            raise wrong(
                f"step() gave a number called {name!r}; give it a name of 1 to "
                f"{LONGEST_NAME} printable letters."
            )
        try:
            measures[encoded] = float(value)
        except (TypeError, ValueError) as error:
            raise wrong(
                f"step() gave {value!r} as {name!r}; give one number, the mean over "
                f"this worker's examples."
            ) from error
    return measures


def _wrong(kind: type[KitError], task: str, step: int, text: str) -> KitError:
    return kind(f"{task}, step {step}: {text}", task=task, step=step)


# --------------------------------------------------------------------------------------
# A worker's own part of a step: its split of the batch, and the user's function.
#
# The function returns the loss and all gradients at once, or it is a generator that
# yields `(name, gradient)` as each is ready and returns the loss; then the exchange of
# what is ready goes on beside the rest of the computation.
#
# A function with a parameter called `grads` writes its gradients there itself
# (`kit.training.worker.gradient_views`). It returns the loss alone, or yields each name
# when it is written.
#
# A function with a parameter called `rng` gets a generator of random numbers for this
# step and worker, for dropout or noise. Computing the step again draws the same.
#
# A function with a parameter called `state` gets a dict of its worker's own, for what
# it carries from step to step (`kit.training.worker.kept_state`).
#
# A function with a parameter called `scale` multiplies its loss by it before gradients
# are computed, which may then be infinite (`kit.LossScale`).
#
# `(loss, gradients, {"accuracy": 0.9})` gives more numbers of the step; a generator
# returns `(loss, {...})` to do so, and a function with `grads` `(loss, None, {...})`.


Ready = Callable[[int], None]
GRADS: Final = "grads"
RNG: Final = "rng"
STATE: Final = "state"
SCALE: Final = "scale"
OFFERED: Final = (
    GRADS,
    RNG,
    STATE,
    SCALE,
)  # to a step function that has such a parameter
_NUMBER: Final = "_number"  # of the mini-batch and the piece: for what a graph draws
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def requested(step: Any) -> frozenset[str]:
    """Return which parameters a step function has besides `params` and `batch`.

    Of `grads`, `rng`, `state` and `scale`, those that can be given by name.

    >>> sorted(requested(lambda params, batch, rng, grads: 0))
    ['grads', 'rng']
    """
    try:
        parameters = inspect.signature(step).parameters
    except (TypeError, ValueError):  # a built-in function has no signature
        return frozenset()
    return frozenset(
        name
        for name in (*OFFERED, _NUMBER)
        if name in parameters and parameters[name].kind in _BY_NAME
    )


def generator(seed: int, number: int, rank: int, piece: int = 0) -> np.random.Generator:
    """Return what a step function draws from: it depends on the arguments alone.

    `number` is that of the mini-batch and `piece` that of its piece; both count from 0.
    Costs about 15 microseconds.

    >>> first, same = (generator(seed=3, number=7, rank=1).random() for _ in range(2))
    >>> first == same, first == generator(seed=3, number=8, rank=1).random()
    (True, False)
    """
    # The third word of the counter keeps these apart from the bits that shuffle the
    # examples (0) and from the noise of `kit.evolve` (1). What is drawn counts up the
    # first word, and no piece draws so much that it comes to the second.
    words = [seed, number], [0, piece, 2, rank]
    key, counter = (np.array(word, np.uint64) for word in words)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


class Compute:
    """Calls the user's step function and takes its gradients."""

    def __init__(
        self,
        step: Callable[..., Any],
        params: Callable[[], Mapping[str, Array]],
        gradients: Callable[[], GradientBuffer],
        task: str,
        draw: Callable[[int, int], np.random.Generator],
        state: dict[str, Any],
        nan_loss: bool = False,
        scale: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """Look nothing up yet: where a step reads and writes is asked in each step.

        `draw` makes the generator for the mini-batch with a number, and a piece of it;
        `state` is what the function keeps from step to step; `nan_loss` whether its
        loss may be NaN; `scale` gives what its loss is multiplied by.
        """
        self._nan_loss = nan_loss
        self._function, self._task = step, task
        self._params, self._gradients = params, gradients
        self.measures: dict[bytes, float] = {}  # of the last step, besides its loss
        asked = requested(step)
        self._writes, self._draws, self._draw = GRADS in asked, RNG in asked, draw
        self._keeps, self._state = STATE in asked, state
        self._is_numbered = _NUMBER in asked
        self._scale = scale if SCALE in asked else None

    def __call__(
        self,
        step: int,
        batch: tuple[Any, ...],
        weight: float,
        ready: Ready,
        *,
        number: int,
        piece: int = 0,
        into: GradientBuffer | None = None,
    ) -> float:
        """Return the loss; every gradient is then in the flat buffer.

        `number` is that of the mini-batch, for the training or for this worker alone,
        and `piece` that of a piece of it; `into` a buffer other than that of the step.
        Calls `ready(bucket)` as soon as a bucket is complete, but only for a function
        that hands its gradients over one by one. Raises `StepFailed` with the user's
        traceback, `GradientMismatch` or `NotFinite`.
        """
        gradient_buffer = self._gradients() if into is None else into
        gradient_buffer.begin(step, weight)
        self.measures = {}
        params = dict(self._params())  # the step may change its own
        more: dict[str, Any] = {}
        if self._writes:
            more[GRADS] = gradient_buffer.open()
        if self._is_numbered:
            more[_NUMBER] = number, piece
        if self._draws:
            more[RNG] = self._draw(number, piece)
        if self._keeps:
            more[STATE] = self._state
        if self._scale is not None:
            more[SCALE] = self._scale()
        result = self._run(step, self._function, params, batch, **more)
        self._is_generator = isinstance(result, Generator)
        if self._is_generator:
            loss = self._drain(step, result, gradient_buffer, ready)
        elif self._writes:
            loss = self._alone(step, result)
            gradient_buffer.all_written()
        else:
            loss, gradients = self._split(step, result)
            gradient_buffer.take_all(gradients)
        gradient_buffer.end()
        if self._keeps:
            kept_state.check(self._state, self._task, step)
        return self._number(step, loss)

    def _drain(
        self,
        step: int,
        handed: Generator[Any, Any, Any],
        gradient_buffer: GradientBuffer,
        ready: Ready,
    ) -> Any:
        def following() -> tuple[bool, Any]:
            try:
                return False, next(handed)
            except StopIteration as end:
                return True, end.value

        while True:
            is_over, value = self._run(step, following)
            if is_over:
                if isinstance(value, tuple) and len(value) == 2:
                    self.measures = named(self._task, step, value[1])
                    return value[0]
                return value
            if self._writes:
                complete = gradient_buffer.written(self._alone(step, value))
            else:
                complete = gradient_buffer.take(*self._split(step, value))
            for bucket in complete:
                ready(bucket)

    def _run(
        self, step: int, function: Callable[..., Any], *args: Any, **named: Any
    ) -> Any:
        try:
            return function(*args, **named)
        except KitError:
            raise
        except BaseException as error:  # sys.exit() ends the training, not the task
            text = "".join(traceback.format_exception(error))
            hint = _READ_ONLY if "read-only" in str(error) else ""
            raise StepFailed(
                f"{self._task}: step() raised {type(error).__name__}: {error} in step "
                f"{step}; all members were stopped, and the parameters are those of "
                f"the step before.{hint}",
                task=self._task,
                step=step,
                remote_traceback=text,
            ) from error

    def _number(self, step: int, loss: Any) -> float:
        if loss is None and self._is_generator:
            return math.nan  # it does not say
        try:
            number = float(loss)
        except (TypeError, ValueError) as error:
            text = (
                f"step() returned {loss!r} as the loss; return one number, the mean "
                f"over this worker's examples."
            )
            raise _wrong(StepFailed, self._task, step, text) from error
        if math.isnan(number) and not self._nan_loss:
            text = (
                "step() returned NaN as the loss; lower the learning rate, clip the "
                "gradients, or look at the data of that step. With "
                "kit.settings(nan_loss=True) a training goes on."
            )
            raise _wrong(NotFinite, self._task, step, text)
        return number

    def _alone(self, step: int, result: Any) -> Any:
        if not isinstance(result, tuple):
            return result
        if len(result) == 3 and result[1] is None:
            self.measures = named(self._task, step, result[2])
            return result[0]
        text = (
            f"step() takes grads and gave a tuple of {len(result)}; write the "
            f"gradients into grads and return the loss alone, or yield the name of "
            f"each when it is written."
        )
        raise _wrong(GradientMismatch, self._task, step, text)

    def _split(self, step: int, result: Any) -> tuple[Any, Any]:
        size = len(result) if isinstance(result, tuple) else 0
        if size == 3 and isinstance(result[2], Mapping):
            self.measures = named(self._task, step, result[2])
        elif size != 2:
            text = (
                f"step() returned {type(result).__name__}; it must return (loss, "
                f"gradients), or yield (name, gradient) one by one and return the loss."
            )
            raise _wrong(GradientMismatch, self._task, step, text)
        if isinstance(result[0], Mapping):
            text = (
                "step() returned the gradients first; write return loss, gradients "
                "instead."
            )
            raise _wrong(GradientMismatch, self._task, step, text)
        return result[0], result[1]


_MOST_REPORTS: Final = 1000  # between two heartbeats


def _no_report(step: int) -> None:
    """Return None: this worker's data are its own affair."""


class TrainingWorker:
    """One worker's source of examples and its `Compute`."""

    def __init__(
        self,
        job: Job,
        me: int,
        work: Work,
        memory: Memory,
        endpoint: Endpoint,
        state: dict[str, Any],
        own_part: OwnPart | None = None,
        compression: Mapping[str, Any] = MappingProxyType({}),
        workplace: Workplace | None = None,
    ) -> None:
        """Open the data; raises what the source refuses.

        `state` is what the step function has kept so far, `own_part` times the steps,
        and `compression` is what the compressor has kept. `workplace` is where steps
        compute, if not in `memory` as it is.
        """
        self._own_part, self.compressor = own_part, work.compressor
        self._workplace = workplace
        n, batch = len(job.workers), job.batch
        self.rank = rank = job.workers.index(me)
        self.source = source = make_source(work.data, batch, job.seed, rank, n)
        self._total = getattr(source, "total", None) or (lambda step: batch)
        self._report = source.report if isinstance(source, Reported) else _no_report
        #: Of what it has read. The member takes them out, for the coordinator.
        self.reports: deque[DataReport] = deque(maxlen=_MOST_REPORTS)
        self._is_users = self.source is work.data
        step, task = work.step, job.tasks[me]
        if hasattr(step, "for_worker"):  # a graph
            # In parts only where one can travel while the rest is computed.
            is_cut = len(job.layout.buckets) > 1
            in_parts = job.synchronous and job.own_work.hands_over and is_cut
            step = step.for_worker(task, rank, job.seed, in_parts=in_parts)
        if workplace is not None:
            step = workplace.step_of(step)
        if RNG in requested(step):
            check_seed(job.seed)

        # Without `self`: a cycle would keep the buffers until it is collected.
        def draw(number: int, piece: int) -> np.random.Generator:
            return generator(job.seed, number, rank, piece)

        scaling: Any = work.compressor if SCALE in requested(step) else None

        def scale() -> float:
            return float(scaling.scale_of(compression))

        self._arrays = arrays = StepArrays(
            memory,
            endpoint.stamp,
            str(task),
            native=job.settings.native,
            may_overflow=scaling is not None,
        )
        own: OwnGradient = load(job.own_work.by)(job, arrays, state)
        self._own = own
        compute = Compute(
            step,
            own.params,
            arrays.gradients,
            str(task),
            draw,
            own.kept,
            job.settings.nan_loss,
            scale,
        )
        self._compute: Compute | Accumulation = compute
        if job.own_work.n_pieces > 1:
            self._compute = Accumulation(compute, job.own_work.n_pieces, arrays)
        self.taken = 0  # mini-batches read at the worker's own pace
        self._measured: Measured = {}, 0

    def forget(self) -> None:
        """Look up anew where steps read and write; the memory is another then."""
        self._arrays.forget()

    def measured(self) -> Measured:
        """Return what the last step gave besides its loss, and its examples."""
        return self._measured

    def compute(self, step: int, ready: Ready) -> tuple[float, int]:
        """Do the own part of a synchronous step: its loss and its examples."""
        run = self._own.run
        loss, self._measured = run(step, self._read, self._compute, ready)
        return loss, self._measured[1]

    def take_mean(self, n: int) -> None:
        """Go on from the mean of `n` workers, whose sum the exchange has left here."""
        self._own.take_mean(n)

    def compute_next(self, version: int) -> tuple[float, int]:
        """Compute the gradients of this worker's own next mini-batch."""
        number, self.taken = self.taken, self.taken + 1
        batch, examples, _ = self._read(number)
        loss = self._compute(version, batch, 1.0, lambda bucket: None, number=number)
        self._measured = self._compute.measures, examples
        return loss, examples

    def _read(self, number: int) -> tuple[Batch, int, int]:
        """Return this worker's part of a mini-batch; see `Read`."""
        timed = self._own_part
        begin = timed.clock() if timed is not None else 0
        batch, examples = self.source.batch(number), self.source.examples(number)
        if (report := self._report(number)) is not None:
            self.reports.append(report)
        if self._is_users:  # ours give copies; a step may write into what it gets
            batch = tuple(
                part.copy() if isinstance(part, np.ndarray) else part for part in batch
            )
        if self._workplace is not None:
            batch = self._workplace.take_in(batch)
        if timed is not None:
            timed.load(begin)
        return batch, examples, self._total(number)
