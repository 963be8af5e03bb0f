"""Other workers' memory on GPUs, opened here where CUDA allows it.

Two workers of a host tell each other by what handles CUDA opens their memory (CUDA
IPC), and then whether they could open the other's. Where both could, each reads the
other's memory in place, as tasks without a GPU read each other's arenas. Where not, as
in one process, or where a process does not see the other's card, ranges go through the
host's memory. Nothing of this is counted: it is no payload.

What is said lies where the host has the parameters, which are on the GPU by then. It
is written over when steps end, when everybody has taken part in them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.exchange.group.links import partners_of
from kit.exchange.layout import Range
from kit.exchange.plan import NEXT
from kit.exchange.ports.port import Expected
from kit.training.features.on_gpu.memory import GpuMemory

if TYPE_CHECKING:
    from kit.training.core.context import MemberContext

_HANDLE = 64  # bytes of a handle
_HANDLES = Range(0, _HANDLE * (NEXT + 1))
_COULD = Range(_HANDLES.hi, 4096)  # a byte for each member
_LOG = logging.getLogger(__name__)


class Neighbours:
    """How one worker and those that it exchanges with open each other's memory."""

    def __init__(self, context: MemberContext, memory: GpuMemory) -> None:
        """Find out who they are: the workers that share memory with this one."""
        self._context, self._memory = context, memory
        job, ports = context.job, context.endpoint.ports
        assert context.topology is not None, "there is an epoch"
        partners = {*partners_of(job.plan(context.topology, context.me))}
        is_possible = job.layout.total_bytes and len(job.tasks) <= _COULD.size
        self._peers = sorted(
            member
            for member in (partners if is_possible else ())
            if member in job.workers and ports[member].shared
        )

    def meet(self) -> dict[int, Sequence[Any]]:
        """Return the regions of those whose memory is open to us, and ours to them.

        All of them do this at the same time. Raises what a wait for one of them raises.
        """
        memory, me, whole = self._memory, self._context.me, self._memory.whole
        # With two regions the third is one that nobody asks for.
        n_regions = 2 if self._context.endpoint.stamp.overwrites else NEXT + 1
        own = [memory.flat(region, whole) for region in range(n_regions)]
        handles = b"".join(map(memory.gpu.handle, own))
        self._say(_HANDLES, handles.ljust(_HANDLES.hi, b"\0"))
        opened: dict[int, list[Any]] = {}
        for peer in self._peers:
            theirs = self._hear(peer, _HANDLES)
            pieces = [theirs[_HANDLE * n :][:_HANDLE] for n in range(n_regions)]
            opened[peer] = self._open(pieces, whole.size)
        could = [bool(opened.get(n)) for n in range(len(self._context.job.tasks))]
        self._say(_COULD, bytes(could).ljust(_COULD.size, b"\0"))
        for peer in self._peers:
            if not self._hear(peer, _COULD)[me]:
                memory.gpu.close(opened.pop(peer))
        return {peer: arrays for peer, arrays in opened.items() if arrays}

    def _open(self, handles: Iterable[bytes], n_bytes: int) -> list[Any]:
        arrays: list[Any] = []
        try:
            for handle in handles:
                arrays.append(self._memory.gpu.open(handle, n_bytes))
        except Exception as error:  # for each reason CUDA has another one
            self._memory.gpu.close(arrays)
            task = self._context.task.short
            _LOG.info("%s sends through the host's memory: %s", task, str(error))
            return []
        return arrays

    def _say(self, part: Range, text: bytes) -> None:
        context = self._context
        context.memory.flat(context.now, part)[:] = np.frombuffer(text, np.uint8)
        for peer in self._peers:
            context.endpoint.ports[peer].post(context.now, part)

    def _hear(self, peer: int, part: Range) -> bytes:
        context = self._context
        port = context.endpoint.ports[peer]
        context.endpoint.take(port, Expected(context.now, part))
        return port.window(context.now, part, separate=False).tobytes()
