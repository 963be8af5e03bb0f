"""A member's part of a snapshot: what it is, how it is taken, and how it is read.

Theory of operation
-------------------

A *snapshot* is the state of a training before one step: parameters, slots of the
optimizer, and what step functions and compressors keep from step to step. No process
has all of it, so each member makes a *shard*: the ranges of the parameters that it is
the first to own, their slots, and what its own step function and compressor keep. (What
is drawn at random in a step follows from the seed and the step's number.)

*When.* Between two steps, in the thread of the steps, which waits for the copy alone
(`take`). All members take theirs before the same step: because they count steps alike,
or because they have met at a boundary.

*Where to.* A *sink* (`kit.training.core.snapshot`) asks for a shard and passes it on
while the next steps go on. There are three:

    sink                 asked for by           passes it on to
    checkpoint writer    steps, clock, user     a file of the checkpoint's draft
    copier               the coordinator        the memory of the next process
    state keeper         a recorder             whoever records the training

*Who owns the memory.* The sink lends a buffer to the shard, and knows when nobody looks
into it any more: when the file is written; when the process that keeps the shards of a
member has two later ones (`Buffers`). The state keeper gives each shard its own.

*Whole.* A shard names the members whose shards make the whole, its `writers`: those
that own something, and those that keep something of their own. A snapshot is whole when
all of them have delivered theirs, of the same moment. Nothing begins with another one.

*Restore.* `restore` writes the ranges that a member owns from now on into its memory,
from any shards that have them; `values_of` names all values, as a checkpoint does.
"""

from __future__ import annotations

import queue
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kit.checkpoint import Piece
from kit.crc import digest
from kit.errors import InternalError
from kit.exchange.layout import ITEMSIZE, Layout, Range, intersect
from kit.exchange.plan import SLOT
from kit.exchange.ports.memory import Array, Memory
from kit.training.core.axes import ranges_of, writers_of
from kit.training.core.context import MemberContext
from kit.training.core.part import StepCallback
from kit.wire.local.arena import Arena

if TYPE_CHECKING:
    from kit.trace.traffic import Meter
    from kit.training.core.context import MemberContext


_ALIGNMENT = 8


class CopyPoint(NamedTuple):
    """When a shard was taken: before which step, in which epoch of which generation.

    In another epoch other members may hold other parts of the state, so shards make a
    whole only with those of the same epoch.
    """

    step: int
    generation: int = 0
    epoch: int = 0


class Held(NamedTuple):
    """A shard that somebody has: of when and of whom, and whose make the whole."""

    moment: CopyPoint
    member: int
    writers: tuple[int, ...]


def is_whole(shards: Collection[Held | Shard], without: Collection[int] = ()) -> bool:
    """Whether shards of one moment make a whole snapshot, without lost members."""
    there = {shard.member for shard in shards}
    return bool(there) and there >= {n for shard in shards for n in shard.writers} - {
        *without
    }


class Shard(NamedTuple):
    """What one member had before a step.

    Attributes:
        moment: when that was.
        writers: the members whose shards make the whole state.
        ranges: the bytes of the parameters that the member is the first to own.
        log: what is decided, from the coordinator; of all others it is empty.
        sizes: bytes of the parts of `data`: the ranges of the parameters and of each
            slot; the newest rows of its steps; those of its measures; what its step
            function keeps.
        buffer: where `data` is, if it was taken in this process.
    """

    moment: CopyPoint
    member: int
    writers: tuple[int, ...]
    ranges: tuple[Range, ...]
    log: dict[str, Any]
    sizes: tuple[int, ...]
    data: Any
    buffer: Buffer | None = None

    @property
    def parts(self) -> tuple[memoryview, ...]:
        """The parts of the data, as in `sizes`."""
        view, ends = memoryview(self.data), [0, *accumulate(self.sizes)]
        return tuple(view[lo:hi] for lo, hi in pairwise(ends))

    @property
    def kept(self) -> memoryview:
        """What the member's step function and compressor keep, packed."""
        return self.parts[3]

    def regions(self, n_slots: int) -> Iterator[tuple[int, Range, memoryview]]:
        """Yield the parameters (0) and slots (from 1 on) of each range, as bytes."""
        return _cut(self.parts[0], self.ranges, n_slots)

    def digest(self) -> int:
        """Return the digest of its parameters, without the slots."""
        return digest(view for _, _, view in self.regions(0))

    def about(self) -> dict[str, Any]:
        """Return all but the memory, as JSON can carry it."""
        ranges = [[part.lo, part.hi] for part in self.ranges]
        names = "moment", "writers", "sizes"
        lists = {name: list(getattr(self, name)) for name in names}
        plain = {**self._asdict(), **lists, "ranges": ranges}
        del plain["data"], plain["buffer"]
        plain["requests"] = plain.pop("log")  # as it has always been called there
        return plain

    @classmethod
    def from_plain(cls, about: Mapping[str, Any], data: Any) -> Shard:
        """Rebuild it from `about` and the data."""
        ranges = tuple(Range(lo, hi) for lo, hi in about["ranges"])
        values = {**about, "ranges": ranges, "moment": CopyPoint(*about["moment"])}
        values["log"] = values.pop("requests")
        values |= {name: tuple(about[name]) for name in ("writers", "sizes")}
        return cls(**values, data=data)


