"""Copies of a training's state, in the memory of other processes than its own.

At a boundary that the coordinator calls, every member that updates parameters copies
them, with their slots. The training waits for this alone. A thread then sends the copy
to the next process, and tells the coordinator when it is there. There is one copy on
its way at a time, so the two newest of each member are enough: one that is whole, and
one that may become so.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kit.errors import KitError
from kit.exchange.layout import Layout, Range
from kit.exchange.plan import Owned
from kit.exchange.ports.memory import Array
from kit.training.checkpointing.member_state import OwnState, copiers_of, ranges_of
from kit.training.elastic.generation import Held
from kit.training.member.context import MemberContext
from kit.training.member.step_events import StepObserver


class StateCopy(NamedTuple):
    """What one member had before a step: parameters, then slot by slot, flat bytes."""

    step: int
    member: int
    writers: tuple[int, ...]  # who copied at this step
    ranges: tuple[Range, ...]
    requests: dict[str, Any]  # the coordinator's: what is asked of the training
    data: Any

    def about(self) -> dict[str, Any]:
        """Return all but the data, as JSON can carry it."""
        ranges = [[part.lo, part.hi] for part in self.ranges]
        found = {**self._asdict(), "writers": list(self.writers), "ranges": ranges}
        del found["data"]
        return found

    @classmethod
    def from_plain(cls, about: dict[str, Any], data: Any) -> StateCopy:
        """Rebuild it from `about` and the data."""
        ranges = tuple(Range(lo, hi) for lo, hi in about["ranges"])
        given = {**about, "writers": tuple(about["writers"]), "ranges": ranges}
        return cls(**given, data=data)


class WholeState(NamedTuple):
    """With what a generation begins: the state before a step, and what is requested."""

    step: int
    values: dict[str, Array]
    requests: dict[str, Any]


class Copies:
    """The copies that a process holds. Every method may be called from any thread."""

    _N_KEPT = 2

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], StateCopy] = {}
        self._guard = threading.Lock()

    def keep(self, copy: StateCopy) -> None:
        """Keep a copy, and let go of all but the two newest of its member."""
        with self._guard:
            self._held[copy.step, copy.member] = copy
            steps = sorted(step for step, one in self._held if one == copy.member)
            for step in steps[: -self._N_KEPT]:
                del self._held[step, copy.member]

    def drop_after(self, step: int) -> None:
        """Let go of the copies of later steps: they will be done again."""
        with self._guard:
            for key in [key for key in self._held if key[0] > step]:
                del self._held[key]

    def held(self) -> list[Held]:
        """Return what there is."""
        with self._guard:
            return [
                Held(one.step, one.member, one.writers) for one in self._held.values()
            ]

    def find(self, step: int, member: int) -> StateCopy:
        """Return a copy; `KeyError` if it is not here."""
        with self._guard:
            return self._held[step, member]


def put_together(
    layout: Layout, slots: Sequence[str], copies: Iterable[StateCopy]
) -> dict[str, Array]:
    """Return parameters and slots by name, as a checkpoint has them."""
    n_regions = 1 + len(slots)
    flat = [np.zeros(layout.n_bytes, np.uint8) for _ in range(n_regions)]
    for copy in copies:
        data, at = np.frombuffer(copy.data, np.uint8), 0
        for region in flat:
            for part in copy.ranges:
                region[part.lo : part.hi] = data[at : at + part.size]
                at += OwnState.stride(part)
    return {
        f"{leaf.spec.name}/{slot}" if slot else leaf.spec.name: region[
            leaf.range.lo : leaf.range.hi
        ]
        .view(leaf.spec.dtype)
        .reshape(leaf.spec.shape)
        for slot, region in zip(("", *slots), flat, strict=True)
        for leaf in layout.leaves
    }


class StateCopier(StepObserver):
    """One member's copies: made in the thread of its steps, sent in one of its own."""

    def __init__(
        self,
        context: MemberContext,
        keep: Callable[[StateCopy], None],
        confirm: Callable[[], None],
        requests: Callable[[], dict[str, Any]],
    ) -> None:
        """`keep` puts a copy where it is safe, and `confirm` tells the coordinator.

        `requests` returns what is asked of the training; the coordinator's member has
        it, for all others it is empty.
        """
        self._context, self._keep, self._confirm = context, keep, confirm
        self._requests = requests
        self._writers: tuple[int, ...] = ()
        self._ranges: tuple[Range, ...] = ()
        self._state: OwnState | None = None
        self._copies: queue.SimpleQueue[StateCopy | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._send, name=f"kit-copier-{context.task.short}", daemon=True
        )
        self._thread.start()

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """See `StepObserver`: prepare the buffer for what is ours from now on."""
        job, me = self._context.job, self._context.me
        self._writers = copiers_of(owners, job.coordinator)
        self._ranges = ranges_of(owners, me)
        is_writer = me in self._writers
        self._state = (
            OwnState(job.layout, self._ranges, job.slots) if is_writer else None
        )

    def copy(self, step: int) -> None:
        """Copy the state before `step`; blocks for the copy alone."""
        context, state = self._context, self._state
        if state is None:
            return
        state.copy(context.memory, context.now)
        context.reach("copy.made", step)
        about = step, context.me, self._writers, self._ranges, self._requests()
        self._copies.put(StateCopy(*about, state.data))

    def close(self) -> None:
        """End the thread; what it is sending may be lost."""
        self._copies.put(None)

    def _send(self) -> None:
        while (copy := self._copies.get()) is not None:
            try:
                self._keep(copy._replace(data=copy.data.copy()))
                self._context.reach("copy.sent", copy.step)
                self._confirm()
            except KitError:
                continue  # whoever is gone ends this generation
