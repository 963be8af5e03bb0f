"""`tf.train.Supervisor`: one session of a graph, saved by the chief while it trains.

    chief    restores the newest checkpoint of `logdir`, else initialises; then
             saves and writes summaries now and then, in threads
    worker   waits until the chief has done so

It stands on the session manager, the saver and the coordinator that a monitored
session uses. Unlike that one it makes no new session after a failure: the program does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from kit.checkpoint.files import replace_file
from kit.errors import InvalidArgumentError
from kit.graph.ops.state.summaries import scalar_summary
from kit.tf1 import logging
from kit.tf1.gfile import local_path
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.session.session import Session
from kit.tf1.summary.event_files import FileWriter
from kit.tf1.summary.messages import INSTALL, is_installed, message
from kit.tf1.summary.ops import merge_all
from kit.tf1.train.checkpointing.saver import Saver, export_meta_graph
from kit.tf1.train.global_step import global_step as value_of_step
from kit.tf1.train.monitored.scaffold import Scaffold
from kit.tf1.train.monitored.session_manager import SessionManager
from kit.tf1.train.queues.coordinator import Coordinator, LooperThread
from kit.tf1.variables.variable_lists import (
    global_variables,
    global_variables_initializer,
    report_uninitialized_variables,
)

_USE_DEFAULT: Final = 0  # the original's; compared by identity
_N_RATES = 10  # how many rates the original logs


class Supervisor:
    """Makes a session that is ready, runs services beside it, and ends them together.

        sv = tf.train.Supervisor(is_chief=task == 0, logdir="/models/run")
        with sv.managed_session(server.target) as sess:
            while not sv.should_stop():
                sess.run(train_op)

    What is `USE_DEFAULT` is the first of the graph's collection, or made and added to
    it; None stands for nothing. What it uses is an attribute, called as here; `coord`
    stops the threads. Only a chief with a `logdir` saves: the first time when the
    session begins, then every `save_model_secs`, 0 for never.
    """

    USE_DEFAULT: ClassVar[Any] = _USE_DEFAULT

    _has_told_graph = False  # to the file that the writer has open

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = _USE_DEFAULT,
        ready_for_local_init_op: Any = _USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = _USE_DEFAULT,
        init_feed_dict: Any = None,
        local_init_op: Any = _USE_DEFAULT,
        logdir: str | os.PathLike[str] | None = None,
        summary_op: Any = _USE_DEFAULT,
        saver: Any = _USE_DEFAULT,
        global_step: Any = _USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: Any = None,
        summary_writer: Any = _USE_DEFAULT,
        init_fn: Callable[[Any], Any] | None = None,
        local_init_run_options: Any = None,
    ) -> None:
        """Add what is missing to the graph, and finalize it.

        `summary_writer` has the methods `add_summary(summary, global_step)` and
        `close`. Raises `ValueError` for a variable without a device when this is not
        the chief, and for `ready_for_local_init_op` without `local_init_op`.
        """
        self._graph = get_default_graph() if graph is None else graph
        self.ready_op, self.init_op, self.local_init_op = (
            ready_op,
            init_op,
            local_init_op,
        )
        self.ready_for_local_init_op = ready_for_local_init_op
        self.saver, self.summary_op, self.global_step = saver, summary_op, global_step
        with self._graph.as_default():
            self._fill()
        self.is_chief, self.coord = is_chief, Coordinator()
        self._stop_grace_secs = stop_grace_secs
        self.init_feed_dict, self._init_fn = init_feed_dict, init_fn
        self._logdir = local_path(logdir) if is_chief and logdir else None
        self.save_path: str | None = None
        if self._logdir is not None:  # as it is written: not made a Path
            self.save_path = f"{self._logdir.rstrip('/')}/{checkpoint_basename}"
        self.save_summaries_secs = save_summaries_secs if is_chief else None
        self.save_model_secs = save_model_secs if is_chief else None
        self.summary_writer: Any = None
        if is_chief:
            self.summary_writer = self._writer_of(summary_writer)
        self.session_manager = session_manager
        if session_manager is None:
            self.session_manager = SessionManager(
                local_init_op=self.local_init_op,
                ready_op=self.ready_op,
                ready_for_local_init_op=self.ready_for_local_init_op,
                graph=self._graph,
                recovery_wait_secs=recovery_wait_secs,
                local_init_run_options=local_init_run_options,
            )
        if not is_chief:
            self._check_devices()
        self._graph.finalize()

    def _fill(self) -> None:
        """Take what was not given from the graph's collections, or make it.

        In the original's order, which decides about the names of what is made.
        """
        self._default("ready_op", GraphKeys.READY_OP, report_uninitialized_variables)
        self._default(
            "ready_for_local_init_op", GraphKeys.READY_FOR_LOCAL_INIT_OP, lambda: None
        )
        self._default("init_op", GraphKeys.INIT_OP, global_variables_initializer)
        self._default(
            "local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op
        )
        self._default("saver", GraphKeys.SAVERS, _new_saver)
        self._default("summary_op", GraphKeys.SUMMARY_OP, merge_all)
        self._default("global_step", GraphKeys.GLOBAL_STEP, _step_by_name)

    def _default(self, name: str, key: str, make: Callable[[], Any]) -> None:
        if getattr(self, name) is not _USE_DEFAULT:
            return
        chosen = self._graph.get_collection(key)
        if len(chosen) > 1:
            logging.info(
                "Found %d %s operations. Returning the first one.", len(chosen), key
            )
        made = chosen[0] if chosen else make()
        if not chosen and made is not None:
            self._graph.add_to_collection(key, made)
        setattr(self, name, made)

    def _writer_of(self, writer: Any) -> Any:
        """Return the writer that was given, or one for the folder; None for nothing."""
        if writer is not _USE_DEFAULT:
            return writer
        if self._logdir is None:
            return None
        if is_installed():
            return FileWriter(self._logdir)
        if self.summary_op is not None:
            logging.warning(
                "The summaries are lost: event files are written by TensorBoard, "
                "which is not installed. Install it with: %s",
                INSTALL,
            )
        return None

    def _check_devices(self) -> None:
        """Raise `ValueError` for a variable whose task is left open.

        Each worker would have its own, and wait for a value that nobody gives it.
        """
        for op in self._graph.get_operations():
            if op.type in ("Variable", "VariableV2") and not op.device:
                raise ValueError(
                    f"When using replicas, all Variables must have their device set: "
                    f"{op.name!r} has none. Make the variables in a 'with "
                    f"tf.device(tf.train.replica_device_setter(cluster=cluster)):'."
                )

    # -- sessions and what runs beside them --------------------------------------------

    def prepare_or_wait_for_session(
        self,
        master: Any = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:
        """Return a session that is ready, with services and queue runners started.

        The chief restores or initialises, a worker waits for it. Raises what
        `SessionManager.prepare_session` and `wait_for_session` raise.
        """
        self.coord.clear_stop()  # for those who make a new session after a failure
        self._tell_writer("reopen")
        if self.is_chief:
            session = self.session_manager.prepare_session(
                master,
                init_op=self.init_op,
                saver=self.saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self.init_feed_dict,
                init_fn=self._init_fn,
            )
            self._write_graph()
            if start_standard_services:
                logging.info("Starting standard services.")
                self.start_standard_services(session)
        else:
            session = self.session_manager.wait_for_session(
                master, config=config, max_wait_secs=max_wait_secs
            )
        if start_standard_services:
            logging.info("Starting queue runners.")
            self.start_queue_runners(session)
        return session  # type: ignore[no-any-return]

    def _write_graph(self) -> None:
        """Leave the graph in the folder, as text to read."""
        if self._logdir is not None:
            Path(self._logdir).mkdir(parents=True, exist_ok=True)
            text = str(self._graph.as_graph_def())
            replace_file(Path(self._logdir, "graph.pbtxt"), text.encode())
        if self._has_told_graph:
            return
        self._has_told_graph = True
        self._tell_writer("add_graph", self._graph)
        saver_def = self.saver.saver_def if self.saver else None
        meta_graph = export_meta_graph(graph=self._graph, saver_def=saver_def)
        self._tell_writer("add_meta_graph", meta_graph)

    def start_standard_services(self, sess: Any) -> list[LooperThread] | None:
        """Start the threads that save, write summaries and measure; return them.

        None, with a warning, without a `logdir`. Raises `RuntimeError` for a worker.
        """
        if not self.is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only "
                "chief supervisors can write events."
            )
        if self._logdir is None:
            logging.warning(
                "Standard services need a 'logdir' passed to the SessionManager"
            )
            return None
        self._log_session(sess, "START")
        threads: list[LooperThread] = []
        if self.save_summaries_secs and self.summary_writer is not None:
            if self.summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self.global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self.saver is not None and self.save_model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    def start_queue_runners(self, sess: Any, queue_runners: Any = None) -> list[Any]:
        """Start the threads of queue runners, by default the graph's; return them."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        started: list[Any] = []
        for runner in queue_runners:
            started += runner.create_threads(
                sess, coord=self.coord, daemon=True, start=True
            )
        return started

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
    ) -> LooperThread:
        """Start a thread that calls `target` every so many seconds; return it.

        None is without a pause. An error of `target` ends the training.
        """
        return LooperThread.loop(self.coord, timer_interval_secs, target, args, kwargs)

    def stop(
        self,
        threads: Any = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Stop the threads and wait for them; the session stays open.

        Raises what one of them raised, and `RuntimeError` for those that still run
        after `stop_grace_secs`, unless `ignore_live_threads`.
        """
        self.coord.request_stop()
        try:
            self.coord.join(threads, self._stop_grace_secs, ignore_live_threads)
        finally:
            if close_summary_writer:  # last: a thread may have been using it
                self._log_session(None, "STOP")
                self._tell_writer("close")
                self._has_told_graph = False

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop; see `Coordinator.request_stop`."""
        self.coord.request_stop(ex)

    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self.coord.should_stop()

    def stop_on_exception(self) -> AbstractContextManager[None]:
        """Stop all threads if the block raises; see `Coordinator`."""
        return self.coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Wait until somebody requests a stop."""
        self.coord.wait_for_stop()

    def summary_computed(
        self, sess: Any, summary: Any, global_step: int | None = None
    ) -> None:
        """Give a summary to the writer, by default with the session's step.

        Raises `RuntimeError` if there is no writer.
        """
        if self.summary_writer is None:
            raise RuntimeError(
                f"Writing a summary requires a summary writer: that of a chief with a "
                f"logdir, where TensorBoard is installed: {INSTALL}; or one given as "
                f"summary_writer."
            )
        if global_step is None and self.global_step is not None:
            global_step = value_of_step(sess, self.global_step)
        self.summary_writer.add_summary(summary, global_step)

    @contextmanager
    def managed_session(
        self,
        master: Any = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Any]:
        """Make a session for a block; then stop the threads and close it.

        Raises what the block or a thread raised first. `OutOfRangeError`, the end of
        the input, ends the block without an error.
        """
        session: Session | None = None
        try:
            session = self.prepare_or_wait_for_session(
                master=master,
                config=config,
                start_standard_services=start_standard_services,
            )
            yield session
        except Exception as error:
            self.request_stop(error)
            if session is None:
                raise
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if session is not None:
                    with suppress(Exception):  # what it was used for is done, or lost
                        session.close()

    def _log_session(self, sess: Any, status: str, **more: Any) -> None:
        """Tell a writer of event files what happens, with the step of a session."""
        if not isinstance(self.summary_writer, FileWriter):
            return
        if sess is not None and self.global_step is None:
            return  # without a step TensorBoard can do nothing with it
        log = message("SessionLog")
        session_log = log(status=getattr(log, status), **more)
        step = None if sess is None else value_of_step(sess, self.global_step)
        self.summary_writer.add_session_log(session_log, step)

    def _tell_writer(self, method: str, *arguments: Any) -> None:
        """Call a method of the writer; those of others may have fewer of them."""
        call = getattr(self.summary_writer, method, None)
        if call is not None:
            call(*arguments)

    # The names of the first versions.
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed


def _new_saver() -> Saver | None:
    return Saver() if global_variables() else None


def _step_by_name() -> Any:
    """Return the tensor `global_step:0` of the graph, None if it counts nothing."""
    try:
        step = get_default_graph().get_tensor_by_name("global_step:0")
    except KeyError:
        return None
    if step.dtype.base_dtype.name in ("int32", "int64"):
        return step
    logging.warning("Found 'global_step' is not an int type: %s", step.dtype)
    return None


# --------------------------------------------------------------------------------------
# What runs beside the chief's session.


class SVSummaryThread(LooperThread):
    """Gives the summaries to the writer every `save_summaries_secs`."""

    def __init__(self, sv: Supervisor, sess: Any) -> None:
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv, self._session = sv, sess

    def run_loop(self) -> None:
        """Compute them once, with the step that they belong to."""
        asked = {"summary": self._sv.summary_op}
        if self._sv.global_step is not None:
            asked["step"] = self._sv.global_step
        try:
            values = self._session.run(asked)
        except InvalidArgumentError as error:
            # The original only ends all threads, and workers wait without a word.
            logging.warning(
                "The supervisor stops, because its summaries cannot be computed: %s "
                "Where they need what you feed, write tf.train.Supervisor(..., "
                "summary_op=None), and give sv.summary_computed(session, summary) what "
                "your own run has computed.",
                error,
            )
            raise
        step = values.get("step")
        logging.info("Recording summary at step %s.", step)
        self._sv.summary_writer.add_summary(values["summary"], step)


class SVStepCounterThread(LooperThread):
    """Gives the steps per second to the writer, and logs them the first few times."""

    def __init__(self, sv: Supervisor, sess: Any, step_counter: Any = None) -> None:
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv, self._session = sv, sess
        self._step = sv.global_step if step_counter is None else step_counter
        self._last_step, self._last_s = 0, 0.0
        self._n_left = _N_RATES

    def start_loop(self) -> None:
        """Note where it begins."""
        self._last_s = time.monotonic()
        self._last_step = value_of_step(self._session, self._step)

    def run_loop(self) -> None:
        """Measure the rate since the last time."""
        step, now_s = value_of_step(self._session, self._step), time.monotonic()
        elapsed_s = now_s - self._last_s
        rate = (step - self._last_step) / elapsed_s if elapsed_s > 0 else float("inf")
        self._last_step, self._last_s = step, now_s
        tag = f"{self._step.op.name}/sec"
        self._sv.summary_writer.add_summary(scalar_summary(tag, rate), step)
        if self._n_left:
            self._n_left -= 1
            logging.info("%s: %g", tag, rate)


class SVTimerCheckpointThread(LooperThread):
    """Saves at once, and then every `save_model_secs`."""

    def __init__(self, sv: Supervisor, sess: Any) -> None:
        super().__init__(sv.coord, sv.save_model_secs)
        self._sv, self._session = sv, sess

    def run_loop(self) -> None:
        """Save once."""
        logging.info("Saving checkpoint to path %s", self._sv.save_path)
        self._sv.saver.save(
            self._session, self._sv.save_path, global_step=self._sv.global_step
        )
        self._sv._log_session(
            self._session, "CHECKPOINT", checkpoint_path=self._sv.save_path
        )
