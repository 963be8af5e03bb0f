"""The runs in several parts that a session has under way, by handle."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kit.errors import InvalidArgumentError
from kit.graph.op import Op, Tensor
from kit.session.client.partial import PartialRun
from kit.session.client.run_signature import unwrapped

if TYPE_CHECKING:
    from kit.session.client.session import Session
    from kit.session.master.plan import Kind


class Parts:
    """All of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._runs: dict[str, tuple[PartialRun, float | None]] = {}
        self._numbers = itertools.count(1)

    def begin(
        self,
        elements: Sequence[Tensor | Op],
        feeds: Sequence[Tensor],
        deadline_s: float | None,
    ) -> str:
        """Declare a run; returns its handle."""
        handle = f"run-in-parts-{next(self._numbers)}"
        self._runs[handle] = PartialRun(elements, feeds), deadline_s
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
        tensors = [one for one in elements if isinstance(one, Tensor)]
        if len(tensors) < len(elements):
            raise RuntimeError(
                "a part of a run fetches tensors only; name ops in partial_run_setup."
            )
        run, deadline_s = self._runs[handle]

        def run_kind(kind: Kind, values: list[Any]) -> list[Any]:
            return self._session.run_kind(kind, values, deadline_s)

        try:
            found = run.part(tensors, feeds, run_kind)
        finally:
            if run.is_over:
                self._runs.pop(handle, None)
        return [
            found[one] if one in feeds else unwrapped(found[one]) for one in tensors
        ]
