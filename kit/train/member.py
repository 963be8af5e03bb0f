"""One member of a training: its thread, its links, its account.

The thread goes from boundary to boundary: it arrives, prepares what was agreed, then
does step after step until a halt. A second, small thread gives signs of life and brings
the news when the training has failed elsewhere; it ends every wait of the first.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Protocol

from kit.errors import (
    DeadlineExceededError,
    KitError,
    LinkLost,
    PeerLost,
    UnavailableError,
    UnknownError,
)
from kit.exchange.connect import Joining, Quarters
from kit.exchange.endpoint import Endpoint
from kit.exchange.port import NO_HALT, Stamp
from kit.membership import Epoch, Verdict
from kit.testing.history import History
from kit.trace import EpochRow
from kit.traffic import Meter
from kit.train.authority import Answer, Authority
from kit.train.council import Council
from kit.train.job import Job, Work
from kit.train.part import Part
from kit.train.stage import Stage
from kit.wire.arena import Arena
from kit.wire.stream import Stream

_JOIN_S = 5.0
_LOOK_S = 0.2


class Services(Protocol):
    """What the task's server does for a member."""

    @property
    def cluster_number(self) -> int:
        """What frames carry to tell clusters apart."""

    def streams(self, job: Job, me: int) -> Mapping[int, Stream]:
        """Return a data stream to every other member."""

    def council(self, job: Job, me: int, authority: Authority | None) -> Council:
        """Return the way to the coordinator."""

    def spins(self, job: Job) -> int:
        """Return how often to look before giving the processor away."""


