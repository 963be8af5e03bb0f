"""Tensors as collections of dask: `dask.compute(tensor, array)` in one call.

Loads dask only when dask calls. For dask a tensor is one task: a run of a session.
Below it each op is a task that does nothing, so that `dask.visualize` can draw the
graph. dask never computes ops itself: the session places them, moves tensors and keeps
variables, and a whole run costs less than one task of dask's.

    Placeholder ─┐
    read ────────┴─ MatMul ─ Add ─ run      all runs of one compute become one

The task belongs to this process. Workers of dask.distributed have no variables, so they
are sent a `DistributedRefusal`, which raises an error that says what to do.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import getitem
from typing import Any, NoReturn

from kit.errors import FailedPreconditionError
from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.convert import tensor
from kit.graph.extension_points import lend
from kit.graph.graph import Graph
from kit.graph.op import Op, Tensor, needed
from kit.session.client.session import Session, default_session

find_cluster: Callable[[], Any] | None = None
_defaults: list[Callable[[], Any]] = [default_session]
_UID = "kit.session.client.dask_graph"


def set_cluster(find: Callable[[], Any]) -> None:
    """Set how the running cluster is found; `find` raises if there is none."""
    global find_cluster  # the layer above registers itself here, once
    find_cluster = find


def add_default(find: Callable[[], Any]) -> None:
    """Add another source of default sessions; `find` returns None if it has none."""
    _defaults.append(find)


def _default() -> Any:
    sessions = (find() for find in reversed(_defaults))
    return next((session for session in sessions if session is not None), None)


class SessionRun:
    """A task of dask's: the values of some tensors, by one run."""

    __name__ = "session.run"  # dask.visualize writes it

    def __init__(self, session: Any, tensors: Sequence[Tensor]) -> None:
        """Take the session; None makes one for this run alone."""
        self.session, self.tensors = session, tuple(tensors)

    def __call__(self, *_: Any) -> Any:
        """Return the value of the first tensor."""
        return run_once(self.session, self.tensors[0])

    def run_all(self, *_: Any) -> list[Any]:
        """Return the values of all tensors."""
        return list(run_once(self.session, list(self.tensors)))

    def __reduce__(self) -> Any:
        # An error raised here would be lost: dask tries three picklers in turn.
        return DistributedRefusal, (", ".join(item.name for item in self.tensors),)


class DistributedRefusal:
    """What a worker of dask.distributed gets in place of a session's run."""

    def __init__(self, names: str) -> None:
        self.names = names

    def __call__(self, *_: Any) -> NoReturn:
        """Raise an error that says why nothing is computed here."""
        raise FailedPreconditionError(
            f"{self.names}: a tensor is computed by a session, in the process that "
            f"asks for it, and not by dask's workers, which have none of its "
            f"variables. Compute it there: tensor.compute(), or "
            f"dask.compute(..., scheduler='threads')."
        )

    run_all = __call__


class OpName:
    """A task of dask's that does nothing: an op in the drawing of a graph."""

    def __init__(self, op: Op) -> None:
        """Take the op for its name."""
        self.__name__ = op.type  # dask.visualize writes it

    def __call__(self, *_: Any) -> None:
        """Do nothing."""


