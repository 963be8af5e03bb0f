"""`tf.Session` and `tf.InteractiveSession`: run parts of a graph on a target.

`kit.session` does the work. A run waits as long as in the original: until what it needs
is there, unless `timeout_in_ms` of its options or `operation_timeout_in_ms` of the
session's config sets a limit. It says now and then what it waits for.
"""

from __future__ import annotations

import _thread
import copy
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

from kit.errors import CancelledError, InvalidArgumentError, KitError
from kit.graph.op import Op
from kit.session.client.cached_run import Fetches
from kit.session.client.metadata import RunMetadata as NativeMetadata
from kit.session.client.session import Session as NativeSession
from kit.session.master.devices import Device
from kit.session.transport.message import LONGEST_S
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.graph.graph_def import GraphDef
from kit.tf1.session.config import CallableOptions, ConfigProto, RunOptions
from kit.tf1.session.fetching import feedable, fetchable
from kit.tf1.session.run_metadata import RunMetadata, fill, wants_metadata
from kit.tf1.session.running import sessions
from kit.tf1.session.targets import (
    check_known,
    meet,
    native_target,
    placed_all,
    server_of,
    text_of,
)
from kit.tf1.session.tf_errors import originals
from kit.tf1.session.waiting import Waits

# --------------------------------------------------------------------------------------
# What `session.list_devices()` says of a device.


# What the original says of every CPU; it is not a measure of anything.
_NOMINAL_BYTES = 256 << 20


class DeviceAttributes(NamedTuple):
    """A device: full name, `CPU` or `GPU`, nominal memory, and its task's incarnation.

    The incarnation is a random number that changes when the task is restarted.
    """

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int


# What lets a run take longer that has a limit.
_ALLOW = (
    "timeout_in_ms of its tf.RunOptions, or with operation_timeout_in_ms of the "
    "session's tf.ConfigProto"
)


