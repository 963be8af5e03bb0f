"""`tf.contrib.slim.learning`: a step of training, and as many as there are to be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from kit.errors import OutOfRangeError
from kit.tf1 import logging
from kit.tf1.contrib import training
from kit.tf1.contrib.training import add_gradients_summaries as add_gradients_summaries
from kit.tf1.contrib.training import clip_gradient_norms as clip_gradient_norms
from kit.tf1.contrib.training import multiply_gradients as multiply_gradients
from kit.tf1.graph.control import group
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.not_offered import refusing
from kit.tf1.ops.arithmetic import equal, greater_equal, mod
from kit.tf1.train.checkpointing.saver import Saver
from kit.tf1.train.global_step import get_or_create_global_step
from kit.tf1.train.monitored.supervisor import Supervisor
from kit.tf1.train.optimizers.optimizer import Optimizer
from kit.tf1.variables.scopes import name_scope
from kit.tf1.variables.variable_lists import local_variables_initializer

_USE_DEFAULT: Final = 0  # the original's; compared by identity


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = training.USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Any = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: dict[Any, Any] | None = None,
    check_numerics: bool = True,
) -> Any:
    """Return a tensor that makes one step; see `tf.contrib.training.create_train_op`.

    Gradients are multiplied by `gradient_multipliers`, then each is shortened to
    `clip_gradient_norm`, if that is not 0.
    """

    def change(pairs: training.Pairs) -> training.Pairs:
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        if clip_gradient_norm > 0:
            pairs = clip_gradient_norms(pairs, clip_gradient_norm)
        return pairs

    return training.create_train_op(
        total_loss,
        optimizer,
        global_step,
        update_ops,
        variables_to_train,
        change,
        summarize_gradients,
        gate_gradients,
        aggregation_method,
        colocate_gradients_with_ops,
        check_numerics,
    )


def train_step(
    sess: Any, train_op: Any, global_step: Any, train_step_kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Make one step; return the loss, and whether it was the last one.

    `train_step_kwargs` has tensors: `should_stop`, and `should_log`, by which the loss
    is logged.
    """
    began = time.perf_counter()
    total_loss, step = sess.run([train_op, global_step])
    took = time.perf_counter() - began
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        logging.info(
            "global step %d: loss = %.4f (%.3f sec/step)", step, total_loss, took
        )
    should_stop = False
    if "should_stop" in train_step_kwargs:
        should_stop = sess.run(train_step_kwargs["should_stop"])
    return total_loss, should_stop


