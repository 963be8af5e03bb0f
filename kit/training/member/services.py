"""What a member of a training needs of the server that hosts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kit.training.coordination.client import CoordinatorClient
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.job import Job
from kit.wire.stream import Stream


class Services(Protocol):
    """What the task's server does for a member."""

    @property
    def cluster_number(self) -> int:
        """What frames carry to tell clusters apart."""

    def streams(self, job: Job, me: int) -> Mapping[int, Stream]:
        """Return a data stream to every other member.

        A member that comes back gets those to the parameter servers alone.
        """

    def stream_of(self, job: Job, member: int, incarnation: int) -> Stream:
        """Return the data stream that a member has opened which comes back."""

    def client(
        self, job: Job, me: int, coordinator: TrainingCoordinator | None
    ) -> CoordinatorClient:
        """Return the way to the coordinator."""

    def spins(self, job: Job) -> int:
        """Return how often to look before giving the processor away."""
