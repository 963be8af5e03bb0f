"""The rows of a trace that are few and named: epochs, switches, checkpoints.

Pure. The many rows (transfers, spans, steps) are columns of numpy, see `kit.traffic`.
"""

from __future__ import annotations

from typing import NamedTuple


class EpochRow(NamedTuple):
    """One configuration of the training and the first step it holds for."""

    number: int
    topology: str
    first_step: int
    at: int  # nanoseconds, monotonic
    link: str  # "" when the links run at full speed
    joined: str = ""  # the tasks that had been lost and take part again, by comma

    @property
    def is_asynchronous(self) -> bool:
        """Whether each worker went at its own pace."""
        return self.topology.endswith("-async")

    @property
    def plain_topology(self) -> str:
        """The topology without the word on that.

        >>> EpochRow(1, "ps-async", 0, 0, "").plain_topology
        'ps'
        """
        return self.topology.removesuffix("-async")


class Switch(NamedTuple):
    """The change from one epoch to the next."""

    before: EpochRow
    after: EpochRow

    @property
    def label(self) -> str:
        """What changed, in a few words.

        >>> a, b = EpochRow(0, "ps", 0, 0, ""), EpochRow(1, "ring", 9, 5, "")
        >>> Switch(a, b).label
        'ps to ring'
        >>> Switch(b, b._replace(number=2, link="1gbit")).label
        'ring at 1gbit'
        """
        if self.before.topology != self.after.topology:
            return f"{self.before.topology} to {self.after.topology}"
        if self.before.link != self.after.link:
            return f"{self.after.topology} at {self.after.link or 'full speed'}"
        return f"{self.after.topology}, epoch {self.after.number}"


class SaveRow(NamedTuple):
    """One attempt to write a checkpoint, while the steps went on.

    `step` is the number of steps that were done; `error` says why nothing was written,
    and is empty for one that was.
    """

    step: int
    begin: int  # nanoseconds, monotonic
    end: int
    error: str

    @property
    def label(self) -> str:
        """What happened, in a few words.

        >>> SaveRow(400, 1, 2, "").label, SaveRow(400, 1, 2, "no space").label
        ('checkpoint of step 400', 'checkpoint of step 400 failed')
        """
        return f"checkpoint of step {self.step}{' failed' if self.error else ''}"
