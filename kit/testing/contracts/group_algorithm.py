"""What a topology must do as the algorithm of a group: a part of `check_topology`.

The tasks are servers in this process and everything between them is real: calls are
compared, plans carried out over the links of a group, bytes counted, errors passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from kit.errors import KitError, MemberMismatch
from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import Group
from kit.exchange.ports.memory import Array
from kit.exchange.topologies.topology import TABLE, Topology, register
from kit.groups.group import TaskGroup
from kit.groups.values import OPS
from kit.server.opening import group
from kit.settings import current
from kit.testing.cluster import local_cluster
from kit.testing.contracts.wanted_sums import added

_BUCKET = 1 << 17
_QUICK = {"heartbeat_s": 0.1, "suspect_after_s": 0.3, "dead_after_s": 2.0}
_TIMEOUT_S = 30.0
# Dtype, elements, op. The last one is large enough to be summed where it lies.
_CALLS = (
    ("float32", 1_000, "sum"),
    ("float64", 7, "mean"),
    ("int8", 11, "max"),
    ("complex64", 3, "prod"),
    ("float32", 0, "sum"),
    ("float32", 270_011, "sum"),
)
Program = Callable[[TaskGroup], Any]


def check_as_algorithm(
    topology: Topology, sizes: Sequence[int], seed: int, *, exact: bool = True
) -> None:
    """Raise `AssertionError` for the first rule that an all-reduce of a group breaks.

    Tried are groups of these `sizes`; the last one also ends. `exact`: whether sums
    have to have the bits of the documented order.
    """
    settings = current().replace(**_QUICK, bucket_bytes=_BUCKET)
    for n in sizes:
        with _registered(topology), local_cluster(0, n, settings=settings) as cluster:
            groups = [group(cluster=s, timeout_s=_TIMEOUT_S) for s in cluster.servers]
            try:
                trial = _Algorithm(topology, groups, exact)
                for number, call in enumerate(_CALLS):
                    trial.check_call(*call, seed + number)
                trial.check_wrong_call()
                trial.check_split()
                if n == sizes[-1]:  # it takes a second
                    trial.check_end()
            finally:
                for item in groups:
                    item.close()


@contextmanager
def _registered(topology: Topology) -> Iterator[None]:
    """Let calls name a topology in a block."""
    before = TABLE.get(topology.name)
    register(topology)
    try:
        yield
    finally:
        if before is None:
            del TABLE[topology.name]
        else:  # in its place: the first one that suits is a group's default
            TABLE[topology.name] = before


@dataclass(frozen=True)
class _Algorithm:
    """A topology, and one group that calls it."""

    topology: Topology
    groups: Sequence[TaskGroup]
    exact: bool

    def check_call(self, dtype: str, size: int, op: str, seed: int) -> None:
        """Compare results and bytes of one call; some results go to the input."""
        n, rng = len(self.groups), np.random.default_rng(seed)
        scale = 10.0 ** rng.integers(-6, 6, (n, size))
        values = [*(rng.standard_normal((n, size)) * scale).astype(dtype)]
        wanted, n_bytes = self._wanted(values, op)
        before = self.groups[0].traffic.measured

        def call(item: TaskGroup) -> Any:
            own = values[item.rank].copy()
            out = own if item.rank % 2 and own.dtype == wanted.dtype else None
            return self._sum(item, own, op=op, out=out)

        what = f"all_reduce of {dtype}[{size}], op={op!r}"
        scale = np.sum(np.abs(np.asarray(values, complex)), 0)
        self._compare(what, self._results(call), wanted, scale)
        traffic = self.groups[0].traffic
        moved = traffic.measured - before
        if moved != n_bytes:
            self._fail(f"{what} moved {moved} bytes, where traffic says {n_bytes}")
        if traffic.measured != traffic.formula:
            self._fail(f"{what}: {traffic}")

    def check_wrong_call(self) -> None:
        """Call it with another shape on the last task, and then rightly again."""
        last = len(self.groups) - 1
        errors = self._outcomes(
            lambda item: self._sum(item, np.ones(5 + (item.rank == last)))
        )
        for error in errors:
            is_named = all(task.short in str(error) for task in self.groups[0].tasks)
            if not isinstance(error, MemberMismatch) or not is_named:
                self._fail(
                    f"a call with another shape on one task ended with {error!r}"
                )
        self.check_call("float64", 9, "sum", 0)

    def check_split(self) -> None:
        """Call it in groups of every second task."""

        def call(item: TaskGroup) -> Any:
            with item.split(item.rank % 2) as half:
                return self._sum(half, np.full(3, item.rank))

        for rank, total in enumerate(self._results(call)):
            wanted = sum(range(rank % 2, len(self.groups), 2))
            self._compare("all_reduce of a split group", [total], np.full(3, wanted), 0)

    def check_end(self) -> None:
        """Let the last task close its group while the others wait for it."""
        *_, last = self.groups
        errors = self._outcomes(
            lambda item: item.close() if item is last else self._sum(item, np.ones(5))
        )
        for error in errors[:-1]:
            name = last.tasks[last.rank].short
            if not isinstance(error, KitError) or name not in str(error):
                self._fail(f"a call without {name} ended with {error!r}")

    def _sum(self, item: TaskGroup, value: Array, **how: Any) -> Any:
        return item.all_reduce(value, algorithm=self.topology.name, **how)

    def _wanted(self, values: Sequence[Array], op: str) -> tuple[Array, int]:
        """Return the sum in the order that the topology names, and the bytes it says.

        As a training does, chunk by chunk of each bucket.
        """
        n, (first, *_) = len(values), values
        spec = Spec("0", first.shape, str(first.dtype))
        layout = lay_out([spec], n, _BUCKET)
        total = np.empty_like(first)
        for bucket in layout.buckets:
            for number, chunk in enumerate(bucket.chunks):
                part = slice(*(edge // first.itemsize for edge in chunk))
                order = self.topology.order(n, number)
                shares = [value[part] for value in values]
                total[part] = added(shares, order, OPS[op])
        members = Group((), tuple(range(n)), (), (0,) * n)
        n_bytes = sum(self.topology.traffic(layout, members).values())
        return (total / n if op == "mean" else total), n_bytes

    def _compare(
        self, what: str, results: Sequence[Array], wanted: Array, scale: Any
    ) -> None:
        """Compare results of numbers whose sizes add up to `scale`."""
        for rank, result in enumerate(results):
            is_near = bool(np.all(np.isclose(result, wanted, 1e-5, 1e-5 * scale)))
            is_same = result.tobytes() == wanted.tobytes()
            if not (is_same if self.exact else is_near):
                how = "in another order" if is_near else "wrongly"
                self._fail(f"{what} is added {how} on {self._name(rank)}")

    def _results(self, program: Program) -> list[Any]:
        """Return what all tasks return; an error of one ends the check."""
        outcomes = self._outcomes(program)
        for rank, outcome in enumerate(outcomes):
            if isinstance(outcome, BaseException):
                text = f"{self._name(rank)} ended with {type(outcome).__name__}"
                self._fail(f"{text}: {outcome}", outcome)
        return outcomes

    def _outcomes(self, program: Program) -> list[Any]:
        """Return what each task returns or raises."""
        with ThreadPoolExecutor(len(self.groups)) as pool:
            begun = [pool.submit(program, item) for item in self.groups]
            return [item.exception() or item.result() for item in begun]

    def _name(self, rank: int) -> str:
        return self.groups[0].tasks[rank].short

    def _fail(self, text: str, cause: BaseException | None = None) -> NoReturn:
        raise AssertionError(
            f"topology {self.topology.name!r} as the algorithm of a group of "
            f"{len(self.groups)} tasks: {text}."
        ) from cause
