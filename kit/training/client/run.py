"""A training under way, as the notebook holds it: watch it, steer it, wait for it."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    UnknownTopology,
)
from kit.exchange.ports.memory import Array, unflatten
from kit.features import FeatureOptions, load
from kit.handles import handle
from kit.markup import Html, in_cell
from kit.progress import output_for
from kit.settings import Settings
from kit.task import Task
from kit.trace.bottleneck import Bottleneck
from kit.trace.named_rows import Change, EpochRow
from kit.trace.trace import Trace, beside
from kit.training.arguments import check_timeout
from kit.training.client import report
from kit.training.client.facts import TrainingFacts
from kit.training.client.flight_recorder import Flight
from kit.training.client.metrics import (
    Entry,
    StepMetrics,
    account,
    measured_shares,
    once_only,
    step_metrics,
)
from kit.training.client.newest import Dial
from kit.training.client.observer import Observer
from kit.training.client.saves import Resumed, SavedCheckpoints, Saving
from kit.training.client.statement import environment_of, statement
from kit.training.client.step_wait import StepWait
from kit.training.client.telling import Teller
from kit.training.client.watched import Cursors
from kit.training.core import conflicts
from kit.training.core.job import Job, Work
from kit.training.core.log import check_command
from kit.waking import waking
from kit.wire.shaping import LinkSettings

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd

    from kit.hooks import LoggerHook


_UNREPEATABLE: Final = (
    "{task}: step {step} had another loss when it was done again after a change of "
    "tasks, so the parameters are not those of an undisturbed training. The step "
    "function depends on more than its arguments. Let it draw from a parameter called "
    "`rng`, and keep what it carries from step to step in one called `state`."
)


class WaitInterrupted(KeyboardInterrupt):
    """Ctrl-C or the stop button ended a wait for a run; its text says how to go on."""


class TrainingRecorder(Protocol):
    """What records a training, as the run knows it: `kit.recording.recorder`.

    Attributes:
        error: why it ended early; empty if it did not.
    """

    error: str

    def settings(self, chosen: Settings) -> Settings:
        """Return the settings of a training that is recorded from its start."""

    def take(self, job: Job) -> None:
        """Take the job; raises `InvalidArgumentError` for one that it cannot record."""

    def begin(self, source: TrainingFacts, *, from_start: bool = False) -> None:
        """Begin to record what is known of the training."""

    def give_up(self) -> None:
        """Leave nothing behind: the training has not begun."""


@handle
class Run:
    """A training that is running, or over. `kit.train` returns it at once.

    The training goes on in the tasks, whether or not you watch it. Set `topology`,
    `link` or `synchronous` to change them: all members take the change up between the
    same two steps, or none of them does.

    It has many methods, since all that is done with a training is found here by
    completion.

    Attributes
    ----------
    job : Job
        What all members have agreed on.
    recommendation : Recommendation or None
        Why it began with this topology, where `kit.train` was to choose it.

    Examples
    --------
    Follow a training and change it while it runs::

        run = kit.train(step, params, data, steps=300)
        run.topology = "ring"
        run.wait()
        run.params["w"], run.loss
    """

    job: Job
    recording: TrainingRecorder | None
    #: Who knows the training: its observer, or the recording that was loaded.
    source: TrainingFacts

    #: Why this topology, if `kit.train` was asked to choose one.
    recommendation: Any = None
    #: The curves that were found beside the checkpoints: `kit.experiments.earlier`.
    earlier: Any = None

    def __init__(
        self,
        job: Job,
        dial: Dial,
        *,
        trusted: int | None = None,
        bring: Callable[[str], None] | None = None,
        restart: Callable[[Task], None] | None = None,
    ) -> None:
        """Watch the training `job`, reaching its tasks by `dial`.

        `trusted` is the member whose word counts, by default the coordinator: it says
        how the training ended. A worker that watches its own training trusts itself.
        `bring` gives the tasks a topology of the user's, before a switch to it;
        `restart` gives a task whose step does not end a new process.
        """
        observer = Observer(job, dial, trusted=trusted)
        observer.stuck.restart = restart
        self._take(job, observer, bring)
        self._leads_here = trusted in (None, job.coordinator)

    @classmethod
    def over(cls, job: Job, source: TrainingFacts) -> Run:
        """Return the run of a training that is over, about which `source` knows all."""
        run = cls.__new__(cls)
        run._take(job, source)
        return run

    def _take(
        self,
        job: Job,
        source: TrainingFacts,
        bring: Callable[[str], None] | None = None,
    ) -> None:
        self.job, self.source, self._bring = job, source, bring
        self._params: dict[str, Array] | None = None
        self._leads_here = False
        self._work: Work | None = None
        self._logs: list[Any] = []  # what hands it on to loggers
        self.recording: TrainingRecorder | None = None

    # -- steer ------------------------------------------------------------------
    # Each request is one small message, and returns at once. All members take it up
    # together at a boundary between two steps, or none does.

    @property
    def topology(self) -> str:
        """How gradients meet now; set it to switch at the next step boundary."""
        row = self.source.epoch()
        return row.topology if row else self.job.topology

    @topology.setter
    def topology(self, name: str) -> None:
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"topology is {name!r}; give its name: run.topology = 'ring'."
            )
        self._configure(topology=name)

    @property
    def link(self) -> str:
        """The speed of the links, `""` for full speed; set it like `"1gbit,5ms"`."""
        row = self.source.epoch()
        return row.link if row else self.job.link

    @link.setter
    def link(self, text: str) -> None:
        self._configure(link=str(LinkSettings.parse(text)))

    @property
    def synchronous(self) -> bool:
        """Whether a step is made of all workers' gradients; else each goes alone.

        Set it to change that at the next step boundary. Asynchronous training meets at
        the parameter servers alone: `InvalidArgumentError` for another topology.
        """
        row = self.source.epoch()
        return not row.is_asynchronous if row else self.job.synchronous

    @synchronous.setter
    def synchronous(self, wanted: bool) -> None:
        self._configure(synchronous=wanted)

    def switch(
        self,
        topology: str | None = None,
        *,
        link: str = "",
        synchronous: bool | None = None,
        at: int,
    ) -> None:
        """Change the configuration from step number `at` on.

        What is left out stays as it is. To change something as soon as possible, set
        `topology`, `link` or `synchronous` instead. Returns at once.

        Parameters
        ----------
        topology : str, optional
            The name of a topology, such as "ring".
        link : str, default ""
            The speed of the links, such as "1gbit,5ms".
        synchronous : bool, optional
            Whether an update uses the gradients of all workers.
        at : int
            The first step of the new configuration.

        Raises
        ------
        InvalidArgumentError
            This training cannot be changed like that, or has no such step. Nothing
            changes.

        Examples
        --------
        Go round a ring from step 100 on, over slower links::

            run.switch("ring", link="1gbit,5ms", at=100)
        """
        speed = str(LinkSettings.parse(link)) if link else None
        changes = {"topology": topology, "link": speed, "synchronous": synchronous}
        named = {name: value for name, value in changes.items() if value is not None}
        self._configure(at=at, **named)

    @property
    def switching(self) -> str:
        """The topology that is requested and does not hold yet; else empty."""
        return self.source.pending()

    @property
    def requested(self) -> dict[str, Any]:
        """The topology, link and `synchronous` requested that do not hold yet."""
        request = self.source.requested() or {}
        names = ("topology", "link", "synchronous")
        return {name: request[name] for name in names if name in request}

    @property
    def halting(self) -> str:
        """What waits for the end of the step under way: pausing, stopping, else ""."""
        if self.source.finished.done():
            return ""
        return str(self.source.leads().get("halting", ""))

    @property
    def refused(self) -> str:
        """Why the last request was not taken up; empty if it was."""
        return str(self.source.leads().get("abandoned", ""))

    def pause(self) -> None:
        """Pause between two steps, until `resume`. Returns at once."""
        self.source.command("pause", steps=0)

    def advance(self, steps: int = 1) -> None:
        """Run some more steps, then pause. Returns at once.

        Parameters
        ----------
        steps : int, default 1
            How many, at least 1.
        """
        self.source.command("pause", steps=steps)

    def resume(self) -> None:
        """Go on after a pause."""
        self.source.command("resume")

    def stop(self) -> None:
        """End the training between two steps and keep its parameters. Returns at once.

        Workers that do not agree (`topology="gossip"`) do one more step, to agree. A
        step that does not end within some seconds is given up: the training fails with
        `AbortedError`, and a task in which the step goes on even then gets a new
        process, which a note of the error says. With the default settings all of this
        takes less than 10 s.
        """
        with suppress(FailedPreconditionError):  # it is over
            self.source.command("stop")

    def look(self) -> None:
        """Ask the coordinator at once how things stand, as is done regularly anyway."""
        with suppress(KitError):  # it may be over already; it is polled anyway
            self.source.command("look")

    def _configure(self, **changes: Any) -> None:
        values = check_command("configure", changes)
        self.job.check_step(values.get("at", 0))
        if "topology" in values:
            conflicts.check(self.job, values["topology"], is_switch=True)
            # All tasks must know a topology of the user's own before they switch to it.
            if self._bring is not None:
                self._bring(values["topology"])
        try:
            self.source.command("configure", **values)
        except UnknownTopology as error:
            raise UnknownTopology(
                f"{error.message} {values['topology']!r} is of your own, and no code "
                f"travels over links: register it in the programs of the tasks as well."
            ) from error

    # -- save -------------------------------------------------------------------

    def save(self) -> Saving:
        """Save a checkpoint at the next boundary between two steps; return at once.

        Returns
        -------
        Saving
            `run.save().wait()` and `await run.save()` give a `Saved`, with the step
            and the path.

        Raises
        ------
        FailedPreconditionError
            The training is over, or has no folder for checkpoints.

        Notes
        -----
        The training stops only while the parameters are copied.
        """

        def ask(ticket: str) -> None:
            self.source.command("save", ticket=ticket)

        return Saving(ask, self._saves, self._is_over)

    def record(self, folder: str | PathLike[str] | FeatureOptions) -> TrainingRecorder:
        """Record the training to a folder, as far as it is not over; return at once.

        `kit.train(..., record=folder)` does so from the first step on. A recording that
        is begun later lacks the digests and states of the time before, and messages
        that are not kept any more.

        Parameters
        ----------
        folder : str, PathLike or Recording
            A folder that does not exist, or is empty; or a `kit.Recording`, which sets
            more.

        Returns
        -------
        Recorder
            `run.recording`: its `error` says why it ended early, if it did.

        Raises
        ------
        AlreadyExistsError
            There is something in the folder.
        FailedPreconditionError
            The training is over, or is recorded already.

        Examples
        --------
        Keep what is going on for later::

            run.record("run-1")
            run.wait()
            kit.replay("run-1", step=step, data=data)
        """
        if self.recording is not None or self.done:
            what = f"recorded: {self.recording}" if not self.done else "over or closed"
            raise FailedPreconditionError(
                f"the training is already {what}. Record one that is under way, or "
                f"begin another with kit.train(..., record=folder)."
            )
        begin = load("kit.recording.recorder:recorder_of")
        recorder: TrainingRecorder = begin(folder, self._work)
        try:
            recorder.take(self.job)
        except InvalidArgumentError:
            recorder.give_up()
            raise
        recorder.begin(self.source)
        self.recording = recorder
        return recorder

    def began(self, work: Work | None, recorder: TrainingRecorder | None) -> None:
        """Take what the training was begun with, and its recorder."""
        self._work = work
        if recorder is not None:
            recorder.begin(self.source, from_start=True)
            self.recording = recorder

    def log_to(self, *loggers: LoggerHook) -> None:
        """Hand the training on to loggers, from its first step that is kept to its end.

        `kit.train(..., hooks=[logger])` does so from the beginning. A training that is
        over, or was loaded (`kit.load_run`), is logged at once.

        Parameters
        ----------
        *loggers : LoggerHook
            Such as `kit.hooks.TensorBoardHook(folder)`.

        Raises
        ------
        Exception
            What a logger raises when it is opened.

        Examples
        --------
        Look at a recording in TensorBoard::

            kit.load_run("run-1").log_to(kit.hooks.TensorBoardHook("logs/run-1"))
        """
        self._logs.append(load("kit.experiments.logged:follow")(self, loggers))

    # -- wait -------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the training is over, well or not, or watched no more (`close`)."""
        return self.source.finished.done()

    def close(self) -> None:
        """Stop watching a training that goes on; its thread and links here end.

        What is known stays: `state` and `step` are those of this moment. Waits and
        requests raise `CancelledError` from then on. Not needed when it is over.
        """
        self.source.close()

    def wait(self, timeout: float | None = None) -> Run:
        """Block until the training is over, and return this run.

        Ctrl-C pauses the training and ends the wait, with a `KeyboardInterrupt` whose
        text says how to go on. In a notebook with the magics, the stop button does the
        same to a cell that awaits the run.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait. The training goes on after that.

        Raises
        ------
        DeadlineExceededError
            The training is still running after `timeout` seconds.
        KitError
            What the training failed with, such as `StepFailed` or `PeerLost`.
        """
        check_timeout(timeout)
        try:
            self.source.wait(timeout)
        except KeyboardInterrupt as stop:
            raise self._interrupted("run.wait()") or stop from None
        self._warn()
        return self

    def until(self, step: int | Callable[[Run], Any]) -> StepWait:
        """Return a wait for a step: `await run.until(100)`, or `run.until(100).wait()`.

        It ends when so many steps are done, or when the training is over before: done,
        stopped or failed, which `run.done` says and `run.wait()` raises. While the
        training is paused, a line says so.

        Parameters
        ----------
        step : int or callable
            How many steps, or a function that is called with this run, some fifty times
            a second, until what it returns is true.

        Returns
        -------
        StepWait
            It gives this run.

        Raises
        ------
        InvalidArgumentError
            `step` is neither a whole number nor a function.

        Examples
        --------
        Kill a task, and wait until its loss is reported::

            cluster.kill("worker:1")
            await run.until(lambda run: run.losses)
        """
        return StepWait(self, step)

    def __await__(self) -> Generator[Any, None, Run]:
        try:
            over = asyncio.wrap_future(self.source.finished)
            yield from waking(over).__await__()
        except asyncio.CancelledError as stop:
            # A deadline cancels as the stop button of a notebook does. Only a cell
            # that ends with this was stopped: who shows it (`kit.magics`) calls that.
            again = partial(self._interrupted, "await run")
            stop.pause_training = again  # type: ignore[attr-defined]
            raise
        self._warn()
        return self

    def _interrupted(self, again: str) -> WaitInterrupted | None:
        """Pause, and return what to tell the caller, who may wait `again`.

        None if it cannot pause: it may be over, or its coordinator gone.
        """
        try:
            self.pause()
        except KitError:
            return None
        return WaitInterrupted(
            f"the wait was interrupted, and the training is paused "
            f"({self.step} of {self.job.steps} steps are done). run.resume() goes "
            f"on with it, {again} waits again, and run.stop() ends it."
        )

    def _warn(self) -> None:
        for task, step in self.unrepeatable.items():
            warnings.warn(_UNREPEATABLE.format(task=task, step=step), stacklevel=3)
        for text in self.source.stuck.said:
            warnings.warn(text, stacklevel=3)
        for text in [text for log in self._logs for text in log.errors]:
            warnings.warn(text, stacklevel=3)
        if self.recording is not None and self.recording.error:
            warnings.warn(self.recording.error, stacklevel=3)

    # -- look -------------------------------------------------------------------

    @property
    def _has_ended(self) -> bool:
        return self.source.state() in ("done", "failed")

    @property
    def stuck(self) -> list[Task]:
        """The tasks in which a step goes on although the training has ended."""
        return self.source.stuck_tasks()

    @property
    def step(self) -> int:
        """How many steps are committed so far, as far as is known here."""
        return self.source.step()

    @property
    def state(self) -> str:
        """One of running, paused, done, failed."""
        return self.source.state()

    @property
    def checkpoints(self) -> SavedCheckpoints:
        """What is saved of this training: the last one, and why one was refused."""
        return SavedCheckpoints(self.job.checkpoints, self._saves)

    @property
    def resumed_from(self) -> Resumed | None:
        """The checkpoint that it went on from, None if it began at step 0."""
        return self.checkpoints.resumed

    @property
    def curves_before(self) -> Any:
        """The curves up to the checkpoint that it went on from, None without."""
        went_on = self.resumed_from
        return went_on and self.earlier and self.earlier.until(went_on.step)

    def show_progress(self, hooks: Any) -> None:
        """Show what steps and hooks report here, or log it; `kit.train` does so.

        The newest line of the hooks is one output of the cell or one line of the
        terminal, which is overwritten. What is printed are lines with the task's name.
        """
        if not self._leads_here:
            return
        teller = Teller(output_for(sys.stdout))
        if hooks and hooks.tell:
            teller.reserve()
        self.source.let_tell(teller)
        if hooks != () and hooks.loggers:
            try:
                self.log_to(*hooks.loggers)
            except BaseException:
                with suppress(KitError):
                    self.stop()
                    self.wait(self.job.settings.step_deadline_s)
                raise

    @property
    def environment(self) -> dict[str, Any]:
        """What it is computed with: versions, BLAS, threads, CPU, commit, tasks.

        Numbers that decide the last bits are those of the first worker. The commit is
        that of the folder in which the notebook's process was first asked for it.
        """
        return environment_of(self)

    def statement(self) -> str:
        """Return a paragraph for a paper: what was computed, and what is reproducible.

        Returns
        -------
        str
            Steps, optimizer, tasks and seed, what it was computed with, and whether
            another run gives the same numbers.

        Examples
        --------
        Keep it beside the figure::

            print(run.statement())
        """
        return statement(self)

    @property
    def messages(self) -> list[str]:
        """The newest lines that hooks have logged."""
        return [str(text) for _, _, text in self.source.coordinator.said]

    def _saves(self) -> dict[str, Any]:
        return self.source.leads().get("saves") or {}

    def _is_over(self) -> bool:
        """Raise what the training failed with; else whether it is over."""
        return self.done and self.source.finished.result() is None

    @property
    def error(self) -> KitError | None:
        """What the training failed with, None if it has not."""
        error = self.source.finished.exception() if self.done else None
        return error if isinstance(error, KitError) else None

    @property
    def loss(self) -> float:
        """The mean loss of the last step that is known here; NaN before the first."""
        return self.source.rows.loss

    @property
    def metrics(self) -> list[StepMetrics]:
        """The loss, times and staleness of each step, as a list of `StepMetrics`.

        Of a long training the older steps are thinned out, as in `trace`.
        """
        return step_metrics(self.trace)

    def frame(self) -> pd.DataFrame:
        """Return the metrics as a DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row for each step, indexed by its number. The columns are the fields of
            `StepMetrics`, and one for each measure that the step function returns: if
            that is called as another column is, "loss (2)". Of a long training the
            older steps are thinned out, as in `trace`; what was measured seldom, such
            as a validation, is kept, with NaN in the columns of a step that was not.
            A training that was resumed begins with the loss and the measures of the
            steps before its checkpoint, if `curve.json` is beside that.

        Examples
        --------
        Draw the loss by step::

            run.frame()["loss"].plot()
        """
        import pandas as pd

        trace, columns = self.trace, list(StepMetrics.__annotations__)
        table = pd.DataFrame(step_metrics(trace), columns=columns).set_index("step")
        names = sorted({item.decode() for item in trace.measures["name"].tolist()})
        measured = pd.Index(trace.measures["step"]).unique()
        # Also the steps of which nothing else is kept, but not those still under way.
        all_steps = (
            measured[measured < table.index.max()] if len(table) else measured[:0]
        )
        before = self.curves_before
        if before is not None:
            all_steps = all_steps.union(before.step)
        table = table.reindex(table.index.union(all_steps))
        for column, name in beside(columns, {name: name for name in names}).items():
            steps, values = trace.measured(name)
            table[column] = pd.Series(values, index=steps)
        if before is not None:
            table.loc[before.step, "loss"] = before.loss
            for name, values in before.measures.items():
                table.loc[before.step, name] = values
        return table

    @property
    def trace(self) -> Trace:
        """What was recorded so far: a `Trace` of steps, transfers and spans.

        Its arrays are views, so asking costs nothing. Of a long training the older
        steps are thinned out: `trace.kept` says what is left. Totals are exact.
        """
        return self.source.trace()

    @property
    def bottleneck(self) -> Bottleneck:
        """Who makes whom wait in the newest steps, and what that costs.

        Its `str` is a sentence with numbers and what would help; `cause`, `task`,
        `cost_ms` and `share` are for programs. It speaks of the last hundred steps at
        most, of a running training as of a finished one, and says "no clear cause"
        rather than guess. Costs some 10 ms.

        Examples
        --------
        Ask a training why it is slow::

            print(run.bottleneck)
        """
        return self.trace.bottleneck

    def flight(self) -> Flight:
        """Return what each task did last and waits for, and the first cause.

        For a training that hangs, as well as for one that has failed: it is made of
        what the tasks have reported so far, ten times a second, and asks nobody.

        Returns
        -------
        Flight
            A table that a notebook shows and `print` writes, with `rows`,
            `first_cause` and the sentence `said`. The first cause is the task that is
            waited for and waits for nobody, or that has failed first.

        Examples
        --------
        See why nothing goes on::

            run.flight()
        """
        return self.source.flight()

    def news(self, since: Cursors = ()) -> tuple[Trace, Cursors]:
        """Return what was recorded after `since`, and where to ask from next time.

        Costs nothing, however many rows are new. Epochs and totals are always whole.
        """
        return self.source.news(since)

    @property
    def lost(self) -> dict[str, str]:
        """The tasks that are gone now, by short name, each with what is known of it.

        A worker that has come back is not among them; `run.trace.epochs` says since
        when it has taken part again.
        """
        lost_members = self.source.lost()
        return {
            self.job.tasks[number].short: text for number, text in lost_members.items()
        }

    @property
    def copied(self) -> int:
        """The step before which the newest whole copy of an elastic training is.

        -1 as long as there is none since the last change: of two tasks that are lost
        now, one may have held the other's part.
        """
        moment = self.source.leads().get("copied")
        return -1 if moment is None else int(moment)

    @property
    def losses(self) -> tuple[Change, ...]:
        """What an elastic training has lost so far, and what each loss has cost.

        Each is a `Change`: the tasks, the step, how many steps were done again, and the
        seconds from the last step before it until the tasks had agreed how to go on.
        `history` has those that joined too.
        """
        return tuple(change for change in self.history() if change.lost)

    @property
    def unrepeatable(self) -> dict[str, int]:
        """The workers whose step had another loss when it was done again, and which.

        Such a step depends on more than its arguments: on its process, the time, or how
        often it was called. Then the result of an elastic training is not that of the
        undisturbed run. `wait` warns of it.
        """
        steps_of = self.source.unrepeatable()
        return {self.job.tasks[number].short: step for number, step in steps_of.items()}

    def history(self) -> tuple[Change, ...]:
        """Return the tasks that an elastic training has lost or taken in, in order."""
        return self.source.changes()

    def resize(self, *, worker: int) -> None:
        """Let other numbers of worker tasks host an elastic training; return at once.

        Its logical workers, and so its bits, stay the same. The members meet before a
        step, make a copy, and go on from there on the first `worker` tasks; no step is
        done again. `history` says when they have.

        Parameters
        ----------
        worker : int
            How many worker tasks: 1 to the number of logical workers.

        Raises
        ------
        InvalidArgumentError
            There are not that many logical workers, or not that many tasks.
        FailedPreconditionError
            The training is over, or is not elastic.

        Examples
        --------
        Give half of the tasks to something else::

            run = kit.train(step, params, data, elastic=True)
            run.resize(worker=2)
        """
        self.source.command("place", workers=worker)

    def rebalance(self, shares: Mapping[str, float] | None = None) -> None:
        """Spread the logical workers of an elastic training anew; return at once.

        Parameters
        ----------
        shares : dict of str to float, optional
            How many logical workers a task hosts, relative to one that is not named.
            By default by the times that were measured: the faster a task computes a
            step of one logical worker, the more of them it gets.

        Raises
        ------
        InvalidArgumentError
            No such task takes part, or a share is not from 0.01 to 100.
        FailedPreconditionError
            The training is over, is not elastic, or has not measured enough yet.

        Notes
        -----
        It takes effect as `resize` does. Each task keeps the logical worker of its own
        name, so this changes something only where there are more of them than tasks.

        Examples
        --------
        A task on a faster host takes two parts::

            run.rebalance({"worker:1": 2})
        """
        if shares is None:
            shares = measured_shares(self.newest_job, self.trace)
        self.source.command("place", shares=shares)

    def leave(self, task: str | Task) -> None:
        """Let an elastic training go on without a task that is there; return at once.

        The task stays as it is; `cluster.remove` ends it too. Takes effect as `resize`
        does.

        Parameters
        ----------
        task : str or Task
            Such as "worker:1".

        Raises
        ------
        InvalidArgumentError
            The task takes no part, or is the only one.
        FailedPreconditionError
            The training is over, or is not elastic.

        Examples
        --------
        Keep the first worker's host for something else::

            run.leave("worker:0")
        """
        self.source.command("leave", task=Task.parse(str(task)).short)

    @property
    def newest_job(self) -> Job:
        """The job of the generation that is known here; without generations `job`."""
        return self.source.job

    @property
    def traffic(self) -> list[Entry]:
        """Bytes sent and received, for each epoch and task: measured, and by formula.

        Only for a training that is over: while it runs, the tasks' accounts are not of
        one moment.
        """
        if not self._has_ended:
            raise FailedPreconditionError(
                "the traffic account is complete when the training is over. Wait for "
                "its end with run.wait(), or end it now with run.stop() and "
                "run.wait(). What was counted so far is in run.trace."
            )
        return account(self.job, self.trace, self.step, self.source.n_steps())

    @property
    def moved_once(self) -> list[tuple[int, int, int]]:
        """(epoch, measured bytes, by formula) of what moved once, at its start."""
        return once_only(self.job, self.trace)

    @property
    def params(self) -> dict[str, Array]:
        """The parameters after the last committed step, as arrays of your own.

        While the training runs they are fetched from the coordinator, without stopping
        it; the wait is that of a copy. Where workers do not agree after a step
        (`topology="gossip"`) they are those on which all agreed last.
        """
        if self._params is not None:
            return {name: value.copy() for name, value in self._params.items()}
        # Asked before they are fetched: if the training ends meanwhile, these may be
        # older than its last ones, and must not be kept.
        is_final = self._has_ended
        values = unflatten(self.job.layout, self.source.params())
        if is_final:
            self._params = values
        return {name: value.copy() for name, value in values.items()}

    def __repr__(self) -> str:
        job = self.job
        topology = f", switching to {self.switching}" if self.switching else ""
        saved = f"; {self._saved}" if self._saved else ""
        kept = f"; trace: {thinned}" if (thinned := self._kept) else ""
        warned = f"; {job.settings.warning}" if job.settings.insecure else ""
        return (
            f"<Run {job.run[:8]} {self.state}: step {self.step} of {job.steps}, "
            f"{self.topology}{topology}, loss {self.loss:.4g}{saved}{kept}{warned}>"
        )

    @property
    def _saved(self) -> str:
        return str(self.checkpoints) if self.job.checkpoints is not None else ""

    @property
    def _kept(self) -> str:
        return str(self.source.rows.kept)

    def _ipython_display_(self) -> None:
        show = view("run")
        if show is None:
            raise NotImplementedError  # IPython then takes the table below
        show(self)

    def _repr_html_(self) -> Html:
        state, error = self.state, self.error
        requested = EpochRow(0, self.job.topology, 0, 0, self.job.link)
        picture = report.RunReport(
            run=self.job.run,
            state=state,
            step=self.step,
            steps=self.job.steps,
            loss=self.loss,
            epochs=self.source.epochs() or (requested,),
            switching=self.switching,
            error=f"{type(error).__name__}: {error.message}" if error else "",
            traffic=self.traffic if state == "done" else (),
            saved=self._saved,
            kept=self._kept,
            changes=self.history(),
            chosen=str(self.recommendation or ""),
            warning=self.job.settings.warning,
        )
        return in_cell(report.table(picture))


# --------------------------------------------------------------------------------------
# Who draws a training in a notebook: whatever registered itself as its view. A view is
# an entry point of the group `kit.views`; this package imports none itself. The view
# called `run` is given each `Run` that a cell ends with.


GROUP = "kit.views"


@cache
def view(name: str) -> Callable[..., Any] | None:
    """Return the view of that name, None if there is none that can be imported.

    Costs a search through the installed packages, once.
    """
    for entry_point in entry_points(group=GROUP, name=name):
        try:
            return cast("Callable[..., Any]", entry_point.load())
        except ImportError:  # what it draws with is not installed
            continue
    return None
