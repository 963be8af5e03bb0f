"""A session: runs fetches of a graph on a target, any task of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from functools import partial
from typing import Any

from kit.graph.default import default_graph
from kit.graph.graph import Graph
from kit.graph.op import Tensor
from kit.handles import handle
from kit.session.client.cached_run import CachedRun, Fetches, SentGraph, key_of, limit_s
from kit.session.client.cancelling import in_thread
from kit.session.client.connection import Connection
from kit.session.client.feeds import fed_tensor, read_feeds
from kit.session.client.metadata import RunMetadata
from kit.session.client.options import SessionOptions
from kit.session.client.partial_runs import Parts
from kit.session.client.targets import connect
from kit.session.master.devices import Device


@handle
class Session:
    """Runs a graph, on the tasks of a cluster or in this process.

    Variables are kept on their tasks and outlive the session. Several threads may run
    at once. Nothing is sent before the first run.

    Parameters
    ----------
    target : Cluster, ClusterTarget, Server or str, optional
        Which task to ask: a `kit.Cluster` (its first worker),
        `cluster.target("worker:1")`, a `kit.Server`, or a server's `target`. None
        runs everything in this process.
    graph : Graph, optional
        By default the default graph.
    soft_placement : bool, default False
        Replace a device that does not exist by another one of the same task.
    device_filters : sequence of str
        The only tasks to use besides the target, such as "/job:ps".
    isolate_state : bool, default False
        Give the session its own variables, which end with it.
    place_all : bool, default False
        Let one op that fits no device fail all runs, as TensorFlow does, not only the
        runs that need it.
    n_cpus : int, default 1
        CPU devices of this process, without a target.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default():
    ...     x = kit.placeholder("float32")
    ...     double = x + x
    ...     with kit.Session() as session:
    ...         float(session.run(double, {x: 3.0}))
    6.0
    """

    graph: Graph

    def __init__(
        self,
        target: Any = None,
        graph: Graph | None = None,
        *,
        soft_placement: bool = False,
        device_filters: Sequence[str] = (),
        isolate_state: bool = False,
        place_all: bool = False,
        n_cpus: int = 1,
    ) -> None:
        self.graph = default_graph() if graph is None else graph
        filters = tuple(device_filters)
        options = SessionOptions(soft_placement, filters, isolate_state, place_all)
        self._connection: Connection = connect(target, options, n_cpus)
        self._sent = SentGraph(self.graph, self._connection)
        self._cached: dict[Any, CachedRun] = {}
        self._parts = Parts(self._sent)
        self._entered: list[tuple[Any, Token[tuple[Session, ...]]]] = []

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        deadline_s: float | None = None,
        metadata: RunMetadata | None = None,
    ) -> Any:
        """Compute `fetches` and return their values in the same structure.

        Parameters
        ----------
        fetches : Tensor, Op, or a list, tuple or dict of these
            A tensor gives its value (a numpy scalar if it has no axes), an op None.
        feed_dict : dict of Tensor to value, optional
            Values that replace tensors for this run.
        deadline_s : float, optional
            Seconds that the run may wait; by default the setting `run_deadline_s`.
        metadata : RunMetadata, optional
            Filled with what ran where, and when.

        Returns
        -------
        object
            The values, in the structure of `fetches`.

        Raises
        ------
        RuntimeError
            The session is closed, or the graph is empty.
        TypeError, ValueError
            Something cannot be fetched, or a value cannot be fed.
        KitError
            Something went wrong while running. The message names the op, its place and
            its task; `error.op` is the op.
        """
        self._check_open()
        key = key_of(fetches, feed_dict)
        cached = self._cached.get(key)
        if cached is None:
            wanted = Fetches(self.graph, fetches)
            feeds = self._read(feed_dict)
            cached = CachedRun(self._sent, wanted, list(feeds))
            if key is not None:  # without a key it could not be found again
                self._cached[key] = cached
        else:
            feeds = self._read(feed_dict)
        return cached.run(list(feeds.values()), deadline_s, metadata)

    async def run_async(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        deadline_s: float | None = None,
        metadata: RunMetadata | None = None,
    ) -> Any:
        """Do what `run` does, in a thread, while the event loop goes on.

        Cancelling the wait ends the run. Arguments, result and errors are those of
        `run`.
        """
        more = partial(self.run, deadline_s=deadline_s, metadata=metadata)
        return await in_thread(lambda: more(fetches, feed_dict))

    def partial_run_setup(
        self,
        fetches: Any,
        feeds: Sequence[Any] = (),
        *,
        deadline_s: float | None = None,
    ) -> str:
        """Declare a run in several parts; return its handle for `partial_run`.

        Parameters
        ----------
        fetches : Tensor, Op, or a list, tuple or dict of these
            Everything that the parts may fetch.
        feeds : sequence of Tensor
            Everything that the parts may feed.
        deadline_s : float, optional
            Seconds that each part may wait; by default the setting `run_deadline_s`.

        Returns
        -------
        str
            The handle.

        Raises
        ------
        TypeError, ValueError
            Something cannot be fetched or fed.
        RuntimeError
            The session is closed, or the graph is empty.
        """
        self._check_open()
        wanted = Fetches(self.graph, fetches)
        keys = [fed_tensor(self.graph, feed) for feed in feeds]
        return self._parts.begin(wanted.elements, keys, deadline_s)

    def partial_run(
        self, handle: str, fetches: Any, feed_dict: Mapping[Any, Any] | None = None
    ) -> Any:
        """Run one part: give some declared feeds and take some declared fetches.

        An op runs at most once in all parts together.

        Parameters
        ----------
        handle : str
            What `partial_run_setup` returned.
        fetches : Tensor, Op, or a list, tuple or dict of these
            Some of the declared fetches.
        feed_dict : dict of Tensor to value, optional
            Values for some of the declared feeds.

        Returns
        -------
        object
            The values, in the structure of `fetches`.

        Raises
        ------
        InvalidArgumentError
            Something was not declared, is given or taken a second time, or needs feeds
            that are still to come; or the handle is unknown or its run is over.
        RuntimeError
            The session is closed.

        Examples
        --------
        >>> import kit
        >>> with kit.Graph().as_default(), kit.Session() as session:
        ...     x, y = kit.placeholder("float32"), kit.placeholder("float32")
        ...     double, total = x + x, x + y
        ...     handle = session.partial_run_setup([double, total], [x, y])
        ...     first = session.partial_run(handle, double, {x: 3.0})
        ...     float(session.partial_run(handle, total, {y: first}))
        9.0
        """
        self._check_open()
        wanted = Fetches(self.graph, fetches)
        feeds = read_feeds(self.graph, feed_dict)
        return wanted.rebuild(self._parts.part(handle, wanted.elements, feeds))

    def list_devices(self, deadline_s: float | None = None) -> list[tuple[Device, int]]:
        """Return the devices of all tasks, the target's first, with their incarnations.

        Parameters
        ----------
        deadline_s : float, optional
            Seconds that the tasks may take to answer; by default the setting
            `run_deadline_s`.

        Returns
        -------
        list of (Device, int)
            An incarnation is a number that changes when the task is restarted.

        Raises
        ------
        RuntimeError
            The session is closed.
        """
        if self._sent.is_closed:
            raise RuntimeError("the session is closed; make a new one.")
        return self._connection.devices(limit_s(deadline_s))

    def callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None
    ) -> Callable[..., Any]:
        """Return a function that runs `fetches`; faster than `run` for many equal runs.

        Parameters
        ----------
        fetches : Tensor, Op, or a list, tuple or dict of these
            As for `run`.
        feed_list : sequence of Tensor, optional
            What the function's arguments are fed to, in this order.

        Returns
        -------
        callable
            Takes one value for each of `feed_list` and returns what `run` would. Raises
            `ValueError` for another number of values.

        Raises
        ------
        TypeError, ValueError
            Something cannot be fetched or fed.

        Examples
        --------
        >>> import kit
        >>> with kit.Graph().as_default(), kit.Session() as session:
        ...     x = kit.placeholder("float32")
        ...     double = session.callable(x + x, [x])
        ...     float(double(3.0)), float(double(4.0))
        (6.0, 8.0)
        """
        keys = [fed_tensor(self.graph, feed) for feed in feed_list or ()]
        wanted = Fetches(self.graph, fetches)
        allow = "the setting run_deadline_s"
        cached = CachedRun(self._sent, wanted, list(dict.fromkeys(keys)), allow=allow)

        def call(*values: Any) -> Any:
            if len(values) != len(keys):
                raise ValueError(
                    f"this callable takes {len(keys)} values, one for each of its "
                    f"feed_list, and got {len(values)}."
                )
            self._check_open()
            feeds = self._read(dict(zip(keys, values, strict=True)))
            return cached.run(list(feeds.values()))

        return call

    def reset(
        self, containers: Sequence[str] = ("",), *, deadline_s: float | None = None
    ) -> None:
        """Clear containers on all tasks, and end all sessions of this one's target.

        Sessions at other targets stay open and find their variables uninitialised. The
        next run of an ended one raises `AbortedError`.

        Parameters
        ----------
        containers : sequence of str, default ("",)
            Their names; "" is the default container.
        deadline_s : float, optional
            Seconds that the tasks may take; by default the setting `run_deadline_s`.
        """
        self._connection.reset(containers, limit_s(deadline_s))

    def close(self) -> None:
        """End the session and cancel its runs under way. May be called twice."""
        if not self._sent.is_closed:
            self._sent.is_closed = True
            self._connection.close()

    def _read(self, feed_dict: Mapping[Any, Any] | None) -> dict[Tensor, Any]:
        late = self._connection.late
        return read_feeds(self.graph, feed_dict, None if late is None else late.feed)

    def _check_open(self) -> None:
        if self._sent.is_closed:
            raise RuntimeError("the session is closed; make a new one.")
        if not self.graph.version:
            raise RuntimeError("the graph is empty; there is nothing to run.")

    def __enter__(self) -> Session:
        graph = self.graph.as_default()
        graph.__enter__()
        token = _sessions.set((*_sessions.get(), self))
        self._entered.append((graph, token))
        return self

    def __exit__(self, *exc_info: Any) -> None:
        graph, token = self._entered.pop()
        _sessions.reset(token)
        graph.__exit__(*exc_info)
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._sent.is_closed else "open"
        return f"<session of {self.graph!r} {state}>"


_sessions: ContextVar[tuple[Session, ...]] = ContextVar("sessions", default=())


def default_session() -> Session | None:
    """Return the innermost session entered with `with`, None if there is none."""
    stack = _sessions.get()
    return stack[-1] if stack else None