def train(
    train_op: Any,
    logdir: str | os.PathLike[str] | None,
    train_step_fn: Callable[..., tuple[Any, Any]] = train_step,
    train_step_kwargs: Any = _USE_DEFAULT,
    log_every_n_steps: int | None = 1,
    graph: Any = None,
    master: str = "",
    is_chief: bool = True,
    global_step: Any = None,
    number_of_steps: int | None = None,
    init_op: Any = _USE_DEFAULT,
    init_feed_dict: Any = None,
    local_init_op: Any = _USE_DEFAULT,
    init_fn: Callable[[Any], Any] | None = None,
    ready_op: Any = _USE_DEFAULT,
    summary_op: Any = _USE_DEFAULT,
    save_summaries_secs: float = 600,
    summary_writer: Any = _USE_DEFAULT,
    startup_delay_steps: int = 0,
    saver: Any = None,
    save_interval_secs: float = 600,
    sync_optimizer: Any = None,
    session_config: Any = None,
    session_wrapper: Callable[[Any], Any] | None = None,
    trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:
    """Make steps until `number_of_steps`, and return the last loss.

    A `tf.train.Supervisor` starts and saves in `logdir`; without one nothing is saved.
    The chief starts at once, others after `startup_delay_steps`. Raises `ValueError`
    without a `train_op`, and for what needs a `logdir` that is not there.
    """
    _check(train_op, logdir, summary_op, trace_every_n_steps)
    delay = min(startup_delay_steps, number_of_steps or startup_delay_steps)
    if sync_optimizer is not None and delay > 0:
        raise ValueError("startup_delay_steps must be zero with a sync_optimizer.")
    with (graph or get_default_graph()).as_default():
        step = get_or_create_global_step() if global_step is None else global_step
        begins, started = _begun(sync_optimizer, is_chief, local_init_op)
        limits = _limits(step, number_of_steps, log_every_n_steps)
        sv = Supervisor(
            is_chief=is_chief,
            logdir=logdir,
            init_op=init_op,
            init_feed_dict=init_feed_dict,
            ready_op=ready_op,
            **begins,
            summary_op=None if logdir is None else summary_op,
            summary_writer=None if logdir is None else summary_writer,
            global_step=step,
            saver=saver or Saver(),
            save_summaries_secs=save_summaries_secs,
            save_model_secs=save_interval_secs,
            init_fn=init_fn,
        )
    arguments = limits if train_step_kwargs is _USE_DEFAULT else train_step_kwargs
    if summary_writer is not None:
        arguments["summary_writer"] = sv.summary_writer
    with sv.managed_session(master, session_config, False) as session:
        services = _started(sv, session, started, delay)
        own = session if session_wrapper is None else session_wrapper(session)
        total_loss = _steps(sv, own, train_op, step, train_step_fn, arguments)
        _save(sv, session, services)
        return total_loss


def _check(train_op: Any, logdir: Any, summary_op: Any, trace: Any) -> None:
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None and (summary_op not in (_USE_DEFAULT, None)):
        raise ValueError("Cannot provide summary_op because logdir=None")
    if trace is not None:
        raise ValueError("trace_every_n_steps is not taken; a ProfilerHook traces.")


def _started(sv: Any, session: Any, tokens: list[Any], delay: int) -> list[Any]:
    """Start what runs beside the steps, or wait; return the threads that save."""
    services: list[Any] = []
    if sv.is_chief and sv.save_path is not None:
        services = sv.start_standard_services(session) or []
    else:
        while delay > 0 and session.run(sv.global_step) < delay:
            time.sleep(1)
    sv.start_queue_runners(session)
    for runner, fill in tokens:
        sv.start_queue_runners(session, [runner])
        session.run(fill)
    return services


def _steps(
    sv: Any, session: Any, train_op: Any, step: Any, make: Any, arguments: Any
) -> Any:
    total_loss = None
    try:
        while not sv.should_stop():
            total_loss, is_last = make(session, train_op, step, arguments)
            if is_last:
                logging.info("Stopping Training.")
                sv.request_stop()
    except OutOfRangeError:
        logging.info("Caught OutOfRangeError. Stopping Training.")
    return total_loss


def _begun(
    optimizer: Any, is_chief: bool, local: Any
) -> tuple[dict[str, Any], list[Any]]:
    """Return what a task does before it begins, and the tokens that begin the steps."""
    if optimizer is None:
        return {"local_init_op": local}, []
    first = local_variables_initializer() if local is _USE_DEFAULT else local
    own = optimizer.chief_init_op if is_chief else optimizer.local_step_init_op
    begins = {
        "local_init_op": own if first is None else group(first, own),
        "ready_for_local_init_op": optimizer.ready_for_local_init_op,
    }
    runner = optimizer.get_chief_queue_runner()
    return begins, [(runner, optimizer.get_init_tokens_op())] if is_chief else []


def _save(sv: Any, session: Any, services: list[Any]) -> None:
    if not sv.is_chief or sv.save_path is None:
        return
    sv.request_stop()
    for thread in services:  # an earlier checkpoint may be on its way
        thread.join()
    logging.info("Finished training! Saving model to disk.")
    sv.saver.save(session, sv.save_path, global_step=sv.global_step)


def _limits(step: Any, last: int | None, every: int | None) -> dict[str, Any]:
    limits = {}
    with name_scope("train_step"):
        if last:
            limits["should_stop"] = greater_equal(step, last)
        if every and every > 0:
            limits["should_log"] = equal(mod(step, every), 0)
    return limits


__getattr__ = refusing("contrib.slim.learning")