class BaseSession:
    """What both kinds of sessions have in common."""

    _prunes_first = False

    def __init__(
        self, target: Any = "", graph: Graph | None = None, config: Any = None
    ) -> None:
        """Open a session; nothing is sent before the first run.

        Raises `TypeError` for arguments of wrong types, `NotFoundError` and
        `InvalidArgumentError` for a target that cannot be one.
        """
        text = text_of(target)
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {graph!r}")
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f"config must be a tf.ConfigProto, but got {config!r}")
        self._target, self._has_no_target = text.encode(), target is None
        self._graph = get_default_graph() if graph is None else graph
        self._config = _merged(text, config)
        self._is_closed = False
        self._devices: list[tuple[Device, int]] = []
        self._n_placed, self._logged = 0, set[str]()
        # The original's interactive session asks for `place_pruned_graph`, which only a
        # session within one process heeds: a server always places the whole graph.
        self._looks_at_all = bool(text) or not self._prunes_first
        self._native = NativeSession(
            native_target(text, self._config.cluster_def),
            self._graph,
            soft_placement=self._config.allow_soft_placement,
            device_filters=tuple(self._config.device_filters),
            isolate_state=_is_isolated(self._config),
            place_all=self._looks_at_all,
            n_cpus=max(1, self._config.device_count.get("CPU", 1)),
        )
        self._native._sent.allow = _ALLOW
        self._waits = Waits(self._native._connection.waits)

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self._graph

    @property
    def graph_def(self) -> GraphDef:
        """The graph as a message, with shapes if the config says `infer_shapes`."""
        add_shapes = self._config.graph_options.infer_shapes
        return self._graph.as_graph_def(add_shapes=add_shapes)

    @property
    def sess_str(self) -> bytes | None:
        """The target, in bytes; None if none was given."""
        return None if self._has_no_target else self._target

    def run(
        self,
        fetches: Any,
        feed_dict: Any = None,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Compute `fetches` and return their values in the same structure.

        Fetches are tensors, operations, variables, names, and lists, tuples and dicts
        of them. A tensor gives an array or a numpy scalar, an operation None.
        `feed_dict` gives values that replace tensors in this run.

        Raises `RuntimeError` on a closed session and for an empty graph, `TypeError`
        and `ValueError` for what cannot be fetched or fed, classes of `tf.errors` for
        what goes wrong in the run.
        """
        self._check_open()
        _check_type(options, RunOptions, "options")
        _check_type(run_metadata, RunMetadata, "run_metadata")
        wanted = fetchable(self._graph, fetches)
        feeds = feedable(self._graph, feed_dict)
        limit = self._limit_s(options)
        native = None
        if run_metadata is not None and wants_metadata(options):
            native = NativeMetadata()
        with originals():
            self._meet(limit)
            with self._waiting(limit):
                results = self._native.run(
                    wanted, feeds, deadline_s=limit, metadata=native
                )
        if run_metadata is not None:
            # Also without a trace: what an earlier run left in the message must go.
            fill(run_metadata, native or NativeMetadata(), options)
        return results

    def make_callable(
        self,
        fetches: Any,
        feed_list: list[Any] | tuple[Any, ...] | None = None,
        accept_options: bool = False,
    ) -> Callable[..., Any]:
        """Return a function of the values for `feed_list` that runs `fetches`.

        With `accept_options` it takes the keywords `options` and `run_metadata` too.
        Raises `TypeError` for a `feed_list` that is not a list, `CancelledError` on a
        closed session.
        """
        if feed_list is not None and not isinstance(feed_list, list | tuple):
            raise TypeError(f"`feed_list` must be a list or tuple, not {feed_list!r}.")
        self._check_not_closed()
        keys = [self._graph.as_graph_element(feed) for feed in feed_list or ()]
        Fetches(self._graph, fetchable(self._graph, fetches))

        def call(*values: Any, **options: Any) -> Any:
            if len(values) < len(keys):
                raise InvalidArgumentError(
                    f"this callable takes {len(keys)} values, one for each of its "
                    f"feed_list, and got {len(values)}."
                )
            if options and not accept_options:
                raise TypeError(f"this callable takes no keywords: {[*options]}.")
            return self.run(fetches, dict(zip(keys, values, strict=False)), **options)

        return call

    def _make_callable_from_options(
        self, callable_options: CallableOptions
    ) -> Callable[..., Any]:
        """Return a function of the values to feed; it returns a list of the fetches.

        It takes a `tf.RunMetadata` as `run_metadata`. Raises `InvalidArgumentError` for
        a name that the graph does not have, and for another number of values.
        """
        _check_type(callable_options, CallableOptions, "callable_options")
        self._check_not_closed()
        options = copy.deepcopy(callable_options)
        feeds, fetches = self._tensors(options.feed), self._tensors(options.fetch)
        targets = [tensor.op for tensor in self._tensors(options.target)]
        pairs = [
            self._tensors([pair.from_tensor, pair.to_tensor])
            for pair in options.tensor_connection
        ]

        def call(*values: Any, run_metadata: RunMetadata | None = None) -> list[Any]:
            if len(values) != len(feeds):
                raise InvalidArgumentError(
                    f"this callable takes {len(feeds)} values, and got {len(values)}."
                )
            self._check_not_closed()
            fed, wanted = dict(zip(feeds, values, strict=True)), [*fetches, *targets]
            if pairs:
                results = self._run_connected(wanted, fed, pairs)
            else:
                results = self.run(wanted, fed, options.run_options, run_metadata)
            return list(results[: len(fetches)])

        return call

    def _tensors(self, names: Sequence[str]) -> list[Any]:
        full = [name if ":" in name else f"{name}:0" for name in names]
        try:
            return [self._graph.as_graph_element(name) for name in full]
        except (KeyError, ValueError) as exc:
            raise InvalidArgumentError(f"callable_options: {exc}") from exc

    def _run_connected(
        self, wanted: list[Any], fed: dict[Any, Any], pairs: list[Any]
    ) -> list[Any]:
        """Run parts of the graph where some tensors have the values of others."""
        sources = [source for source, _ in pairs]
        handle = self.partial_run_setup(
            list(dict.fromkeys([*wanted, *sources])),
            [*fed, *(target for _, target in pairs)],
        )
        values: dict[Any, Any] = {}
        for source, target in pairs:
            if source not in values:
                values[source] = self.partial_run(handle, source, fed)
                fed = {}
            fed[target] = values[source]
        rest = [
            fetch
            for fetch in wanted
            if fetch not in values and not isinstance(fetch, Op)
        ]
        parts = self.partial_run(handle, list(dict.fromkeys(rest)), fed)
        values |= zip(dict.fromkeys(rest), parts, strict=True)
        return [values.get(fetch) for fetch in wanted]

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Declare a run in several parts; returns its handle for `partial_run`.

        Raises `TypeError` and `ValueError` for what cannot be fetched or fed.
        """
        self._check_open()
        if isinstance(fetches, list | tuple) and not fetches:
            raise InvalidArgumentError(
                "Must specify at least one target to fetch or execute."
            )
        keys = [self._key(feed) for feed in feeds or ()]
        wanted, limit = fetchable(self._graph, fetches), self._limit_s(None)
        with originals():
            self._meet(limit)
            return self._native.partial_run_setup(wanted, keys, deadline_s=limit)

    def _key(self, key: Any) -> Any:
        try:
            return self._graph.as_graph_element(key)
        except KeyError as exc:
            raise ValueError(f"Cannot interpret feed key {key!r}: {exc}") from exc

    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Feed some of the declared feeds and return some of the fetches.

        Raises `InvalidArgumentError` for a feed or fetch that was not declared, comes
        twice or cannot be computed yet, and for an unknown handle; `RuntimeError` for
        an operation.
        """
        self._check_open()
        feeds = feedable(self._graph, feed_dict)
        wanted = fetchable(self._graph, fetches, tensors_only=True)
        with originals(), self._waiting(self._limit_s(None)):
            return self._native.partial_run(handle, wanted, feeds)

    def list_devices(self) -> list[DeviceAttributes]:
        """Return the devices of all tasks as the session met them, the target's first.

        A task that has ended since is among them.
        """
        self._check_not_closed()
        with originals():
            self._meet(self._limit_s(None))
        return [
            DeviceAttributes(device.name, device.type, _NOMINAL_BYTES, incarnation)
            for device, incarnation in self._devices
        ]

    def as_default(self) -> AbstractContextManager[Any]:
        """Make it the default session of this thread for a block; it stays open."""
        return sessions.installed(self)

    def close(self) -> None:
        """End the session; runs under way are cancelled. May be called twice.

        Raises `AbortedError` for one that was ended by `Session.reset`.
        """
        # Marked first: if the check below raises, the session is closed all the same.
        was_closed, self._is_closed = self._is_closed, True
        try:
            if self._devices and not was_closed:
                check_known(self._native)
        finally:
            self._waits.close()
            self._native.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not self._graph.version:
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before "
                "calling run()."
            )

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise CancelledError("Session has been closed.")

    def _meet(self, limit_s: float) -> None:
        """Wait for the target's tasks the first time, and see that all has a place.

        A run looks at the whole graph, not only at what it needs. The master does so
        when it makes a plan, but keeps plans when the graph grows. Tasks are asked
        once: one that the graph does not need any more may end.
        """
        version, is_first = self._graph.version, not self._devices
        if is_first:
            self._devices = meet(self._native, self._target.decode(), limit_s)
        is_logged = self._config.log_device_placement
        if self._n_placed < version and (is_logged or not is_first):
            ops, devices = self._graph.ops, [device for device, _ in self._devices]
            placed = placed_all(ops, devices, self._config, self._looks_at_all)
            if is_logged:
                self._log_placement(ops, placed)
        self._n_placed = version

    def _log_placement(self, ops: Sequence[Op], placed: Mapping[str, Device]) -> None:
        for op in ops:
            if op.name in placed and op.name not in self._logged:
                self._logged.add(op.name)
                text = f"{op.name}: ({op.type}): {placed[op.name].name}"
                print(text, file=sys.stderr, flush=True)

    def _waiting(self, limit_s: float) -> AbstractContextManager[None]:
        """Say in the block what it waits for, if it has no limit."""
        return self._waits.during() if limit_s >= LONGEST_S else nullcontext()

    def _limit_s(self, options: RunOptions | None) -> float:
        milliseconds = 0 if options is None else options.timeout_in_ms
        milliseconds = milliseconds or self._config.operation_timeout_in_ms
        return milliseconds / 1000 if milliseconds > 0 else LONGEST_S

    def __del__(self) -> None:
        # `__init__` may have raised before there was anything to close.
        if "_native" in self.__dict__ and not self._is_closed:
            self._is_closed = True
            _close_elsewhere(self._waits, self._native)


# --------------------------------------------------------------------------------------
# A session that is open when nobody has it any more.
#
# The collector comes in any thread and between any two lines: that thread may hold a
# lock that closing needs, and must not wait for the answers of other tasks either.


def _close_elsewhere(waits: Waits, native: NativeSession) -> None:
    """Close a session in a thread of its own, without waiting for it.

    Not by `threading`, whose `start` takes locks and waits. At the end of the process
    no thread begins any more, and none is interrupted; its target learns of it as the
    link ends.
    """
    if not sys.is_finalizing():
        with suppress(RuntimeError):  # no thread can begin
            _thread.start_new_thread(_close_quietly, (waits, native))


def _close_quietly(waits: Waits, native: NativeSession) -> None:
    waits.close()
    with suppress(KitError):
        native.close()


class Session(BaseSession):
    """Runs a graph.

        with tf.Session("grpc://host:2222") as sess:
            sess.run(train_op, {x: images})

    `target` is '' for this process alone, or a server's target; `graph` is the default
    graph unless given. Leaving the block closes the session.
    """

    def __init__(
        self, target: Any = "", graph: Graph | None = None, config: Any = None
    ) -> None:
        super().__init__(target, graph, config)
        self._entered: AbstractContextManager[Any] | None = None

    def __enter__(self) -> Session:
        if self._entered is not None:
            raise RuntimeError("Session context managers are not re-entrant.")
        self._entered = self._block()
        self._entered.__enter__()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        block, self._entered = self._entered, None
        try:
            if block is not None:
                block.__exit__(*exc_info)
        finally:
            self.close()

    @contextmanager
    def _block(self) -> Iterator[None]:
        with self._graph.as_default(), self.as_default():
            yield

    @staticmethod
    def reset(target: Any, containers: Any = None, config: Any = None) -> None:
        """Clear containers on all tasks of a cluster and end the target's sessions.

        Without `containers` it is the default one. A session of this process alone has
        nothing to clear. Raises `NotFoundError` for an unknown target, and
        `DeadlineExceededError` when a task does not answer.
        """
        text = text_of(target)
        if not text:
            return
        session = BaseSession(text, Graph(), config)
        try:
            names = [str(container) for container in containers or [""]]
            limit = session._limit_s(None)
            with originals():
                session._meet(limit)
                session._native.reset(names, deadline_s=limit)
                session._devices = []  # it was ended with all others
        finally:
            session.close()


class InteractiveSession(BaseSession):
    """A session that makes itself the default one, until it is closed."""

    _n_open = 0
    _prunes_first = True

    def __init__(
        self, target: Any = "", graph: Graph | None = None, config: Any = None
    ) -> None:
        super().__init__(target, graph, config)
        if InteractiveSession._n_open:
            warnings.warn(
                "An interactive session is already active. This can cause "
                "out-of-memory errors in some cases. You must explicitly call "
                "`InteractiveSession.close()` to release resources held by the other "
                "session(s).",
                stacklevel=2,
            )
        InteractiveSession._n_open += 1
        self._explicit = graph
        if graph is not None:
            graph._install()
        sessions.push(self)

    def close(self) -> None:
        """End the session, and let what was the default before be it again."""
        if not self._is_closed:
            InteractiveSession._n_open -= 1
            sessions.remove(self)
            if self._explicit is not None:
                self._explicit._uninstall()
        super().close()


def _merged(target: str, config: ConfigProto | None) -> ConfigProto:
    """Return the session's config, under that of its server in this process."""
    merged = ConfigProto() if config is None else copy.deepcopy(config)
    server = server_of(target)
    if server is not None:
        merged.MergeFrom(server.server_def.default_session_config)
    return merged


def _is_isolated(config: ConfigProto) -> bool:
    """Whether a session has variables of its own, as with a cluster of its own."""
    is_shared = config.experimental.share_session_state_in_clusterspec_propagation
    return config.isolate_session_state or (
        bool(config.cluster_def.job) and not is_shared
    )


def _check_type(value: Any, kind: type, name: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be a tf.{kind.__name__}, but got {value!r}.")
