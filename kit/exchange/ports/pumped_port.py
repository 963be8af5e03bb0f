"""A port over a socket whose two directions have a thread each.

Theory of operation. To the executor it looks like shared memory: to post is to write a
note and count it, to take is to read a counter and a note. But these words are private
to the process, and two threads are at their other ends:

    executor -- counts --> sending thread -- frames --> socket
    executor <-- counts -- receiving thread <-- frames -- socket

So the compiled loop carries out a plan as it does over shared memory, while checksums
are computed, records sealed, and bytes copied by the system on two other cores. Both
threads are loops in `pump.c`, without the interpreter's lock. For encrypted streams
they are loops in Python, around calls that give the lock up.

Where the bytes of a frame belong is said by the scripts of `expect`. The receiving
thread reads a head before it knows whether it is due: it may belong to the plan that
begins next, and then waits for its script. It is an error only if the executor waits
for messages meanwhile, since those due by the newest script come first.

A link may have several streams, with threads for each. Large messages are cut into a
part for each stream; each part is a frame like any other, with keys and a checksum of
its own. The threads of the first stream hand the parts out, and count a message when
all of it is there, so to the executor it is one.

How it ends. A thread that finds its direction broken ends. The sending one shuts the
stream down, so the receiving one ends as well, after what had come before. That one
marks the port as lost and wakes the executor. `close` shuts the stream down and waits
for both. A forked child has no such threads, and leaves the stream to its parent.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from struct import Struct
from typing import Any, Final

import numpy as np

from kit.errors import LinkLost, ProtocolError, ResourceExhaustedError
from kit.exchange.layout import Range
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Array, Memory, Mirror, address, region_bytes
from kit.exchange.ports.port import Expected
from kit.exchange.ports.shared_port import POSTED, TAKEN, Control, SharedPort
from kit.exchange.ports.stream_port import StreamPort, check
from kit.native import library
from kit.system import Bell, ring
from kit.wire import frame
from kit.wire.stream import (
    AES_GCM,
    PatientStream,
    Stream,
    parallel,
    read_some,
    write_all,
)

# Of a layout, in bytes. For less, to hand messages to threads of Python costs more than
# it gains.
_LEAST_SEALED: Final = 1 << 20
FORM: Final = 2  # as in pump.c
_LEAST_SHARED: Final = 1 << 18  # bytes of a message that goes over several streams
_DATA: Final = int(frame.FrameKind.DATA)
_PLACE: Final = Struct("4Q")
_MOST_SCRIPTS: Final = 64
_END_S: Final = 5.0
_ME, _PEER = 1, 0  # in the words
_OUT, _IN = range(2)  # directions
_WAYS: Final = "send", "receive"
# Why a direction is over.
_ENDED, _DAMAGED, _TOO_MANY, _UNDUE, _GOES_ON = range(5)

_Head = ctypes.c_ubyte * frame.SIZE
_Words = ctypes.c_uint64 * 2
_Addresses = ctypes.c_void_p * 2


@cache
def _loops() -> Any:
    """Return what is compiled; None where none fits this source and machine."""
    compiled = library("kit.exchange.ports._pump", FORM)
    if compiled is not None:
        for name in (
            *("send", "next", "sent", "receive", "due", "arrived"),
            *("send_parts", "receive_parts", "part", "part_fits"),
        ):
            getattr(compiled, f"kit_{name}").restype = ctypes.c_int64
        compiled.kit_arrived.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    return compiled


def can_pump(stream: Stream, n_bytes: int) -> bool:
    """Whether threads can carry a stream, and gain something for a layout's bytes."""
    # A patient stream is a plain socket; the loops in C can have no other.
    streams = parallel(stream)
    is_patient = all(isinstance(each, PatientStream) for each in streams)
    is_plain = stream.kind == "tcp" and is_patient
    is_large = n_bytes >= _LEAST_SEALED or len(streams) > 1
    is_sealed = stream.kind == AES_GCM and is_large
    return (is_plain or is_sealed) and _loops() is not None


class _Script(ctypes.Structure):
    """What comes in steps of either parity, and in which epoch; see pump.c."""

    _fields_ = (
        ("places", _Addresses),
        ("n", _Words),
        ("first", ctypes.c_uint64),
        ("epoch", ctypes.c_uint64),
    )


