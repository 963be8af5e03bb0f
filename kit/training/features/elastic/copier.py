"""The sink of an elastic training: shards go to the memory of other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kit.errors import KitError, NotEnoughMemory
from kit.exchange.plan import Owned
from kit.training.core.axes import ranges_of
from kit.training.core.context import MemberContext, Services
from kit.training.core.snapshot import Buffers, CopyPoint, Shard, Sink, take
from kit.training.features.elastic.copies import ToldRows


class Copier(Sink):
    """One member's shards for the processes that outlive this one."""

    def __init__(
        self,
        context: MemberContext,
        services: Services,
        confirm: Callable[[int], None],
        log: Callable[[], dict[str, Any]],
    ) -> None:
        """`confirm` reports a shard that the process has kept to the coordinator.

        `log` returns what is decided; the coordinator's member has
        it, for all others it is empty.
        """
        self._training = services.elastic(context.job.generation.origin)
        self._confirm, self._log = confirm, log
        self._writers: tuple[int, ...] = ()
        self._buffers: Buffers | None = None
        super().__init__(context, "copier")

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """See `StepCallback`: prepare a buffer for what is ours from now on."""
        context, job = self._context, self._context.job
        # Workers that servers serve hold nothing that these lack, so their loss must
        # not make a snapshot useless.
        n_needed = 0 if context.schedule.is_served else len(job.tasks)
        self._writers = self.writers((*range(n_needed), job.coordinator))
        ranges, epoch = ranges_of(owners, context.me), context.endpoint.stamp.epoch
        self._buffers = self._training.buffers.of(context.me, job, ranges)
        self._buffers.begin(CopyPoint(step, job.generation.number, epoch))
        self._buffers.prepare()  # now, while all wait anyway, not at the first copy

    def take_part(self, step: int, boundary: int) -> None:
        """See `Sink`."""
        context, buffers = self._context, self._buffers
        if buffers is None:
            return
        rows, log = ToldRows.of(context.meter), self._log()
        shard = take(context, step, self._writers, buffers.take, rows, log)
        context.reach("copy.made", step)
        self.beside(self._send, shard, buffers)

    def _send(self, shard: Shard, buffers: Buffers) -> None:
        assert shard.buffer is not None, "it was taken here"
        try:
            where = self._training.keep_copy(shard)
            buffers.kept(shard.buffer, shard.moment, where)
            self._context.reach("copy.sent", shard.moment.step)
            self._confirm(shard.moment.step)
        except KitError:
            # Not reported: the process that would keep it is gone, and that ends this
            # generation anyway.
            buffers.lost(shard.buffer)
            return
        with suppress(NotEnoughMemory):  # raised by `take_part`, if there is still none
            buffers.prepare()
