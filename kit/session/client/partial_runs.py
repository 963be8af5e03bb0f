"""One run in several parts: some feeds and fetches now, others later.

Every declared feed may be given once and every declared fetch taken once. An op runs at
most once in all parts: what later parts need of it is kept here in between, and is sent
back to the tasks as a feed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.op import Op, Tensor
from kit.session.client.cached_run import CachedRun, Fetches, SentGraph, unwrapped


class PartialRun:
    """A run that has been declared. One thread at a time."""

    def __init__(
        self,
        sent: SentGraph,
        fetches: Iterable[Tensor | Op],
        feeds: Iterable[Tensor],
        deadline_s: float | None,
    ) -> None:
        """Declare what will be fetched (ops only run) and what will be fed.

        `deadline_s` is for each part.
        """
        self._sent, self._deadline_s = sent, deadline_s
        self._feeds = set(feeds)
        elements = list(fetches)
        self._fetches = {element for element in elements if isinstance(element, Tensor)}
        self._targets = [element for element in elements if isinstance(element, Op)]
        self._values: dict[Tensor, Any] = {}
        self._given: set[Tensor] = set()
        self._taken: set[Tensor] = set()
        self._done: dict[Op, None] = {}
        self.is_over = False
        for op in self._ops_for(
            [*[fetch.op for fetch in self._fetches], *self._targets]
        ):
            if op.type == "TemporaryVariable":  # each part would make it anew
                raise InvalidArgumentError(
                    f"{op.name!r} lasts for one run, and has no value in a run in "
                    f"parts; use a variable."
                )

    def part(
        self, fetches: Sequence[Tensor], feeds: Mapping[Tensor, Any]
    ) -> dict[Tensor, Any]:
        """Take the feeds, run what can run, and return the values of the fetches.

        Raises `InvalidArgumentError` for what was not declared, or is given or taken a
        second time, and for a fetch that needs feeds still to come. An error ends the
        whole run.
        """
        self._check(fetches, feeds)
        try:
            self._values |= feeds
            self._given |= feeds.keys()
            self._taken |= set(fetches)
            self._run(fetches)
        except BaseException:
            self.is_over = True
            raise
        if self._taken == self._fetches and self._given == self._feeds:
            self.is_over = True
        return {fetch: self._values[fetch] for fetch in fetches}

    def _check(self, fetches: Sequence[Tensor], feeds: Mapping[Tensor, Any]) -> None:
        if self.is_over:
            raise InvalidArgumentError(
                "this run in parts is over: all was fetched and fed, or a part failed. "
                "Set up another one."
            )
        for what, asked, declared, past in (
            ("fed", list(feeds), self._feeds, self._given),
            ("fetched", list(fetches), self._fetches, self._taken),
        ):
            for element in asked:
                if element not in declared:
                    raise InvalidArgumentError(
                        f"{element.name!r} was not declared to be {what} when this run "
                        f"was set up."
                    )
                if element in past:
                    raise InvalidArgumentError(
                        f"{element.name!r} was {what} already in this run."
                    )
        missing = self._feeds - self._given - feeds.keys()
        for element in fetches:
            if late := self._needed_for(element) & missing:
                names = ", ".join(sorted(repr(tensor.name) for tensor in late))
                raise InvalidArgumentError(
                    f"{element.name!r} cannot be fetched before {names} is fed."
                )

    def _run(self, fetches: Sequence[Tensor]) -> None:
        missing = self._feeds - self._given
        targets = [op for op in self._targets if not self._needed([op]) & missing]
        self._targets = [op for op in self._targets if op not in targets]
        wanted = [fetch for fetch in fetches if fetch not in self._values]
        new = self._ops_for([*[tensor.op for tensor in wanted], *targets])
        if not new:
            return
        kept = self._kept(new, wanted)
        inputs = {take for op in new for take in op.takes if take in self._values}
        feeds = sorted(inputs, key=lambda tensor: (tensor.op.number, tensor.index))
        wanted_now = Fetches(self._sent.graph, [*kept, *targets])
        allow = "deadline_s of partial_run_setup, or with the setting run_deadline_s"
        cached = CachedRun(self._sent, wanted_now, feeds, self._done, allow)
        # A value of rank 0 has come as a scalar, and goes back as an array.
        values_fed = [
            np.asarray(self._values[feed], feed.static.dtype) for feed in feeds
        ]
        values = cached.run(values_fed, self._deadline_s)
        self._values |= dict(zip(kept, values, strict=False))  # the rest is of ops
        self._done |= dict.fromkeys(op for op in new if not op.op_def.gives_ref)

    def _kept(self, new: Sequence[Op], wanted: Sequence[Tensor]) -> list[Tensor]:
        """Return the outputs of new ops that are fetched, or that later parts need."""
        chosen = dict.fromkeys(wanted)
        later = set(self._ops_for([*[t.op for t in self._fetches], *self._targets]))
        for op in later - set(new):
            for tensor in op.takes:
                if tensor.op in new and not tensor.op.op_def.gives_ref:
                    chosen.setdefault(tensor)
        for tensor in self._fetches - self._taken:
            if tensor.op in new and not tensor.op.op_def.gives_ref:
                chosen.setdefault(tensor)
        return list(chosen)

    def _ops_for(self, ops: Sequence[Op]) -> list[Op]:
        """Return the ops that must still run for some ops, excluding fed tensors'."""
        ops_needed: dict[Op, None] = {}
        stack = list(ops)
        while stack:
            op = stack.pop()
            if op in ops_needed or op in self._done:
                continue
            ops_needed[op] = None
            stack += [
                take.op
                for take in op.takes
                if take not in self._values and take not in self._feeds
            ]
            stack += op.control_inputs
        return list(ops_needed)

    def _needed_for(self, tensor: Tensor) -> set[Tensor]:
        return {tensor} if tensor in self._feeds else self._needed([tensor.op])

    def _needed(self, ops: Sequence[Op]) -> set[Tensor]:
        """Return the declared feeds on the way to some ops."""
        return {
            take
            for op in self._ops_for(ops)
            for take in op.takes
            if take in self._feeds
        }


# --------------------------------------------------------------------------------------
# The runs in several parts that a session has under way, by handle.


class Parts:
    """All of one session."""

    def __init__(self, sent: SentGraph) -> None:
        self._sent = sent
        self._runs: dict[str, PartialRun] = {}
        self._numbers = itertools.count(1)

    def begin(
        self,
        elements: Sequence[Tensor | Op],
        feeds: Sequence[Tensor],
        deadline_s: float | None,
    ) -> str:
        """Declare a run; returns its handle."""
        handle = f"run-in-parts-{next(self._numbers)}"
        self._runs[handle] = PartialRun(self._sent, elements, feeds, deadline_s)
        return handle

    def part(
        self,
        handle: str,
        elements: Sequence[Tensor | Op],
        feeds: Mapping[Tensor, Any],
    ) -> list[Any]:
        """Run one part; see `Session.partial_run`."""
        if handle not in self._runs:
            raise InvalidArgumentError(
                f"there is no run in parts {handle!r}: it is over, or was never set up."
            )
        tensors = [element for element in elements if isinstance(element, Tensor)]
        if len(tensors) < len(elements):
            raise RuntimeError(
                "a part of a run fetches tensors only; name ops in partial_run_setup."
            )
        run = self._runs[handle]
        try:
            values_of = run.part(tensors, feeds)
        finally:
            if run.is_over:
                self._runs.pop(handle, None)
        return [
            values_of[tensor] if tensor in feeds else unwrapped(values_of[tensor])
            for tensor in tensors
        ]
