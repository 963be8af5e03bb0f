"""The few named rows of a trace: epochs, switches, checkpoints, and what is kept."""

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
    generation: int = 0  # of an elastic training
    resumes: bool = False  # whether that generation began with copies

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


class Kept(NamedTuple):
    """Which rows of a training are left; by default all of them.

    Steps before `whole` are kept one in `stride`, counted from 0, and the first one.
    Transfers and spans are kept from step `details` on. `unread` rows were dropped by
    their tasks before anybody had read them. Totals are exact in any case.
    """

    stride: int = 1
    whole: int = 0
    details: int = 0
    unread: int = 0

    def __str__(self) -> str:
        """Say what is not kept; empty if all is.

        >>> str(Kept(8, 150_000, 180_000))
        'before step 150,000 one step in 8; transfers and spans from step 180,000 on'
        >>> str(Kept())
        ''
        """
        said = []
        if self.stride > 1:
            said.append(f"before step {self.whole:,} one step in {self.stride:,}")
        if self.details:
            said.append(f"transfers and spans from step {self.details:,} on")
        if self.unread:
            said.append(f"{self.unread:,} rows were dropped before they were read")
        return "; ".join(said)