class _Pump(ctypes.Structure):
    """One direction; see pump.c."""

    _fields_ = (
        ("count", ctypes.c_void_p),
        ("notes", ctypes.c_void_p),
        ("mask", ctypes.c_uint64),
        ("asleep", ctypes.c_void_p),
        ("heard", ctypes.c_int64),
        ("bell", ctypes.c_int64),
        ("sleeper", ctypes.c_void_p),
        ("doorbell", ctypes.c_int64),
        ("taken", ctypes.c_void_p),
        ("fd", ctypes.c_int64),
        ("over", ctypes.c_int64),
        ("memory", ctypes.c_void_p),
        ("region_bytes", ctypes.c_uint64),
        ("done", ctypes.c_uint64),
        ("further", ctypes.c_void_p),
        ("n_further", ctypes.c_uint64),
        ("handed_out", ctypes.c_uint64),
        ("least", ctypes.c_uint64),
        ("guard", ctypes.c_uint64),
        ("script", ctypes.c_void_p),
        ("announced", ctypes.c_uint64),
        ("followed", ctypes.c_uint64),
        ("refused", ctypes.c_uint64),
        ("parity", ctypes.c_uint64),
        ("position", ctypes.c_uint64),
        ("at", ctypes.c_void_p),
        ("region", ctypes.c_uint64),
        ("lo", ctypes.c_uint64),
        ("hi", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("sum", ctypes.c_uint64),
        ("same", _Head),
        ("head", _Head),
    )

    def payload(self) -> memoryview:
        """Return the bytes of the message at hand."""
        size = self.hi - self.lo
        return memoryview((ctypes.c_ubyte * size).from_address(self.at)).cast("B")


class PumpedPort(SharedPort):
    """See the module's docstring."""

    shared = False

    def __init__(
        self,
        *,
        peer: int,
        memory: Memory,
        stream: Stream,
        endpoint: Endpoint,
        bounds: frame.Bounds,
        depth: int,
        checksum: bool = True,
        before: StreamPort | None = None,
    ) -> None:
        """Own the stream; what comes is written into `memory`, which is our own.

        `depth`: a power of 2, more than the messages that the peer sends before the
        first of them is taken. It goes on where the port `before` has stopped.
        """
        words = np.zeros(Control.n_words(2, depth), np.uint64).data.cast("B").cast("Q")
        control = Control(words, 2, depth)
        self._streams = parallel(stream)
        self._bells = [Bell() for _ in range(2 * len(self._streams))]
        super().__init__(
            me=_ME,
            peer=_PEER,
            ours=control,
            theirs=control,
            memory=memory,
            doorbell=self._bells[_OUT].handle,
            stream=stream,
            stamp=endpoint.stamp,
            clock=endpoint.clock,
        )
        self.peer, self._endpoint, self._bounds = peer, endpoint, bounds
        # For what is kept apart.
        self._mirror = before.mirror if before else Mirror(memory.layout)
        self._region_bytes = region_bytes(memory.layout)
        self._error: ProtocolError | None = None
        self._is_closed = False
        self._tables = list[Any]()  # of the further streams
        self._scripts = OrderedDict[tuple[int, int, int], Any]()
        # Whether our threads sleep; the executor looks at the first when it posts.
        self._asleep = memoryview(bytearray(8 * len(self._bells))).cast("Q")
        flags = frame.CHECKSUM if checksum else 0
        self._sends = self._pump(_OUT, self._out, self._notes_out, endpoint.me, flags)
        self._takes = self._pump(_IN, self._in, self._notes_in, peer)
        if before is not None:
            self.line_out = before.line_out
            self._out[0] = self._own[POSTED] = self._sends.done = before.sent
            self._in[0] = self._own[TAKEN] = self._takes.done = before.received
        # Readable once the link has ended, and never writable.
        self._end, self._until_end = os.pipe()
        self._further = self._share(self._sends, _OUT), self._share(self._takes, _IN)
        self._threads = [
            threading.Thread(
                target=call, args=args, name=f"kit-{name}-{peer}", daemon=True
            )
            for name, call, args in self._work()
        ]
        _open.add(self)
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:  # the last one has not begun
            self.close()
            os.close(self._until_end)
            raise ResourceExhaustedError(
                f"the system refuses a thread for the link to member {peer}: {error}. "
                f"Let this task have more (ulimit -u, or pids of its container), or "
                f"use fewer tasks on this host."
            ) from error

    def _work(self) -> Iterator[tuple[str, Callable[..., None], tuple[Any, ...]]]:
        """Yield the name of each thread, and what it calls; the receiving one last."""
        firsts = self._sends, self._takes
        for name, first, further in zip(_WAYS, firsts, self._further, strict=True):
            for number, own in enumerate(further, 1):
                args = name, first, own, self._streams[number]
                yield f"{name}-{number}", self._carry_parts, args
        yield _WAYS[_OUT], self._send, ()
        yield _WAYS[_IN], self._receive, ()

    def _pump(
        self,
        way: int,
        count: memoryview,
        notes: memoryview,
        sender: int,
        flags: int = 0,
    ) -> _Pump:
        bell, endpoint, cluster = self._bells[way], self._endpoint, self._bounds.cluster
        # What is the same in each frame; pump.c fills in the rest.
        same = frame.pack_fields((_DATA, flags, cluster, 0, sender, *bytes(6)), ())
        return _Pump(
            count=address(count),
            notes=address(notes),
            mask=self.mask,
            asleep=address(self._asleep) + 8 * way,
            heard=bell.fd,
            bell=bell.handle,
            sleeper=address(endpoint.asleep),
            doorbell=endpoint.doorbell.handle,
            taken=address(self._own) + 8 * TAKEN,
            fd=self._streams[0].fileno(),
            memory=address(self._memory.raw(0, Range(0, 1))),
            region_bytes=self._region_bytes,
            same=_Head(*same),
        )

    def _share(self, first: _Pump, way: int) -> list[_Pump]:
        """Return one direction of all further streams; the first one is told."""
        further = [
            _Pump(
                count=ctypes.addressof(first) + _Pump.handed_out.offset,
                asleep=address(self._asleep) + 8 * (2 * number + way),
                heard=self._bells[2 * number + way].fd,
                bell=self._bells[2 * number + way].handle,
                sleeper=first.asleep,
                doorbell=first.bell,
                fd=stream.fileno(),
            )
            for number, stream in enumerate(self._streams)
            if number
        ]
        self._tables.append(
            (ctypes.c_void_p * len(further))(*map(ctypes.addressof, further))
        )
        first.further = ctypes.addressof(self._tables[-1])
        first.n_further, first.least = len(further), _LEAST_SHARED
        return further

    def expect(self, scripts: Sequence[Sequence[Expected]], first: int) -> None:
        """Start over with the messages of even and odd steps."""
        epoch = self._stamp.epoch
        key = id(scripts), first, epoch
        if key not in self._scripts:
            tables = [self._table(script) for script in scripts]
            places, sizes = map(address, tables), map(len, scripts)
            script = _Script(_Addresses(*places), _Words(*sizes), first, epoch)
            # With the scripts themselves: others could get their id.
            self._scripts[key] = script, tables, scripts
            if len(self._scripts) > _MOST_SCRIPTS:
                self._scripts.popitem(last=False)
        self._scripts.move_to_end(key)
        script, *_ = self._scripts[key]
        _loops().kit_expect(ctypes.byref(self._takes), ctypes.byref(script))

    def _table(self, script: Sequence[Expected]) -> Array:
        rows = [bytes(_PLACE.size)]  # so that none is empty
        for region, part, separate in reversed(script):
            memory = self._mirror if separate else self._memory
            at = address(memory.raw(region, Range(0, 1))) + part.lo
            rows.append(_PLACE.pack(at, region, *part))
        return np.frombuffer(b"".join(reversed(rows)), np.uint8)

    def window(self, region: int, part: Range, *, separate: bool) -> Array:
        """Return where the peer's range is kept here."""
        memory = self._mirror if separate else self._memory
        return memory.typed(region, part)

    def pump(self) -> bool:
        """Raise what ended the receiving thread, or why it cannot go on."""
        if self._error is not None:
            raise self._error
        takes = self._takes
        if takes.refused and takes.refused == takes.announced:
            header = self._checked_head(takes)
            raise ProtocolError(
                f"member {self.peer} sent a frame of epoch {header.epoch}; this "
                f"training is in epoch {self._stamp.epoch}.",
                step=header.step,
            )
        return False

    def _checked_head(self, pump: _Pump) -> frame.Header:
        """Return a head that is not as it should be; raise what is seen to be wrong."""
        header = frame.unpack(bytes(pump.head), bounds=self._bounds)
        due = Expected(pump.region, Range(pump.lo, pump.hi))
        about = self.peer, self._takes.done + 1, self._stamp, self._region_bytes
        check(header, due, *about)
        return header

    def is_idle(self) -> bool:
        """Whether everything that was posted has left this process."""
        return bool(self._sends.done == self._own[POSTED])

    def fileno(self) -> int:
        """Return what is readable once the link has ended."""
        return self._end

    def close(self) -> None:
        """End both threads, and close the stream."""
        if self._is_closed:
            return
        self._is_closed = True
        for pump in (self._sends, self._takes, *chain(*self._further)):
            pump.over = 1
        # Not in a forked child: it would end the stream of its parent.
        if any(thread.is_alive() for thread in self._threads):
            for bell in self._bells:
                ring(bell.handle)
            self._stream.shutdown()
            for thread in self._threads:
                # A group may be let go of by a garbage collection in any thread.
                if thread.is_alive() and thread is not threading.current_thread():
                    thread.join(_END_S)
        self._stream.close()
        for bell in self._bells:
            bell.close()
        os.close(self._end)

    # -- the threads -------------------------------------------------------------------

    def _send(self) -> None:
        with suppress(LinkLost, OSError):
            if self._stream.kind == AES_GCM:
                self._seal()
            else:
                _loops().kit_send(ctypes.byref(self._sends))
        if not self._sends.over:
            self._stream.shutdown()

    def _seal(self) -> None:
        pump, loops = ctypes.byref(self._sends), _loops()
        head = memoryview(self._sends.head).cast("B")
        while loops.kit_next(pump):
            # It takes as long as it takes: the executor, which waits for it, has a
            # deadline, and shuts the stream down.
            write_all(self._streams[0], (head, self._sends.payload()), math.inf)
            if not loops.kit_sent(pump):
                break

    def _receive(self) -> None:
        try:
            with suppress(LinkLost, OSError):
                if self._stream.kind == AES_GCM:
                    how = self._unseal()
                else:
                    how = _loops().kit_receive(ctypes.byref(self._takes))
                self._judge(self._takes, how)
        except ProtocolError as error:
            self._error = error
        finally:
            self.lost = True
            os.close(self._until_end)
            self._endpoint.wake()

    def _unseal(self) -> int:
        pump, loops = ctypes.byref(self._takes), _loops()
        head = memoryview(self._takes.head).cast("B")
        stream, how = self._streams[0], _GOES_ON
        while how == _GOES_ON and _fill(stream, head):
            begun = self._clock()
            if not loops.kit_due(pump) or not _fill(stream, self._takes.payload()):
                break
            how = loops.kit_arrived(pump, begun)
        return how

    # Of a further stream.

    def _carry_parts(self, name: str, first: _Pump, own: _Pump, stream: Stream) -> None:
        """Send or receive its parts until that is over, which ends the whole link."""
        try:
            with suppress(LinkLost, OSError):
                if self._stream.kind == AES_GCM:
                    call = _seal_parts if name == _WAYS[_OUT] else _unseal_parts
                    how = call(stream, own)
                else:
                    how = getattr(_loops(), f"kit_{name}_parts")(ctypes.byref(own))
                self._judge(own, how)
        except ProtocolError as error:
            self._error = error
        finally:
            first.over = 1
            ring(first.bell)
            self._stream.shutdown()

    def _judge(self, pump: _Pump, how: int) -> None:
        """Raise `ProtocolError` if a direction did not just end."""
        if how == _DAMAGED:
            header = frame.unpack(bytes(pump.head), bounds=self._bounds)
            frame.compare(header, pump.sum)
        if how == _UNDUE:
            header = self._checked_head(pump)
            raise ProtocolError(
                f"member {self.peer} sent a part of step {header.step} over one stream "
                f"of the link, which is not of the message that came over the first."
            )
        if how == _TOO_MANY:
            raise ProtocolError(
                f"member {self.peer} sent message {self._takes.done + 1} when no more "
                f"than {self._own[TAKEN]} were taken. The two do not run the same "
                f"plan: start all tasks with the same release and the same program."
            )


def _seal_parts(stream: Stream, own: _Pump) -> int:
    pump, loops = ctypes.byref(own), _loops()
    head = memoryview(own.same).cast("B")
    while loops.kit_part(pump):
        write_all(stream, (head, own.payload()), math.inf)
        loops.kit_part_done(pump)
    return _ENDED


def _unseal_parts(stream: Stream, own: _Pump) -> int:
    pump, loops = ctypes.byref(own), _loops()
    head = memoryview(own.head).cast("B")
    while loops.kit_part(pump) and _fill(stream, head):
        if not loops.kit_part_fits(pump):
            return _UNDUE
        if not _fill(stream, own.payload()):
            break
        loops.kit_part_done(pump)
    return _ENDED


def _fill(stream: Stream, view: memoryview) -> bool:
    while view:
        n_bytes = read_some(stream, view, math.inf)
        if not n_bytes:
            return False
        view = view[n_bytes:]
    return True


# Ports whose threads use memory that goes away with the interpreter. A forked child has
# none.
_open = weakref.WeakSet[PumpedPort]()
os.register_at_fork(after_in_child=_open.clear)


@atexit.register
def _close_all() -> None:
    for port in list(_open):
        port.close()