class Member:
    """A task's part in one training, from `start` until `state` is done or failed."""

    def __init__(
        self, job: Job, me: int, work: Work | None, services: Services
    ) -> None:
        """Prepare member number `me`; a worker needs `work`."""
        self.job, self.me, self.work = job, me, work
        self.task = job.tasks[me]
        self.state = "starting"
        self.error: KitError | None = None
        self.epochs: list[EpochRow] = []
        limits = job.settings
        self.meter = Meter(me, limit=limits.trace_rows, trace=limits.trace)
        self.authority = Authority(job) if me == job.coordinator else None
        self.part: Part | None = None
        self._services = services
        self._council: Council | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"kit-run-{self.task.short}", daemon=True
        )
        self._endpoint: Endpoint | None = None
        self._arenas: list[Arena] = []
        self._streams: list[Stream] = []

    def start(self) -> None:
        """Start the thread and return."""
        self._thread.start()

    def abort(self, error: KitError) -> None:
        """End this member's part, wherever it stands; from any thread."""
        self.error = self.error or error
        if self._endpoint is not None:
            self._endpoint.abort(self.error)
        if self.part is None:  # it waits for its neighbours' arenas
            for stream in self._streams:
                stream.shutdown()

    def join(self, timeout_s: float) -> bool:
        """Wait until the thread has ended; whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def step(self) -> int:
        """How many steps are committed."""
        return self.part.step if self.part else 0

    @property
    def is_over(self) -> bool:
        """Whether the training has ended here, well or not."""
        return self.state in ("done", "failed")

    def release(self) -> None:
        """Let go of the buffers; only when the member is over."""
        self.part = self._endpoint = None
        self._streams.clear()
        for arena in self._arenas:
            arena.close()
        self._arenas.clear()
        # The frames that an error went through hold on to the buffers.
        _forget_frames(self.error)
        if self.authority is not None:
            _forget_frames(self.authority.error)

    def _run(self) -> None:
        state = "failed"
        with ExitStack() as stack:
            try:
                self._train(self._open(stack))
                self._leave()
                state = "done"
            except BaseException as error:
                self._fail(error)
            finally:
                self._ended.set()
        self.state = state

    def _open(self, stack: ExitStack) -> Part:
        job = self.job
        self._council = council = self._services.council(job, self.me, self.authority)
        stack.callback(council.close)
        quarters = Quarters(f"kit-{self.task.short}", job.layout, len(job.tasks))
        self._arenas.append(quarters.arena)
        self._endpoint = endpoint = Endpoint(
            [str(task) for task in job.tasks],
            self.me,
            Stamp(),
            deadline_s=job.settings.step_deadline_s,
            spins=self._services.spins(job),
            asleep=quarters.control.asleep,
        )
        stack.callback(endpoint.close)
        heart = threading.Thread(
            target=self._beat, name=f"kit-heart-{self.task.short}", daemon=True
        )
        heart.start()
        stack.callback(heart.join, _JOIN_S)
        stack.callback(self._ended.set)
        joining = Joining(
            endpoint, quarters, self._services.cluster_number, job.settings.checksum
        )
        deadline = time.monotonic() + job.settings.start_deadline_s
        streams = self._services.streams(job, self.me)
        self._streams = list(streams.values())
        for stream in self._streams:
            stack.callback(stream.close)
        self._arenas += joining.join(streams, deadline)
        self.check()
        history = History(job.settings.history, self.task)
        stack.callback(history.close)
        self.part = part = Part(
            job,
            self.me,
            self.work,
            self.meter,
            self.authority,
            endpoint,
            quarters.memory,
            history,
        )
        part.reach("run.connected", 0)
        self.state = "running"
        return part

    def _train(self, part: Part) -> None:
        with closing(Stage(part)) as stage:
            try:
                self._meet_and_work(part, stage)
            except BaseException as error:
                self._fail(error)  # first: closing waits for the exchange thread
                raise

    def _meet_and_work(self, part: Part, stage: Stage) -> None:
        number = 0
        while True:
            answer = self._ask_until(number, part.step)
            if answer.verdict is Verdict.FINISH:
                return
            number += 1
            if answer.verdict is Verdict.PREPARE and answer.epoch is not None:
                self._change(part, stage, number - 1, answer.epoch)
                continue  # no step yet: the training may be paused
            part.endpoint.stamp.halt = NO_HALT
            stage.run(answer.step)

    def _leave(self) -> None:
        self._talk().leave()
        # The others ask who leads for the verdict: it stays until they have heard it.
        give_up = time.monotonic() + self.job.settings.stop_deadline_s
        while self.authority is not None and self.error is None:
            if self.authority.see_off(_LOOK_S) or time.monotonic() > give_up:
                return

    def _change(self, part: Part, stage: Stage, number: int, epoch: Epoch) -> None:
        refusal: str | None = None
        try:
            stage.prepare(epoch)
        except Exception as error:
            refusal = f"{self.task.short}: {error}"
        part.reach("epoch.prepared", epoch.first_step)
        answer = self._talk().prepared(number, refusal)
        while answer.verdict is Verdict.WAIT:
            self.check()
            answer = self._talk().prepared(number, refusal)
        if answer.verdict is Verdict.COMMIT:
            stage.adopt(epoch)
            row = EpochRow(
                epoch.number,
                epoch.topology if epoch.synchronous else "ps-async",
                epoch.first_step,
                part.endpoint.clock(),
                epoch.link,
            )
            self.epochs.append(row)
            part.reach("epoch.committed", epoch.first_step)

    def _ask_until(self, number: int, step: int) -> Answer:
        while True:
            self.check()
            answer = self._talk().arrive(number, step)
            if answer.verdict is not Verdict.WAIT:
                return answer

    def _beat(self) -> None:
        while not self._ended.wait(self.job.settings.heartbeat_s):
            lost_leader = False
            try:
                error = self._talk().beat()
            except (UnavailableError, DeadlineExceededError) as lost:
                lost_leader, error = True, self._coordinator_lost(lost)
            except KitError as other:
                error = other
            if error is not None:
                self.abort(error)
                if lost_leader:
                    self._talk().close()  # ends a question that waits for its answer
                return

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, LinkLost):
            error = self._coordinator_lost(error)
        if not isinstance(error, KitError):
            text = f"{self.task}: {type(error).__name__}: {error}"
            plain = "".join(traceback.format_exception(error))
            error = UnknownError(text, task=str(self.task), remote_traceback=plain)
        elif error.task is None:  # what is wrong with the data, for example
            error = type(error)(f"{self.task}: {error.message}", task=str(self.task))
        told = self.error is not None
        self.abort(error)  # the exchange thread may wait for a neighbour
        if not told and self._council is not None:
            try:
                self._council.fail(error)
            except KitError:
                return  # the coordinator is gone: everybody notices that alone

    def _coordinator_lost(self, error: KitError) -> PeerLost:
        name = str(self.job.tasks[self.job.coordinator])
        text = (
            f"{name} is gone or does not answer, and it leads this training, which "
            f"ends with it ({error.message})"
        )
        return PeerLost(text, task=name, step=self.step)

    def check(self) -> None:
        """Raise what the training failed with, if it has."""
        if self.error is not None:
            raise self.error

    def _talk(self) -> Council:
        assert self._council is not None
        return self._council


def _forget_frames(error: BaseException | None) -> None:
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
