"""Step functions: several runs that make one step, with and without hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt, noting
from tests.tf1.look import Case, makes_case, tf


@makes_case
def ran(body: Callable[[Any], Any], **named: Any) -> Any:
    """Return a case: what a step function gives, and what the hooks noted."""
    log: list[str] = []
    v = tf.Variable(0, name="v")
    add = v.assign_add(1)
    kind = getattr(tf.train, named.get("kind", "MonitoredSession"))
    with kind(hooks=[noting(log)]) as session:
        result = attempt(session.run_step_fn, body(add))
        stops = session.should_stop()
        value = attempt(session.run, v)
    return [result, stops, value, log]


def both(add: Any) -> Any:
    def step(step_context: Any) -> Any:
        first = step_context.session.run(add)
        second = step_context.run_with_hooks(add)
        return [first, second, step_context.run_with_hooks(add)]

    return step


def raises(add: Any) -> Any:
    def step(step_context: Any) -> Any:
        raise ValueError("a")

    return step


def stops(add: Any) -> Any:
    def step(step_context: Any) -> Any:
        step_context.session.run(add)
        step_context.request_stop()
        return "not reached"

    return step


def a_method(add: Any) -> Any:
    class Owner:
        def step(self, step_context: Any) -> Any:
            return step_context.run_with_hooks(add)

    return Owner().step


def a_method_with_another_name(add: Any) -> Any:
    class Owner:
        def step(self, context: Any) -> Any:
            return 1

    return Owner().step


def case_fed() -> Any:
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    with tf.train.MonitoredSession() as session:
        return session.run_step_fn(
            lambda step_context: [
                step_context.run_with_hooks(y, {x: 1.0}),
                step_context.run_with_hooks(fetches=y, feed_dict={x: 2.0}),
                step_context.session.run(y, {x: 3.0}),
            ]
        )


CASES: dict[str, Case] = {
    "with_hooks": ran(
        lambda add: lambda step_context: step_context.run_with_hooks(add)
    ),
    "without_hooks": ran(
        lambda add: lambda step_context: step_context.session.run(add)
    ),
    "several_runs": ran(both),
    "what_it_returns": ran(lambda add: lambda step_context: ["anything", 7, None]),
    "what_it_raises": ran(raises),
    "it_requests_a_stop": ran(stops),
    "of_a_singular_session": ran(both, kind="SingularMonitoredSession"),
    "a_singular_session_is_stopped": ran(stops, kind="SingularMonitoredSession"),
    "an_argument_of_another_name": ran(lambda add: lambda context: 1),
    "two_arguments": ran(lambda add: lambda step_context, other: 1),
    "no_argument": ran(lambda add: lambda: 1),
    "an_argument_with_a_default": ran(lambda add: lambda step_context, other=2: 1),
    "a_method": ran(a_method),
    "a_method_with_another_name": ran(a_method_with_another_name),
    "no_function": ran(lambda add: 7),
    "the_kind_of_its_session": ran(
        lambda add: lambda step_context: type(step_context.session).__name__
    ),
}
