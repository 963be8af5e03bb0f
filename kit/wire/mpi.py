"""Bytes between two tasks as messages of MPI, by mpi4py, which no other file imports.

    task A ── authenticated link ── task B     who is which rank, and when one ends
           ══ messages of MPI ═════            everything that is written

Theory of operation. Each task is a rank of one MPI job. Two tasks link as over any
other transport; then each says on the link which rank it is, and a tag that it has
given to nobody else. So a rank and a tag are one stream, and streams may be opened
by any two tasks at any time, as no communicator is needed for them.

Nothing is copied here: bytes leave from where they lie (`Isend`) and come to where they
belong (`Irecv`), and MPI says how many came (`Get_count`). A port above
(`kit.exchange.ports.stream_port`) has the same frames as over TCP and the same checks,
in the same order; so sums have the same bits, and the same bytes are counted.

MPI proceeds only within calls, and has no descriptor to poll: `kind` tells the endpoint
to look often. When a rank has died, MPI says nothing, or ends all others; the link
shows it. Nothing is encrypted, so a link that is encrypted is refused.
"""

from __future__ import annotations

import atexit
import importlib
import itertools
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any

from kit.errors import FailedPreconditionError, LinkLost, PermissionDeniedError
from kit.wire.frame import Buffer
from kit.wire.stream import ENCRYPTED, MPI, Stream, write_all