# --------------------------------------------------------------------------------------
# Who takes what.


def n_bytes_of(ranges: Iterable[Range], n_slots: int) -> int:
    """Return how many bytes parameters and slots of some ranges take in a shard."""
    return (1 + n_slots) * sum(map(_stride, ranges))


def _stride(part: Range) -> int:
    return -(-part.size // _ALIGNMENT) * _ALIGNMENT


def _cut(
    data: memoryview, ranges: Sequence[Range], n_slots: int
) -> Iterator[tuple[int, Range, memoryview]]:
    begin = 0
    for number in range(1 + n_slots):
        for part in ranges:
            yield number, part, data[begin : begin + part.size]
            begin += _stride(part)


def _region(number: int, now: int) -> int:
    """Return the physical region of the parameters (0) or of a slot."""
    return SLOT + number - 1 if number else now


def take(
    context: MemberContext,
    step: int,
    writers: tuple[int, ...],
    lend: Callable[[int], Buffer],
    rows: tuple[bytes, bytes] = (b"", b""),
    log: Mapping[str, Any] | None = None,
) -> Shard:
    """Take a member's shard of the state before `step`, which is the current one.

    Blocks for the copy alone: a few milliseconds for ten million parameters. `lend`
    returns a buffer of at least so many bytes; `rows` are the newest of its steps and
    measures.
    """
    job, ranges = context.job, ranges_of(context.owners, context.me)
    rest = (*rows, context.kept())
    sizes = n_bytes_of(ranges, len(job.slots)), *map(len, rest)
    buffer = lend(sum(sizes))
    view = buffer.data.data
    for number, part, copy in _cut(view, ranges, len(job.slots)):
        copy[:] = context.workplace.held.raw(_region(number, context.now), part)
    begin = sizes[0]
    for more in rest:
        view[begin : begin + len(more)] = more
        begin += len(more)
    moment = CopyPoint(step, job.generation.number, context.endpoint.stamp.epoch)
    about = moment, context.me, writers, ranges, dict(log or {}), sizes
    return Shard(*about, buffer.data[:begin], buffer)


# --------------------------------------------------------------------------------------
# Reading shards.


class Beginning(NamedTuple):
    """With what a member begins in a generation.

    Attributes:
        step: before which step all begin.
        log: what is decided, for the coordinator's member; for all others it is empty.
        copies: yields copies of the state before `step`, the member's own first. It may
            have to fetch one, and raises what that does.
        report: lets a meter tell what the member has recorded in the generation before.
        kept: what its step function keeps, packed.
    """

    step: int
    log: dict[str, Any]
    copies: Callable[[], Iterator[Shard]]
    report: Callable[[Meter], None] | None = None
    kept: Any = b""


def begin_with(context: MemberContext, beginning: Beginning | None, store: Any) -> None:
    """Say with what a member begins: copies, else a checkpoint, else initial values.

    `store` has the checkpoints, in the coordinator's task alone.
    """
    job = context.job
    if beginning is not None and job.resumes:
        n_slots, shards = len(job.slots), beginning.copies()
        context.restore = partial(restore, n_slots=n_slots, shards=shards)
        if context.me == job.coordinator:
            context.step = beginning.step
        # A checkpoint may be newer than the copies, but the rows of its last steps may
        # be lost with the process that recorded them.
        if store is not None:
            store.forget()
    elif store is not None:
        context.step = store.step
        if store.values is not None:
            context.restore = store.restore


def restore(
    memory: Memory,
    now: int,
    own: Sequence[Range],
    *,
    n_slots: int,
    shards: Iterator[Shard],
) -> None:
    """Write parameters and slots of some ranges into a member's memory.

    `now` is the physical region of the parameters. Takes no more shards than it needs;
    raises `InternalError` if all of them do not cover the ranges.
    """
    # The member's own comes first and mostly holds all of it: the others, which may
    # have to be fetched from other processes, are then not asked for.
    missing = sum(part.size for part in own)
    while missing:
        shard = next(shards, None)
        if shard is None:
            raise InternalError(f"no copy has {missing} bytes of the parameters.")
        for number, part, view in shard.regions(n_slots):
            for mine in own:
                both = intersect(part, mine)
                if both is not None:
                    values = view[both.lo - part.lo : both.hi - part.lo]
                    memory.raw(_region(number, now), both)[:] = values
                    missing -= 0 if number else both.size


def pieces(shard: Shard, layout: Layout, slots: Sequence[str]) -> Iterator[Piece]:
    """Yield what a shard has of each parameter and slot, as views of its memory."""
    leaves = sorted(layout.leaves, key=lambda leaf: leaf.range)
    begins = [leaf.range.lo for leaf in leaves]
    for number, part, view in shard.regions(len(slots)):
        first = bisect_right(begins, part.lo) - 1  # there may be thousands
        for leaf in leaves[first : bisect_left(begins, part.hi)]:
            both = intersect(part, leaf.range)
            if both is not None:
                name, shape, dtype = leaf.spec
                data = view[both.lo - part.lo : both.hi - part.lo]
                offset = (both.lo - leaf.range.lo) // ITEMSIZE[dtype]
                name = tensor_name(name, ("", *slots)[number])
                yield Piece(name, dtype, shape, offset, np.frombuffer(data, dtype))


def tensor_name(parameter: str, slot: str) -> str:
    """Return the name of a parameter (without a slot) or of its slot.

    >>> tensor_name("w", ""), tensor_name("w", "momentum")
    ('w', 'w/momentum')
    """
    return f"{parameter}/{slot}" if slot else parameter


def empty_pieces(layout: Layout, slots: Sequence[str]) -> tuple[Piece, ...]:
    """Return the pieces of parameters without elements, which nobody owns."""
    return tuple(
        Piece(tensor_name(name, slot), dtype, shape, 0, np.zeros(0, dtype))
        for name, shape, dtype in (leaf.spec for leaf in layout.leaves)
        if 0 in shape
        for slot in ("", *slots)
    )


def values_of(
    shards: Iterable[Shard], layout: Layout, slots: Sequence[str]
) -> dict[str, Array]:
    """Return parameters and slots by name, as a checkpoint has them."""
    values = {
        tensor_name(leaf.spec.name, slot): np.zeros(leaf.spec.shape, leaf.spec.dtype)
        for slot in ("", *slots)
        for leaf in layout.leaves
    }
    for shard in shards:
        for piece in pieces(shard, layout, slots):
            end = piece.offset + piece.values.size
            values[piece.name].reshape(-1)[piece.offset : end] = piece.values
    return values


def fill(
    memory: Memory, now: int, slots: Sequence[str], values: Mapping[str, Array]
) -> None:
    """Write a whole state, by name, into a member's memory.

    Touches every page of the parameters and of all slots.
    """
    for number, slot in enumerate(("", *slots)):
        for leaf in memory.layout.leaves:
            value = values[tensor_name(leaf.spec.name, slot)]
            memory.leaf(_region(number, now), leaf)[...] = value


# --------------------------------------------------------------------------------------
# The memory that shards are taken into, and who may still look into it.
#
# A large buffer for another process is an arena, so that on one host that process keeps
# the shard without copying it once more. It and our own process hold the two newest
# shards of a member. As soon as that process has confirmed two later ones, nobody looks
# into a buffer any more, and it is written again: new pages would cost the training
# more than the copy itself. So a process keeps what is free for the next generation.


#: How many shards of a member a process keeps: of a whole snapshot, and of the next.
N_KEPT: Final = 2
_ROOM: Final = 1 << 17  # bytes for the newest rows, and what a step function keeps


class Buffer(NamedTuple):
    """Room for a shard; `arena` is where it is, if others may look into it."""

    data: Array
    arena: Arena | None = None

    def close(self) -> None:
        """Let go of the arena; processes that have mapped it still can read it."""
        if self.arena is not None:
            self.arena.close()


def private(n_bytes: int) -> Buffer:
    """Return memory of this process; its pages are taken as they are touched."""
    return Buffer(np.empty(n_bytes, np.uint8))


class Buffers:
    """The buffers of one member. Every method may be called from any thread.

    >>> buffers = Buffers(8, private)
    >>> taken = [buffers.take(8) for step in range(3)]
    >>> for step, snapshot in enumerate(taken):
    ...     buffers.kept(snapshot, CopyPoint(step, 0, 0), "worker:1")
    >>> buffers.take(8) is taken[0]
    True
    """

    def __init__(self, n_bytes: int, new: Callable[[int], Buffer]) -> None:
        """Begin without any; each has at least `n_bytes`, and room behind them."""
        self._new, self._n_bytes, self._room = new, n_bytes, _ROOM
        self._free: list[Buffer] = []
        # By moment, those that are held here and in the process that is named.
        self._held: dict[CopyPoint, Buffer] = {}
        self._where = ""
        self._since = CopyPoint(0)
        self._is_closed = False
        self._guard = threading.Lock()

    def begin(self, since: CopyPoint) -> None:
        """Begin another epoch, in this generation or the next one."""
        with self._guard:
            self._since = since
            # Where steps are done again, all that take part drop the shards of later
            # steps; but a process that was stopped may still read one, so the buffers
            # are not written again.
            if any(moment.step > since.step for moment in self._held):
                self._forget_held()

    def prepare(self) -> None:
        """Make sure that one is free: its pages are there before they are needed."""
        if not self._free:
            buffer = self._new(self._n_bytes + self._room)
            buffer.data.fill(0)  # without the lock: it touches every page
            self.give_back(buffer)

    def take(self, n_bytes: int) -> Buffer:
        """Return one of so many bytes into which nobody looks."""
        with self._guard:
            buffer = self._free.pop() if self._free else None
        if buffer is not None and len(buffer.data) >= n_bytes:
            return buffer
        if buffer is not None:
            buffer.close()
        # The rows grow: not anew each time.
        self._room = max(self._room, 2 * (n_bytes - self._n_bytes))
        return self._new(self._n_bytes + self._room)

    def give_back(self, *buffers: Buffer) -> None:
        """Take back buffers into which nobody looks any more."""
        with self._guard:
            self._give_back(buffers)

    def kept(self, buffer: Buffer, moment: CopyPoint, where: str) -> None:
        """Note that a process has the shard that is in a buffer.

        `where` is a name that no other process has, nor one that took its place.
        """
        with self._guard:
            # Confirmed late, in a newer epoch: who reads it is not known any more.
            if moment[1:] < self._since[1:]:
                buffer.close()
                return
            if where != self._where:
                # Nor is what the process before this one holds, and for how long.
                self._forget_held()
                self._where = where
            # Another shard of the same moment takes the place of the first.
            old = [self._held.pop(moment)] if moment in self._held else []
            self._held[moment] = buffer
            # The process that keeps the shards keeps as many: older buffers are free.
            old += [self._held.pop(item) for item in sorted(self._held)[:-N_KEPT]]
            self._give_back(old)

    def lost(self, buffer: Buffer) -> None:
        """Note that it is unknown which process has the shard that is in a buffer."""
        with self._guard:
            buffer.close()
            self._forget_held()

    def close(self) -> None:
        """Let go of all, but for one that is out: it goes when it comes back."""
        with self._guard:
            self._is_closed, free, self._free = True, self._free, []
            self._give_back(free)
            self._forget_held()

    def _give_back(self, buffers: Collection[Buffer]) -> None:
        if not self._is_closed:
            self._free += buffers
            return
        for buffer in buffers:
            buffer.close()

    def _forget_held(self) -> None:
        held, self._held = self._held, {}
        for buffer in held.values():
            buffer.close()


# --------------------------------------------------------------------------------------
# A sink of snapshots: takes shards between the steps, passes them on beside them.


class Sink(StepCallback):
    """One use of a member's shards, with a thread that passes them on."""

    def __init__(self, context: MemberContext, name: str) -> None:
        """Begin the thread, whose name says what the sink is."""
        self._context = context
        self._to_do = queue.SimpleQueue[Callable[[], None] | None]()
        self._thread = threading.Thread(
            target=self._work, name=f"kit-{name}-{context.task.short}", daemon=True
        )
        self._thread.start()

    def take_part(self, step: int, boundary: int) -> None:
        """Take this member's shard before `step`, as was agreed at a boundary.

        In the thread of the steps.
        """
        raise NotImplementedError

    def writers(self, others: Iterable[int]) -> tuple[int, ...]:
        """Return whose shards make the whole: of all that own something, and others."""
        context = self._context
        first = writers_of(context.owners, context.job.coordinator)
        return tuple(sorted({*first, *others}))

    def beside(self, do: Callable[..., None], *values: Any) -> None:
        """Have something done in the sink's own thread."""
        self._to_do.put(partial(do, *values))

    def close(self) -> None:
        """End the thread when all is done; does not wait for it."""
        self._to_do.put(None)

    def _work(self) -> None:
        while (do := self._to_do.get()) is not None:
            do()
