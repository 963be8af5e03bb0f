"""How long before a halt it must be announced, so that nobody goes past it.

Pure. A halt travels with the messages of the steps. Where every result depends on all
workers, a member that completes a step knows what the coordinator knew at its start;
else news goes on to the neighbours with each step, and takes some steps to reach all.

    coordinator   at its step s, asks whether all are to meet before step s + ahead
    boundary      what is due before that comes with the verdict to go on
"""

from __future__ import annotations

from collections.abc import Callable

from kit.exchange.plan import Group
from kit.exchange.ports.port import NO_HALT
from kit.exchange.topologies.topology import by_name, steps_to_all
from kit.training.coordination.membership import Agreement, Round, Verdict


class Halts:
    """What the coordinator knows of them, in the epoch that holds."""

    def __init__(self, group: Group, agreement: Agreement) -> None:
        """Ask nothing yet."""
        self._group, self._agreement = group, agreement
        self._known: dict[int, int] = {}  # of an epoch, `ahead`

    @property
    def ahead(self) -> int:
        """How many steps before it begins a halt must be announced."""
        epoch = self._agreement.epoch
        if epoch.number not in self._known:
            topology = by_name(epoch.topology)
            self._known = {epoch.number: steps_to_all(topology, self._group)}
        return self._known[epoch.number]

    def known(
        self, meeting: Round, verdict: Verdict, wants_halt: Callable[[int], bool]
    ) -> int:
        """Return the halt that is due too soon to be heard of on the way.

        It is decided once for all who come to the boundary. `wants_halt` is asked about
        each step in its order, as on the way.
        """
        if verdict is not Verdict.GO:
            return NO_HALT
        if meeting.halt is None:
            near = range(meeting.step + 1, meeting.step + self.ahead)
            due = (step for step in near if wants_halt(step - 1))
            meeting.halt = next(due, NO_HALT)
        return meeting.halt