_HELLO = struct.Struct("<2Q")  # rank, tag
# Of a message. Parts of a range arrive one after the other, so the first is checked and
# added up while the next one comes.
_MOST_BYTES = 1 << 20
# In these mpiexec and srun tell a process how many there are.
_BY_OPEN_MPI, _BY_MPICH = "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"
_SIZES = (_BY_OPEN_MPI, "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_LOOK_S = 0.01
_tags = itertools.count(1)
# What MPI may still read or write after its stream was closed: a send cannot be taken
# back, and memory that MPI writes to must stay.
_left: list[tuple[Any, memoryview]] = []
_guard = threading.Lock()  # of that list


def over_mpi(link: Stream, limit_s: float) -> MpiStream:
    """Return a stream over MPI to the task at the other end of a link, which it owns.

    The other task does the same, sooner or later. Saying who we are may take `limit_s`.
    Raises `PermissionDeniedError` for an encrypted link, and what `world` raises.
    """
    if link.kind in ENCRYPTED:
        raise PermissionDeniedError(
            f"MPI sends gradients and parameters without encryption, and the link to "
            f"{link.peer} is encrypted. If the network between the hosts is trusted, "
            f"say so: kit.Cluster(transport='mpi', insecure=True, ...)."
        )
    stream = MpiStream(link, world())
    write_all(link, [stream.hello], time.monotonic() + limit_s)
    return stream


@cache
def world() -> Any:
    """Return the communicator of all tasks, of which each is a rank.

    In its first call, which all ranks make, MPI is initialised and the ranks wait for
    each other. Raises `FailedPreconditionError` without mpi4py, with an MPI that is not
    mpiexec's, and with one that allows calls of one thread alone.
    """
    mpi = library()
    if mpi.Query_thread() < mpi.THREAD_MULTIPLE:
        raise FailedPreconditionError(
            f"transport='mpi' needs an MPI that several threads may call "
            f"(MPI_THREAD_MULTIPLE), and {_version(mpi)} allows level "
            f"{mpi.Query_thread()} of {mpi.THREAD_MULTIPLE}. Use an MPI that was built "
            f"with threads, and leave mpi4py's own settings (mpi4py.rc) as they are."
        )
    sizes = [os.environ[name] for name in _SIZES if os.environ.get(name)]
    if not sizes:
        raise FailedPreconditionError(
            "transport='mpi' needs tasks that are ranks of MPI. Start them with "
            "kit.Cluster(launcher=kit.launchers.MPI(), transport='mpi'), or a program "
            "with: KIT_TRANSPORT=mpi mpiexec -n 4 python program.py"
        )
    if mpi.COMM_WORLD.Get_size() == 1 and sizes[0] != "1":
        raise _other_mpi(mpi, f"another's, with {sizes[0]} ranks")
    return mpi.COMM_WORLD.Dup()  # no message of a user's own program is in it


@cache
def library() -> Any:
    """Return mpi4py's module of MPI, initialised. Raises as `world` does."""
    try:
        # Not initialised by its import: under the mpiexec of another MPI that could end
        # the process without a word of ours.
        rc = importlib.import_module("mpi4py").rc
        before, rc.initialize = rc.initialize, False
        try:
            mpi = importlib.import_module("mpi4py.MPI")
        finally:
            rc.initialize = before
    except (ImportError, RuntimeError) as error:  # the latter without a libmpi
        raise FailedPreconditionError(
            f"transport='mpi' needs mpi4py, and an MPI that it can load, in the Python "
            f"of all tasks: {error}. Install the one with pip install 'psring[mpi]'; "
            f"MPI4PY_LIBMPI names the other's library, such as /opt/mpi/lib/libmpi.so."
        ) from error
    is_open_mpi = mpi.get_vendor()[0] == "Open MPI"
    if is_open_mpi and _BY_MPICH in os.environ and _BY_OPEN_MPI not in os.environ:
        raise _other_mpi(mpi, "MPICH's or one of its kind")
    if not is_open_mpi and _BY_OPEN_MPI in os.environ:
        raise _other_mpi(mpi, "Open MPI's")
    if not mpi.Is_initialized():
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
        atexit.register(mpi.Finalize)
    return mpi


def leave(limit_s: float) -> None:
    """Wait up to `limit_s` until all ranks leave; if some do not, end without them.

    At its end a process waits in `MPI_Finalize` for all others, and holds Python's lock
    meanwhile: for a rank that was lost it would wait for ever.
    """
    everybody, give_up_at = world().Ibarrier(), time.monotonic() + limit_s
    while not everybody.Test():
        if time.monotonic() > give_up_at:
            atexit.unregister(library().Finalize)
            return
        time.sleep(_LOOK_S)


def _other_mpi(mpi: Any, whose: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"mpi4py uses {_version(mpi)}, and mpiexec is {whose}: its ranks cannot find "
        f"each other. Name the mpiexec that belongs to mpi4py's, "
        f"kit.launchers.MPI(command=['/opt/mpi/bin/mpiexec']), or the library that "
        f"belongs to this mpiexec: MPI4PY_LIBMPI=/opt/mpi/lib/libmpi.so"
    )


def _version(mpi: Any) -> str:
    name, numbers = mpi.get_vendor()
    return f"{name} {'.'.join(map(str, numbers))}"


class MpiStream:
    """A stream to the task at the other end of `link`, which it owns.

    Views that are read to must be at least as long as what was written at once, as
    frames are whose length is known. What is written must stay as it is until `write`
    has taken it: it says so when MPI has sent it.
    """

    kind = MPI

    def __init__(self, link: Stream, comm: Any) -> None:
        """`hello` has to be written to the link; it is expected from there."""
        self._link, self._comm, self._mpi = link, comm, library()
        self.peer = link.peer
        self._tag = next(_tags) % self._mpi.COMM_WORLD.Get_attr(self._mpi.TAG_UB)
        self.hello = _HELLO.pack(comm.Get_rank(), self._tag)
        self._heard = bytearray()
        self._sends: deque[tuple[Any, memoryview]] = deque()
        self._n_sending = 0
        self._receive: tuple[Any, memoryview] | None = None
        self._status = self._mpi.Status()

    def fileno(self) -> int:
        """Return the link's, which shows the other task's end and no message."""
        return self._link.fileno()

    def write(self, buffers: Sequence[Buffer]) -> int | None:
        """Begin to send all of `buffers`; return how many bytes of the first are sent.

        A call must offer again what the last one has not taken.
        """
        if not self._knows_peer():
            return None
        try:
            self._begin(buffers)
            n_sent = 0
            while self._sends and self._sends[0][0].Test():
                n_sent += len(self._sends.popleft()[1])
        except self._mpi.Exception as error:
            raise self._lost(error) from error
        self._n_sending -= n_sent
        return n_sent or None

    def _begin(self, buffers: Sequence[Buffer]) -> None:
        begun = self._n_sending
        rank, tag = _HELLO.unpack(self._heard)
        for buffer in buffers:
            view = memoryview(buffer)
            for lo in range(min(begun, len(view)), len(view), _MOST_BYTES):
                piece = view[lo : lo + _MOST_BYTES]
                sent = self._comm.Isend([piece, self._mpi.BYTE], rank, tag)
                self._sends.append((sent, piece))
                self._n_sending += len(piece)
            begun = max(0, begun - len(view))

    def read_into(self, view: memoryview) -> int | None:
        """Receive to the front of `view`; until it has come, ask for the same view."""
        if not self._knows_peer():
            return None
        rank, _ = _HELLO.unpack(self._heard)
        try:
            if self._receive is None:
                part = view[:_MOST_BYTES]
                into = [part, self._mpi.BYTE]
                self._receive = self._comm.Irecv(into, rank, self._tag), part
            if self._receive[0].Test(self._status):
                self._receive = None
                return int(self._status.Get_count(self._mpi.BYTE))
        except self._mpi.Exception as error:
            raise self._lost(error) from error
        # What was sent before the end may come after the news of it: the caller goes on
        # reading for a moment.
        return None if self._link.read_into(memoryview(bytearray(1))) is None else 0

    def _knows_peer(self) -> bool:
        if len(self._heard) < _HELLO.size:
            view = memoryview(bytearray(_HELLO.size - len(self._heard)))
            n_bytes = self._link.read_into(view)
            if n_bytes == 0:
                raise LinkLost(f"{self.peer} closed its link before it said its rank.")
            self._heard += view[: n_bytes or 0]
        return len(self._heard) == _HELLO.size

    def _lost(self, error: Exception) -> LinkLost:
        return LinkLost(f"MPI cannot reach the rank at {self.peer} any more: {error}")

    def shutdown(self) -> None:
        """Shut the link down."""
        self._link.shutdown()

    def close(self) -> None:
        """Close the link, and receive nothing more."""
        self._link.close()
        if self._receive is not None:
            self._receive[0].Cancel()
            self._sends.append(self._receive)  # kept as those are
            self._receive = None
        with _guard:
            _left.extend(self._sends)
            _left[:] = [item for item in _left if not item[0].Test()]
        self._sends.clear()