def run_once(session: Any, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
    """Run fetches on a session, or on a new one that is closed at the end."""
    if session is not None:
        return session.run(fetches, feeds)
    first = fetches[0] if isinstance(fetches, list) else fetches
    target = running_cluster()
    if target is None:
        _check_needs_no_variable(fetches if isinstance(fetches, list) else [fetches])
    own = Session(target, first.graph)
    try:
        return own.run(fetches, feeds)
    finally:
        own.close()


def running_cluster() -> Any:
    """Return the cluster that a session without a target uses, or None."""
    try:
        return None if find_cluster is None else find_cluster()
    except FailedPreconditionError:
        return None


def _check_needs_no_variable(tensors: Iterable[Tensor]) -> None:
    names = [
        op.name for op in needed(item.op for item in tensors) if op.op_def.gives_ref
    ]
    if names:
        raise FailedPreconditionError(
            f"{', '.join(names[:3])}: variables have values in a session that has "
            f"initialised them, and there is neither a default session nor a running "
            f"cluster. Compute inside of `with kit.Session() as session:`."
        )


def _uid(graph: Graph) -> str:
    return str(graph.notes.setdefault(_UID, uuid.uuid4().hex[:12]))


def _key(of: Tensor) -> str:
    return f"{of.name.replace(':', '-')}-{_uid(of.graph)}"


def _op_key(op: Op) -> str:
    return f"{op.name}-op-{_uid(op.graph)}"


def _dask_graph(x: ArrayProtocol) -> dict[str, Any]:
    asked = tensor_of(x)
    # The default session of the calling thread: later, in dask's pool, there is none.
    tasks: dict[str, Any] = {
        _key(asked): (SessionRun(_default(), [asked]), _op_key(asked.op))
    }
    for op in needed([asked.op]):
        before = [*(take.op for take in op.takes), *op.control_inputs]
        tasks[_op_key(op)] = (OpName(op), *map(_op_key, dict.fromkeys(before)))
    return tasks


class SessionGraphOptimizer:
    """Drops the ops, and makes one run of all tensors of a session.

    It is equal to the optimizer of dask's arrays, and calls that one for arrays: dask
    groups collections by their optimizer, and some versions return the results group by
    group instead of in the order asked for. (If an array comes first, dask takes the
    arrays' own optimizer for all, and each tensor becomes a separate run.)
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionGraphOptimizer) or other is _optimize_arrays()

    def __hash__(self) -> int:
        return hash(_optimize_arrays())

    def __call__(self, graph: Any, keys: Any, **options: Any) -> Any:
        """Return the graph for dask's scheduler."""
        tasks = dict(graph)
        if not any(_is(task, SessionRun) for task in tasks.values()):
            return _optimize_arrays()(graph, keys, **options)
        return _merged(tasks)


def _optimize_arrays() -> Any:
    from dask.array.optimization import optimize

    return optimize


def _merged(tasks: dict[Any, Any]) -> dict[Any, Any]:
    kept = {key: task for key, task in tasks.items() if not _is(task, OpName)}
    groups: dict[Any, list[tuple[Any, Tensor]]] = {}
    for key, task in kept.items():
        if _is(task, SessionRun):
            run: SessionRun = _function(task)
            head = run.tensors[0]
            groups.setdefault((run.session, head.graph), []).append((key, head))
    for (session, _graph), group in groups.items():
        run = SessionRun(session, [item for _, item in group])
        name = f"session-run-{uuid.uuid4().hex}"
        kept[name] = (run.run_all,)
        kept |= {key: (getitem, name, i) for i, (key, _) in enumerate(group)}
    return kept


def _function(task: Any) -> Any:
    return task[0] if isinstance(task, tuple) and task else getattr(task, "func", None)


def _is(task: Any, kind: type) -> bool:
    return isinstance(_function(task), kind)


def _compute(x: ArrayProtocol, feeds: Mapping[Any, Any] | None, **options: Any) -> Any:
    if not options:
        return run_once(_default(), tensor_of(x), feeds)
    from dask.base import compute

    if feeds is not None:
        raise TypeError(f"feed_dict and {', '.join(options)} cannot be given together.")
    options = {"scheduler": "synchronous", **options}
    return compute(x, traverse=False, **options)[0]  # type: ignore[no-untyped-call]  # dask's own gap


def _persist(x: ArrayProtocol, **options: Any) -> Tensor:
    return _constant({_key(tensor_of(x)): x.compute(**options)}, tensor_of(x))


def _constant(values: Mapping[str, Any], of: Tensor) -> Tensor:
    (value,) = values.values()
    with of.graph.as_default():
        return tensor(value, of.static.dtype, name=f"{of.op.name}_persisted")


def _first(values: Sequence[Any]) -> Any:
    return values[0]


def _threads() -> Any:
    from dask.threaded import get

    return get


lend(
    compute=_compute,
    persist=_persist,
    dask_graph=_dask_graph,
    dask_keys=lambda x: [_key(tensor_of(x))],
    dask_postcompute=lambda x: (_first, ()),
    dask_postpersist=lambda x: (_constant, (tensor_of(x),)),
    dask_token=lambda x: ("kit.Tensor", _key(tensor_of(x))),
    dask_scheduler=_threads,
    dask_optimizer=SessionGraphOptimizer,
)
