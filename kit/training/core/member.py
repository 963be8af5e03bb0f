"""One member of a training: its thread, its heart, its account.

Theory of operation. The thread opens the links of the first plan, then goes from
boundary to boundary: it asks the coordinator what all do next, and does that: prepare
and begin an epoch, take its shard of a snapshot, do steps until a halt, leave. The
heart, a second and small thread, tells the coordinator that this member lives, with
what is to be reported, and hears who is lost and whether the training has failed: then
`abort` ends every wait of the first. In the coordinator's member it also looks after
all others (`TrainingCoordinator.watch`). One stack closes all that was opened, the last
first; the memory stays until `release`, since the parameters may still be read.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from kit.arithmetic import bound_to
from kit.errors import DeadlineExceededError, KitError, LinkLost, UnavailableError
from kit.exchange.group.linked_member import LinkedMember, deadline_in
from kit.faults.history import History
from kit.features import load
from kit.task import Task
from kit.trace.named_rows import EpochRow
from kit.trace.traffic import Meter
from kit.training.core.activity import OwnPartWatch, activity
from kit.training.core.agreement import BoundaryReply, Verdict
from kit.training.core.context import MemberContext, Services
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.epoch import EpochRunner, first_partners
from kit.training.core.failures import (
    as_failure,
    coordinator_lost,
    forget_frames,
    not_opened,
)
from kit.training.core.job import Job, Work
from kit.training.core.log import Epoch
from kit.training.core.part import StepCallback, StepEvents
from kit.training.core.printed import PrintedLines
from kit.training.core.questions import CoordinatorClient, HeartbeatReply
from kit.training.core.snapshot import Beginning, Sink, begin_with
from kit.training.data.agreement import DataReport

_JOIN_S = 5.0  # for the heart, which may be waiting for an answer
_LOOK_S = 0.2  # between two checks whether all others have left


class Member:
    """A task's part in one training, from `start` until `state` is done or failed.

    It has many attributes: all that lasts as long as the training does, such as links,
    meter, hooks and coordinator. What lasts for an epoch is in `EpochRunner`, what a
    step needs in its `MemberPart`.
    """

    def __init__(
        self,
        job: Job,
        me: int,
        work: Work | None,
        services: Services,
        beginning: Beginning | None = None,
    ) -> None:
        """Prepare member number `me`; a worker needs `work`.

        `beginning`: with what it begins in a later generation.
        """
        self.job, self.me = job, me
        self.work = work and replace(work)  # a copy: we drop the initial values from it
        self.task = job.tasks[me]
        self.state = "starting"
        self.error: KitError | None = None
        self._asks_for_cause = False  # whether the error may be the effect of another
        self.epochs: list[EpochRow] = []
        limits = job.settings
        self.meter = Meter(me, limit=limits.trace_rows, trace=limits.trace)
        if beginning is not None and beginning.report is not None:
            beginning.report(self.meter)
        self._beginning = beginning
        # A heartbeat is due at once: there is something to report or to hear.
        self._stirred = threading.Event()
        self.hooks: Any = None
        self.coordinator: TrainingCoordinator | None = None
        if me == job.coordinator:
            # What is wrong with hooks or checkpoints is raised here, to the caller. In
            # the thread it would end a training that has begun everywhere else.
            if work and work.hooks:
                kind = load("kit.training.features.hooks.bridge:HookRunner")
                self.hooks = kind.of(job, work.hooks)
            log = beginning.log if beginning is not None else None
            stir = self._stirred.set
            self.coordinator = TrainingCoordinator(
                job, hooks=self.hooks, log=log, on_failure=stir
            )
        self.store = self.coordinator.store if self.coordinator else None
        self.meets_since = 0  # at a boundary (ns); 0 while it does steps
        self.last_doing: dict[str, Any] = {}  # when it failed
        self.context: MemberContext | None = None
        self.events: StepEvents | None = None  # around its steps
        self.keeper: Any = None  # while the training is recorded
        self.printed = PrintedLines()  # by its steps and hooks
        self._last_step = 0
        self._services = services
        self._client: CoordinatorClient | None = None
        self._ended = threading.Event()
        self._is_over = threading.Event()  # nothing more is done here
        self._telling = threading.Lock()
        self._thread = threading.Thread(
            target=self._run, name=f"kit-run-{self.task.short}", daemon=True
        )
        self._linked: LinkedMember | None = None
        self._sinks: dict[Verdict, Sink] = {}  # of the members' agreed snapshots
        self._own_part_watch = OwnPartWatch()

    def start(self) -> None:
        """Start the thread and return."""
        self._thread.start()

    def abort(self, error: KitError) -> None:
        """End this member's part, wherever it stands; from any thread."""
        self.error = self.error or error
        # What does not exist yet is ended by `_open`, which checks the error again
        # after it has made each of these.
        if self._linked is not None:
            self._linked.abort(self.error)

    def join(self, timeout_s: float) -> bool:
        """Wait for its end, even if it has not started yet; whether it came."""
        return self._is_over.wait(timeout_s)

    @property
    def step(self) -> int:
        """How many steps are committed."""
        context = self.context  # another thread may let go of it
        return context.step if context else self._last_step

    @property
    def thread_number(self) -> int | None:
        """The number of the thread that does the steps, while there is one."""
        return self._thread.ident

    @property
    def stepped_at(self) -> float:
        """When its newest share of a step had ended, by the monotonic clock; or 0."""
        newest = self.meter.steps.newest(1)["end"]
        return float(newest[0]) * 1e-9 if len(newest) else 0.0

    @property
    def is_over(self) -> bool:
        """Whether the training has ended here, well or not."""
        return self.state in ("done", "failed")

    @property
    def final_error(self) -> KitError | None:
        """What the training has failed with, as soon as that is final here.

        The member may still be at work: its own step ends when it returns.
        """
        return None if self._asks_for_cause else self.error

    @property
    def is_stuck(self) -> bool:
        """Whether the user's function does not return although the training ended."""
        return self._own_part_watch.is_stuck and not self.is_over

    def has_link(self, task: Task) -> bool:
        """Whether there is a data link to another member."""
        ports = self._linked.endpoint.ports if self._linked is not None else {}
        return task in self.job.tasks and self.job.tasks.index(task) in ports

    def release(self) -> None:
        """Let go of the buffers; only when the member is over."""
        if self.context is not None:
            self._last_step = self.context.step
        # They hold the context, which would keep the buffers.
        self.events = self.keeper = None
        self._beginning = None
        self._sinks.clear()
        linked, self._linked = self._linked, None
        self.context = None
        if self.hooks is not None:
            self.hooks.leave()
        if linked is not None:
            forget_frames(linked.endpoint.error)
            linked.release()
        forget_frames(self.error)
        if self.coordinator is not None:
            for error in self.coordinator.errors:
                forget_frames(error)

    def _run(self) -> None:
        state = "failed"
        with ExitStack() as stack:
            if self.store is not None:
                # First on the stack, so closed last: the folder stays locked for as
                # long as the writer may still write into it.
                stack.callback(self.store.close)
            stack.enter_context(self.printed.of_this_thread())
            try:
                self._train(self._open(stack))
                self._leave()
                state = "done"
            except BaseException as error:
                self._fail(error)
            finally:
                self._end_heart()
        # Not before links and files are closed: once a member is over, its task may
        # begin the next training, perhaps in the same folder.
        self.state = state
        try:
            self._services.ended(self)
        finally:
            self._is_over.set()

    def _end_heart(self) -> None:
        self._ended.set()
        self._stirred.set()

    def _open(self, stack: ExitStack) -> MemberContext:
        job = self.job
        client = self._services.client(job, self.me, self.coordinator)
        stack.callback(client.close)
        stack.enter_context(bound_to(client.threads))
        self._client = client
        self._linked = linked = LinkedMember(
            [str(task) for task in job.tasks],
            self.me,
            job.layout,
            label=f"kit-{self.task.short}",
            meter=self.meter,
            streams=partial(self._services.streams, job),
            cluster=self._services.cluster_number,
            deadline_s=job.settings.step_deadline_s,
            checksum=job.settings.checksum,
            native=job.settings.native,
            hosts=job.hosts,
            on_loss=self._stirred.set,
            stack=stack,
        )
        # Once such a worker is gone, what it lacks is dropped.
        is_spared = job.schedule.spares
        linked.endpoint.spared = frozenset(n for n in job.workers if is_spared({n}))
        # Before the links, which may take as long as the others take to start: a
        # failure elsewhere must be heard meanwhile.
        self._start_heart(stack)
        self.check()  # it may have been aborted before there was anything to abort
        deadline = deadline_in(job.settings.start_deadline_s)
        linked.links.open(first_partners(job, self.me), deadline)
        self.check()
        history = History(job.settings.history, self.task)
        stack.callback(history.close)
        endpoint, memory = linked.endpoint, linked.memory
        context = MemberContext(job, self.me, self.meter, endpoint, memory, history)
        self.context = context
        beginning, self._beginning = self._beginning, None
        if beginning is not None:
            context.keep(beginning.kept)
        self._prepare_sinks(context, client, stack)
        begin_with(context, beginning, self.store)
        if self.hooks is not None and self.coordinator is not None:
            self.hooks.enter(context, self.coordinator)
        context.reach("run.connected", 0)
        self.state = "running"
        return context

    def _start_heart(self, stack: ExitStack) -> None:
        heart = threading.Thread(
            target=self._beat, name=f"kit-heart-{self.task.short}", daemon=True
        )
        heart.start()
        # The stack unwinds from its end: the heart is stopped and joined before the
        # endpoint and the client that it uses are closed.
        stack.callback(heart.join, _JOIN_S)
        stack.callback(self._end_heart)

    def _prepare_sinks(
        self, context: MemberContext, client: CoordinatorClient, stack: ExitStack
    ) -> None:
        """Make what this member's shards are taken for."""
        job, coordinator = self.job, self.coordinator
        if job.checkpoints is not None:
            kind = load("kit.training.features.checkpointing.writer:CheckpointWriter")
            writer = kind(context, client, self.store, self._stirred)
            self._sinks[Verdict.SAVE] = writer
            stack.callback(writer.close)
            # Before: the writer waits for it.
            stack.callback(self._tell_of_saved, context)
        if job.generation.is_followed:
            kind = load("kit.training.features.elastic.copies:Copier")
            log = coordinator.plain_log if coordinator is not None else dict
            copier = kind(context, self._services, client.copied, log)
            self._sinks[Verdict.COPY] = copier
            stack.callback(copier.close)

    def _tell_of_saved(self, context: MemberContext) -> None:
        """Report the digests of a checkpoint under way: the heart may have stopped."""
        if context.digests.are_awaited:
            with suppress(KitError):
                self._tell()

    def _train(self, context: MemberContext) -> None:
        callbacks: list[StepCallback] = [*self._sinks.values()]
        if self.hooks is not None:
            callbacks.append(self.hooks)
        work, coordinator = self.work, self.coordinator
        with closing(EpochRunner(context, work, coordinator, callbacks)) as runner:
            self.events = runner.events
            try:
                self._meet_and_work(context, runner)
            except BaseException as error:
                # Before the runner is closed: that joins the exchange thread, which may
                # wait for a neighbour until our endpoint is aborted.
                self._fail(error)
                raise

    def _meet_and_work(self, context: MemberContext, runner: EpochRunner) -> None:
        number = 0
        while True:
            self.meets_since = context.endpoint.clock()
            if context.schedule.in_step:  # else no two members hold the same parameters
                context.digests.note(context.step, context.now)
            reply = self._ask_until(number, context.step)
            if reply.verdict is Verdict.FINISH:
                if self.hooks is not None:
                    self.hooks.end()
                return
            number += 1
            if reply.verdict is Verdict.PREPARE and reply.epoch is not None:
                self._change(context, runner, number - 1, reply.epoch)
                continue  # no step yet: the training may be paused
            if reply.verdict in self._sinks:
                self._sinks[reply.verdict].take_part(reply.step, number)
                continue
            # This also forgets the halt that led here: it would end the next stretch of
            # steps before it began.
            context.endpoint.stamp.halt = reply.halt
            self.meets_since = 0
            runner.run(reply.step)

    def _leave(self) -> None:
        # All have agreed on the end, so the coordinator may be gone already.
        with suppress(KitError):
            self._talk().leave()
        # The coordinator stays until the others have asked it for the verdict.
        give_up = time.monotonic() + self.job.settings.stop_deadline_s
        while self.coordinator is not None and self.error is None:
            if self.coordinator.see_off(_LOOK_S) or time.monotonic() > give_up:
                return

    def _change(
        self, context: MemberContext, runner: EpochRunner, number: int, epoch: Epoch
    ) -> None:
        assert self._linked is not None, "it was made when the member began"
        links, patience_s = self._linked.links, self.job.settings.step_deadline_s / 2
        refusal: str | None = None
        try:
            there = runner.prepare(epoch) - self._linked.endpoint.lost
            # Half of what the others wait for us: a link that cannot be opened is to
            # refuse the epoch in words, before they give us up.
            links.prepare(there, deadline_in(patience_s))
        except Exception as error:
            # Of whatever kind: nothing has changed yet, and the others wait for a word.
            refusal = f"{self.task.short}: {error}"
        context.reach("epoch.prepared", epoch.first_step)
        reply = self._talk().prepared(number, refusal)
        while reply.verdict is Verdict.WAIT:
            self.check()
            reply = self._talk().prepared(number, refusal)
        if reply.verdict is Verdict.COMMIT:
            # The ports first: what moves as the epoch begins travels over them.
            links.adopt(deadline_in(patience_s))
            runner.adopt(epoch)
            about = self.job.generation.about(epoch.number)
            now = context.endpoint.clock()
            begun = epoch.number, epoch.how, epoch.first_step, now, epoch.link
            self.epochs.append(EpochRow(*begun, *about))
            runner.tell_adopted()  # a hook may fail: the parameters can be read by now
            context.reach("epoch.committed", epoch.first_step)

    def _ask_until(self, number: int, step: int) -> BoundaryReply:
        while True:
            self.check()
            # Before we arrive: when all are there the coordinator judges the digests,
            # and must have those of everybody.
            self._tell()
            reply = self._talk().arrive(number, step)
            if reply.verdict is not Verdict.WAIT:
                return reply

    def _tell(self) -> HeartbeatReply:
        """Send a heartbeat with all that is to be reported, in order."""
        context = self.context
        # One at a time: were two to overtake each other, a save could be confirmed
        # before a report of damage that precedes it.
        with self._telling:
            if context is None:
                return self._talk().beat()
            data, waiting = list[DataReport](), context.data_reports
            while waiting:  # the thread of the steps may append meanwhile
                data.append(waiting.popleft())
            return self._talk().beat(context.digests.take(), data)

    def _beat(self) -> None:
        has_reported_end = False
        while not self._ended.is_set():
            self._stirred.wait(self.job.settings.beat_s)
            self._stirred.clear()
            self._own_part_watch.look(self, self._fail)
            if not has_reported_end:
                has_reported_end = self._beat_once()
            if self.is_stuck:
                self._services.ended(self)
                return

    def _beat_once(self) -> bool:
        """Tell and hear how things stand; whether the training has ended."""
        has_lost_coordinator = False
        try:
            if self.coordinator is not None:
                self.coordinator.watch()
            error, lost = self._tell()
            if self._linked is not None:
                self._linked.endpoint.lose(lost)
        except (UnavailableError, DeadlineExceededError) as lost:
            has_lost_coordinator = True
            error = coordinator_lost(self.job, self.step, lost)
        except KitError as other:
            error = other
        if error is not None:
            self.abort(error)
            if has_lost_coordinator:
                # Else a question of the first thread would wait for its deadline.
                self._talk().close()
        return error is not None

    def _fail(self, error: BaseException) -> None:
        # Before the abort, which ends the wait that explains a hang.
        self.last_doing = self.last_doing or activity(self)
        if isinstance(error, LinkLost):
            error = coordinator_lost(self.job, self.step, error)
        elif isinstance(error, DeadlineExceededError) and self.state == "starting":
            error = not_opened(self.job, error)
        failure = as_failure(error, self.task)
        is_cause = self.error is None  # else it was ended by somebody else
        asks = is_cause and self._client is not None
        self._asks_for_cause |= asks
        self.abort(failure)  # the exchange thread may wait for a neighbour
        if asks:
            limits = self.job.settings
            # If we report that another is lost, the coordinator knows the cause when
            # that one has been silent for `suspect_after_s`, or has sent a heartbeat.
            patience_s = limits.suspect_after_s + 2 * limits.beat_s
            if self.job.is_elastic:
                patience_s = 0.0  # the processes find the cause when they ask them all
            # Without an answer the coordinator is gone: each notices that by itself.
            with suppress(KitError):
                self.error = self._talk().fail(failure, patience_s) or failure
            self._asks_for_cause = False
        if is_cause and self.coordinator is not None:
            # Its heart, which watches over all, ends with it: nothing may stay open.
            self.coordinator.fail(self.error or failure)

    def check(self) -> None:
        """Raise what the training failed with, if it has."""
        if self.error is not None:
            raise self.error

    def _talk(self) -> CoordinatorClient:
        assert self._client is not None
        return self._client
