"""What a member needs of the server of its task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kit.training.core.client import CoordinatorClient
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job
from kit.wire.stream import Stream


class Services(Protocol):
    """What the task's server does for a member."""

    @property
    def cluster_number(self) -> int:
        """What frames carry to distinguish clusters."""

    def streams(
        self,
        job: Job,
        dialled: Sequence[int],
        awaited: Sequence[int],
        deadline: float,
    ) -> dict[int, Stream]:
        """Return data streams to other members: to some that we dial, and to others.

        All are there, or none: raises `DeadlineExceededError` after the `deadline`.
        """

    def stream_of(self, job: Job, member: int, incarnation: int) -> Stream:
        """Return the data stream that a returning member has opened."""

    def ended(self, member: Any) -> None:
        """Take note that a `Member` has ended; its state says how."""

    def elastic(self, origin: str) -> Any:
        """Return what this process does in an elastic training, by its first run."""

    def client(
        self, job: Job, me: int, coordinator: TrainingCoordinator | None
    ) -> CoordinatorClient:
        """Return the way to the coordinator."""

    def spins(self, job: Job) -> int:
        """Return how often a wait checks again before it yields the processor."""
