"""Carry out a plan: its operations are bound once per epoch, and run step after step.

If all neighbours share memory and the compiled loop was built, everything between two
updates that the loop does not know is a single call of it
(`kit.exchange.execution.native_executor`); else each operation is one call in Python
(`kit.exchange.execution.python_executor`). Both give the same bits, the same messages
and the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Protocol

import numpy as np

from kit.exchange.execution import native_executor
from kit.exchange.execution.bound_operations import Binder, BoundUpdate, Update
from kit.exchange.execution.python_executor import PythonExecutor
from kit.exchange.layout import Layout, Range
from kit.exchange.plan import Op, Plan, Receive
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Array, Memory, is_apart
from kit.exchange.ports.port import Expected
from kit.trace.traffic import Meter, TransferKind

Scripts = dict[int, list[list[Expected]]]  # of each member, by parity of the step
_FINISH, _WHOLE = -1, -2  # parts of a plan that are run at once, beside the buckets


class Executor(Protocol):
    """Carries out some operations in a row."""

    def run(self, begun: int) -> tuple[int, int]:
        """Do them all; returns when they were done, and how long they waited (ns)."""


class Program:
    """One member's plan, bound to its memory, links and meter.

    `reduce(bucket)` for each bucket in order, then `finish()`, make a step;
    `endpoint.stamp` says which one.
    """

    def __init__(
        self,
        plan: Plan,
        endpoint: Endpoint,
        memory: Memory,
        meter: Meter,
        *,
        update: Update | None = None,
        n_slots: int = 0,
        once: bool = False,
        expects: bool = True,
        layout: Layout | None = None,
        combine: np.ufunc = np.add,
        binder: Callable[..., Binder] = Binder,
    ) -> None:
        """Bind a plan; `update` may be None if it applies nothing.

        `once`: it is run once, so no message beyond its own is expected. Without
        `expects` the caller tells the endpoint which messages will come, or calls
        `expect` before each run. `layout` is the plan's, if the memory has another;
        `combine` is what is done instead of adding, and `binder` suits the memory.
        """
        self._endpoint, self._memory, self._meter = endpoint, memory, meter
        self._binder = binder(
            endpoint, memory, update, n_slots, plan, layout=layout, combine=combine
        )
        self._plan, self._once = plan, once
        self._scripts: dict[tuple[object, ...], Scripts] = {}
        self.waited_ns = 0
        if expects:
            self.expect()
        self._parts = {**dict(enumerate(plan.reduce)), _FINISH: plan.finish}
        self._parts[_WHOLE] = plan.ops
        # By part and parity, bound when first run: a training that runs whole steps
        # never pays for the parts by bucket.
        self._bound: dict[tuple[int, int], list[Executor]] = {}
        self.n_buckets = len(plan.reduce)

    def reduce(self, bucket: int) -> None:
        """Sum up one bucket. Raises what `Endpoint.take` raises."""
        self._run(bucket)

    def finish(self) -> None:
        """Update what is ours, hand it out, take the rest; then NEXT is complete."""
        self._run(_FINISH)
        self._endpoint.flush()

    def step(self) -> None:
        """Do a whole step; costs less than its parts, which are more calls."""
        self._run(_WHOLE)
        self._endpoint.flush()

    def lend(self, arrays: Mapping[int, Array]) -> bool:
        """Let the next step use a caller's arrays as some of our own regions.

        They have the bytes of the plan's layout. Only the compiled loop can do so;
        returns whether it does.
        """
        executors = self._executors(_WHOLE)
        pairs = [
            (self._memory.typed(region, Range(0, array.nbytes)), array)
            for region, array in arrays.items()
        ]
        for executor in executors:
            if not isinstance(executor, native_executor.NativeExecutor):
                return False
            executor.lend(pairs)
        return True

    def _executors(self, part: int) -> list[Executor]:
        key = part, self._endpoint.stamp.parity
        if key not in self._bound:
            self._bound[key] = self._bind(self._parts[part], key[1])
        return self._bound[key]

    def _run(self, part: int) -> None:
        stretches = self._executors(part)
        begun = self._endpoint.clock()
        for stretch in stretches:
            begun, waited = stretch.run(begun)
            self.waited_ns += waited

    def expect(self) -> None:
        """Tell the ports which messages are the next ones."""
        stamp = self._endpoint.stamp
        key = stamp.parity, stamp.overwrites, stamp.stays, *self._endpoint.ports
        scripts = self._scripts.get(key)
        if scripts is None:
            scripts = self._scripts[key] = self._scripted(stamp.parity)
        self._endpoint.expect(scripts, stamp.parity)

    def _scripted(self, first: int) -> Scripts:
        # Regions change places with each step, so each port gets two scripts, one for
        # steps of each parity, and takes them in turn.
        scripts: Scripts = {member: [[], []] for member in self._endpoint.ports}
        stamp = self._endpoint.stamp
        for op in self._plan.ops:
            if isinstance(op, Receive):
                for parity, script in enumerate(scripts[op.source]):
                    region = stamp.at(op.region, parity)
                    # What is finished goes straight to its place: nothing of ours that
                    # is still needed lies there.
                    is_separate = is_apart(op.region) and op.kind != TransferKind.GATHER
                    script.append(Expected(region, op.range, is_separate))
        # An empty script is no step to a port: it stops reading after the only one, and
        # leaves on the socket what belongs to the program after this.
        for pair in scripts.values():
            if self._once:
                pair[1 - first] = []
        return scripts

    def _bind(self, ops: Iterable[Op], parity: int) -> list[Executor]:
        bound = [item for op in ops for item in self._binder.bind(op, parity)]
        is_native = self._binder.is_native
        if not (is_native and native_executor.suit(bound, self._endpoint)):
            return [PythonExecutor(bound, self._endpoint, self._meter)] if bound else []
        # An update that the loop does not know is Python's, and ends one call of the
        # loop.
        executors: list[Executor] = []
        for is_update, group in groupby(
            bound, key=lambda op: isinstance(op, BoundUpdate)
        ):
            way = PythonExecutor if is_update else native_executor.NativeExecutor
            executors.append(way(tuple(group), self._endpoint, self._meter))
        return executors
