"""What moves between a worker and a server that waits for the first gradients only.

Pure. A push is what the server holds, out of the worker's gradients; an answer is a
note and the same ranges of the parameters, out of a box that is this worker's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from kit.exchange.layout import Range, intersect
from kit.exchange.plan import (
    GRAD,
    NEXT,
    NOW,
    SELF,
    SPARE,
    Copy,
    Op,
    Receive,
    Send,
    Term,
)
from kit.exchange.ports.port import Expected
from kit.trace.traffic import Kind
from kit.training.job import Job

NOTE = Range(0, 0)


def held(job: Job, server: int) -> tuple[Range, ...]:
    """Return what a server holds; one that holds nothing gets one empty message."""
    shard = job.group.shards[job.ps.index(server)]
    return tuple(part for part in shard if part.size) or (NOTE,)


def pushes(job: Job, servers: Iterable[int]) -> tuple[Op, ...]:
    """Return what a worker does to hand its gradients to some servers."""
    return tuple(
        Send(server, GRAD, part, Kind.PUSH)
        for server in servers
        for part in held(job, server)
    )


def answer(job: Job, server: int, rank: int) -> tuple[Op, ...]:
    """Return what a server does, after its note, to answer a worker."""
    shard, box, worker = held(job, server), SPARE + rank, job.workers[rank]
    copies: list[Op] = [Copy(Term(SELF, NOW), box, part) for part in shard]
    return (*copies, *(Send(worker, box, part, Kind.PULL) for part in shard))


def pulls(job: Job, rank: int) -> tuple[Op, ...]:
    """Return what a worker does, after all notes, to take the answers."""
    box = SPARE + rank
    return tuple(
        op
        for server in job.ps
        for part in held(job, server)
        for op in (
            Receive(server, box, part, Kind.PULL),
            Copy(Term(server, box), NEXT, part),
        )
    )


def answer_script(job: Job, server: int, rank: int) -> list[Expected]:
    """Return the messages of an answer."""
    parts = [Expected(SPARE + rank, part, apart=True) for part in held(job, server)]
    return [Expected(GRAD, NOTE, apart=True), *parts]


def pieces(job: Job, server: int) -> list[tuple[int, Range]]:
    """Return the number of each chunk that a server holds some of, and that part."""
    return [
        (number, piece)
        for part in held(job, server)
        for bucket in job.layout.buckets
        for number, chunk in enumerate(bucket.chunks)
        if (piece := intersect(part, chunk))
    ]
