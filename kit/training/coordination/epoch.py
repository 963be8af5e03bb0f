"""One configuration of a training.

Pure. `kit.training.coordination.membership` has how all members agree on the next.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """One configuration of a training. Number 0 is the time before the start."""

    number: int
    topology: str
    synchronous: bool = True
    link: str = ""
    first_step: int = 0
    # Lost members that take part again from here on, each with its incarnation.
    joined: tuple[tuple[int, int], ...] = ()

    @property
    def how(self) -> str:
        """How gradients meet, as a trace names it.

        >>> Epoch(1, "ps").how, Epoch(2, "ps", synchronous=False).how
        ('ps', 'ps-async')
        """
        return self.topology if self.synchronous else f"{self.topology}-async"

    def is_like(self, other: Epoch) -> bool:
        """Whether the other one configures the same."""
        # Asked before each step: field by field takes a third of the time.
        return (
            self.topology == other.topology
            and self.synchronous == other.synchronous
            and self.link == other.link
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the epoch as data that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Epoch:
        """Rebuild an epoch from `to_plain`."""
        joined = tuple((int(one), int(start)) for one, start in plain["joined"])
        return cls(**{**plain, "joined": joined})
