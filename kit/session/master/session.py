"""One client's session at its master: a graph that only grows, and the runs of it.

Theory of operation. A *client* (`kit.session.client`) holds the graph and asks. The
*master* is the task that the session was made on: it plans, and leads each run. A
*worker* is what every task has, the master's own included: it keeps segments and runs
them. A client in the master's process calls these methods; another one, and the master
itself towards other workers, sends messages (`kit.session.transport.message`).

    client                     master                          another worker
    ASK create    ──────────►  a number for the session
    ASK extend    ──────────►  the new nodes, checked
    ASK prepare   ──────────►  ASK status (once a session) ──►  devices, incarnation
                               plan: place, prune, cut
                               ASK register               ──►  a program; its token
    ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─  so far once, and from here on for each run ─ ─ ─ ─ ─ ─
    RUN and feeds ──────────►  a step with a new number
                               SEGMENT and feeds          ──►  runs its program
                               runs its own  ◄── TENSOR ──►    meanwhile
                               ◄── DONE and fetches
    ◄── DONE and fetches

A TENSOR for which that link has no room goes over another one (after LATER) to the
other task's `Rendezvous`, as do all between two tasks that are not the master.

What is kept. The client: requests that it can recognise, each as a `CachedRun`, the
number of a plan for each signature, and idle links. The master: the nodes, the devices
of all tasks (asked for once), where each node is placed (all anew when the graph has
grown), and the plans, which stay until the session ends. A worker: programs by token,
of the sessions that ran last; variables belong to the task and outlive the session,
unless it is isolated.

A run is *begun* when its step has a number and stands in `_steps`; SEGMENTs go out
before the master's own part runs, and the answers are read after it. It is *aborted*
when its step is given an error, which is set once: the first one counts. It is *over*
when `run` leaves, by whichever way: the step is forgotten, and every channel goes back
to `Peers`, or is closed if it is in the middle of something. These ways lead to the
end:

- *All parts are done*: the fetches go back in the order of the plan.
- *Our own part raises*: channels whose part is not done are closed, and their workers
  take the end of the link for the end of the run (`Watch`, `Worker.abort`).
- *Another part raises*: its worker answers FAILED and closes the link. `Watch` aborts
  the step here, which closes the links on which this run waits, but not that one: the
  reason is still to be read from it. `StepCoordinator.cause` then tells the reason from
  what only followed from it.
- *A task is lost*: the same without FAILED; the error is `PeerLost`. A machine that
  disappears without a word is noticed by the kernel or by the deadline.
- *It is cancelled*: by a `Cancellation`, by `close`, or by the end of the client's
  link. The step is aborted with a `CancelledError`, which stands above all that it
  causes.
- *The deadline passes*: SEGMENT tells each worker the seconds that are left, and each
  goes by its own clock. The master waits a little longer for a worker than that, and
  the client for the master, so that the one that knows what it waited for is the one
  that is heard.

Some of a run may go on after its end, as no thread can be stopped, and must not change
what later runs see. Therefore: a stateful op looks at the error of its step before it
begins; a token and a step belong to one session of one master, so a SEGMENT that comes
after the end of its session is refused; a TENSOR of a step that has ended is dropped;
and a run keeps the `SessionState` that it began with, so that what is late for the end
of an isolated session changes variables that nobody sees any more. An update that has
begun is completed; it replaces the value in one step, so a reader finds all of it or
nothing.

Locks. `_preparing` guards graph, devices and plans: `extend` and `prepare` take it, and
`prepare` keeps it while it asks other tasks. Runs take no lock: `_ready` only grows,
and a number is given out when its entry is there. A step has a lock of its own for its
error and the links it holds, so that no link is taken after the abort that should have
closed it. A `Channel` is read and written by its run's thread alone and has none.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from kit.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    KitError,
)
from kit.graph.dtypes import Array
from kit.graph.node import Edge, Node
from kit.graph.table import lookup
from kit.session.client.cancelling import CLOSED, current_cancellation
from kit.session.client.options import SessionOptions
from kit.session.master.cluster_tasks import ClusterTasks, Known
from kit.session.master.devices import Device, place_nodes
from kit.session.master.partition import Segment
from kit.session.master.plan import RunPlan, RunSignature, make_plan
from kit.session.master.step_coordinator import StepCoordinator, feeds_by_task
from kit.session.transport.message import LONGEST_S
from kit.session.worker.step import Records, Step
from kit.session.worker.worker import Worker
from kit.task import Task
from kit.wire.link import Link

# --------------------------------------------------------------------------------------
# Arrays that cross between a program and the tasks of its own process.
#
# What goes over a link is copied by that. Within one process an array would be shared:
# a user who changes a fetched array would change a variable, and a variable that was
# set from a fed array would follow what the user does with it.


def keeps_feeds(segment: Segment) -> bool:
    """Whether a segment may keep what it is fed beyond its run, in a variable or queue.

    Most that only compute do not; a copy is saved for them.
    """
    return any(
        op_def.stateful and len(node.inputs) > len(op_def.refs)
        for node in segment.nodes
        for op_def in (lookup(node.type),)
    )


def taken_over(values: list[Any]) -> list[Any]:
    """Return results that are the caller's alone; copy what is also held elsewhere.

    A view may be of anything, so it is copied as well. The count of references tells
    which arrays are held by this list alone, so the caller must not keep others.
    """
    return [_mine(values, i) for i in range(len(values))]


def _mine(values: list[Any], i: int) -> Any:
    n_references = sys.getrefcount(values[i])
    value = values[i]
    if not isinstance(value, np.ndarray):
        return value
    if n_references <= _ALONE and value.base is None:
        return value
    return value.copy()


# What `_mine` counts for an array that is in the list alone. Measured, as it differs
# between versions of Python.
_ALONE = (lambda values: sys.getrefcount(values[0]))([np.zeros(1)])


class RegisteredPlan(NamedTuple):
    """A plan whose segments are registered: the number that each task gave its own.

    `keeps_feeds`: the target's own segment may keep an array that it is fed.
    """

    plan: RunPlan
    tokens: Mapping[Task, int]
    keeps_feeds: bool
    n_feeds: int


class MasterSession:
    """One session. Its runs may come from many threads."""

    def __init__(
        self,
        worker: Worker,
        members: ClusterTasks,
        number: int,
        options: SessionOptions,
    ) -> None:
        self.number, self._options = number, options
        self._worker, self._members = worker, members
        self._key = worker.task, number
        self._nodes: dict[str, Node] = {}
        self._known: dict[Task, Known] = {}
        self._placed: dict[str, Device] = {}
        self._refused: dict[str, KitError] = {}
        self._ready: list[RegisteredPlan] = []
        self._numbers: dict[RunSignature, int] = {}
        # The upper half tells the tasks which session a step belongs to.
        self._counter = itertools.count(number << 32)
        self._steps: dict[int, Step] = {}
        self._met: set[Task] = set()
        self._preparing = threading.Lock()
        self._is_closed = False

    def extend(self, version: int, nodes: Sequence[Node]) -> int:
        """Add nodes to a graph that has `version` of them; returns the new number.

        A client that did not hear the answer may send the same nodes again. Raises
        `AbortedError` for another version, `InvalidArgumentError` for nodes that cannot
        be.
        """
        with self._preparing:
            # The answer may have been lost with its link after the nodes were added;
            # the client then sends them again, and maybe newer ones behind them.
            names_before = list(islice(self._nodes, version, None))
            if names_before and names_before == [
                node.name for node in nodes[: len(names_before)]
            ]:
                version, nodes = len(self._nodes), nodes[len(names_before) :]
            if version != len(self._nodes):
                raise AbortedError(
                    f"the graph has {len(self._nodes)} nodes here and {version} at the "
                    f"client: it was extended by somebody else."
                )
            self._nodes |= _checked(nodes, self._nodes)
            return len(self._nodes)

    def prepare(self, kind: RunSignature, deadline_s: float) -> int:
        """Return the number of the plan for a kind of run; make it the first time."""
        deadline = time.monotonic() + deadline_s
        with self._preparing:  # two threads may prepare the same kind at once
            if kind not in self._numbers:
                _check_kind(kind, self._nodes)
                # Once: a task that is restarted later has another incarnation, and
                # refuses to register segments.
                if not self._known:
                    self.devices(deadline_s)
                plan = make_plan(self._nodes, self._places(), kind, self._refused)
                tokens = self._register_all(plan, deadline)
                mine = plan.segments.get(self._worker.task)
                keeps = mine is not None and keeps_feeds(mine)
                self._ready.append(RegisteredPlan(plan, tokens, keeps, len(kind.feeds)))
                self._numbers[kind] = len(self._ready) - 1
            return self._numbers[kind]

    def devices(self, deadline_s: float) -> dict[Task, Known]:
        """Ask all tasks for their devices; the first answer counts for all runs.

        Later ones ask only the tasks that they need: another may have ended.
        """
        members = self._members.look(
            deadline_s, self._options.filters, self._check_open
        )
        self._known = self._known or members
        return members

    def waits(self) -> list[str]:
        """Return what runs without a limit wait for; others say so at their end."""
        steps = [step for step in self._steps.values() if step.limit_s >= LONGEST_S]
        return [self._worker.wait_of_step(step) for step in steps]

    def keeps_feeds(self, number: int) -> bool:
        """Whether a run of a plan may keep the very arrays that it is fed."""
        return self._ready[number].keeps_feeds

    def run(
        self,
        number: int,
        feeds: Sequence[Array],
        deadline_s: float,
        *,
        traced: bool = False,
        client: Link | None = None,
    ) -> tuple[list[Any], Records | None]:
        """Run a plan once; returns its fetches, and what a traced run noted.

        The end of the `client`'s link, if it has one, cancels the run; if it has none,
        it is in this process, and the fetches are its own.
        """
        if number >= len(self._ready):
            raise AbortedError(f"session {self.number} has no plan {number}.")
        plan, tokens, _, n_feeds = self._ready[number]
        if len(feeds) != n_feeds:
            raise InvalidArgumentError(
                f"{len(feeds)} tensors were fed to plan {number}, which takes "
                f"{n_feeds}."
            )
        coordinator, me = StepCoordinator(self._worker), self._worker.task
        number = next(self._counter)
        step = Step(number, self._key, me, coordinator, deadline_s, traced=traced)
        self._steps[step.number] = step
        try:
            # After the line above: `close` either finds the step or is seen here.
            self._check_open()
            if client is not None:
                gone = CancelledError("the client of this run has gone.")
                abort = partial(self._worker.abort, step, gone)
                self._worker.watch.during(client, abort)
            cancellation = current_cancellation()
            if cancellation is None:
                results = self._carry_out(step, coordinator, plan, tokens, feeds)
            else:
                error = CancelledError("the run was cancelled.")
                with cancellation.during(partial(self._worker.abort, step, error)):
                    results = self._carry_out(step, coordinator, plan, tokens, feeds)
            # Over a link they are copied anyway.
            if client is None and me in results:
                results[me] = taken_over(results[me])
        except KitError as met:
            cause = coordinator.cause(step, met)
            if cause is met:
                raise
            raise cause from met
        finally:
            self._steps.pop(step.number, None)
            if client is not None:
                self._worker.watch.forget(client)
            coordinator.close(step)
        return [results[task][i] for task, i in plan.fetch_from], step.records

    def close(self) -> None:
        """Cancel what is under way and let all tasks forget the session."""
        # First, so that what begins from here on ends by itself; see `run`.
        self._is_closed = True
        for step in list(self._steps.values()):
            error = CancelledError(CLOSED)
            self._worker.abort(step, error)
        self._forget()

    def _forget(self) -> None:
        self._worker.end_session(self._key)
        for task in list(self._met):
            self._members.tell(task, {"op": "end", "session": self.number})

    def _carry_out(
        self,
        step: Step,
        coordinator: StepCoordinator,
        plan: RunPlan,
        tokens: Mapping[Task, int],
        feeds: Sequence[Array],
    ) -> dict[Task, list[Any]]:
        by_task = feeds_by_task(feeds, plan.feed_of)
        # The others first: they work while this thread does its own part.
        coordinator.begin(step, tokens, by_task)
        results: dict[Task, list[Any]] = {}
        me = self._worker.task
        if me in tokens:
            results[me] = self._worker.run(tokens[me], step, by_task[me])
        results |= coordinator.finish(step)
        # All parts may have ended well a moment before: who cancelled must be believed.
        if isinstance(step.error, CancelledError):
            raise step.error
        return results

    def _places(self) -> dict[str, Device]:
        """Return the devices of the nodes: all are placed anew as the graph grows."""
        if len(self._placed) + len(self._refused) != len(self._nodes):
            devices = [
                device
                for devices_of, _ in self._known.values()
                for device in devices_of
            ]
            refused: dict[str, KitError] = {}
            self._placed = place_nodes(
                self._nodes,
                devices,
                self._worker.task,
                soft=self._options.soft,
                refused=None if self._options.whole else refused,
            )
            self._refused = refused
        return self._placed

    def _register_all(self, plan: RunPlan, deadline: float) -> dict[Task, int]:
        try:
            return {
                task: self._register(task, segment, deadline - time.monotonic())
                for task, segment in plan.segments.items()
            }
        finally:
            if self._is_closed:  # and some came after its tasks had forgotten it
                self._forget()
            self._check_open()

    def _register(self, task: Task, segment: Segment, deadline_s: float) -> int:
        isolated = self._options.isolated
        if task == self._worker.task:
            return self._worker.register(self._key, segment, isolated=isolated)
        self._check_open()
        plain, arrays = segment.to_plain()
        meta = {
            "op": "register",
            "session": self.number,
            "incarnation": self._known[task][1],
            "isolated": isolated,
            "segment": plain,
        }
        # Before the question: a task that answers late must still be told of the end.
        self._met.add(task)
        answer = self._members.ask(task, meta, max(0.1, deadline_s), arrays)
        return int(answer.meta["token"])

    def _check_open(self) -> None:
        if self._is_closed:
            raise CancelledError(CLOSED)


def _checked(
    nodes: Sequence[Node], nodes_before: Mapping[str, Node]
) -> dict[str, Node]:
    """Return new nodes by name; raise for those that a graph cannot have."""
    checked: dict[str, Node] = {}
    for node in nodes:
        if node.name in nodes_before or node.name in checked:
            raise InvalidArgumentError(f"the graph has a node {node.name!r} already.")
        checked[node.name] = node
    for node in nodes:
        _outputs(node)
        for name in node.control:
            _check_edge((name, 0), nodes_before, checked, is_control=True)
        for edge in node.takes:
            _check_edge(edge, nodes_before, checked)
    return checked


def _check_edge(
    edge: Edge, *graphs: Mapping[str, Node], is_control: bool = False
) -> None:
    for nodes in graphs:
        if edge[0] in nodes:
            if not is_control and not 0 <= edge[1] < _outputs(nodes[edge[0]]):
                break
            return
    raise InvalidArgumentError(f"the graph has no tensor {edge[0]}:{edge[1]}.")


def _outputs(node: Node) -> int:
    try:
        n_outputs = lookup(node.type).n_outputs
    except LookupError as exc:
        raise InvalidArgumentError(f"op {node.name!r}: {exc.args[0]}") from exc
    return n_outputs if isinstance(n_outputs, int) else int(n_outputs(node.attrs))


def _check_kind(kind: RunSignature, nodes: Mapping[str, Node]) -> None:
    for edge in (*kind.feeds, *kind.fetches):
        _check_edge(edge, nodes)
    for name in kind.targets:
        _check_edge((name, 0), nodes, is_control=True)
