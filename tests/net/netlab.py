"""Two network namespaces joined by a wire in user space, for tests across a network.

Each end has its own network ("a" is 10.77.0.1, "b" is 10.77.0.2) with one TUN device. A
pump carries the packets from one device to the other, with the faults that are set as
attributes of the `EmulatedWire`; they may be changed at any time. Both ends use the
kernel's real TCP, so retransmission, half-open connections and keepalive are genuine.

    with EmulatedWire(seed=1) as wire:
        server = wire.spawn("b", [sys.executable, "server.py"])
        client = wire.spawn("a", [sys.executable, "client.py", "10.77.0.2"])
        wire.delay_s, wire.loss = 0.050, 0.01     # 50 ms each way, 1 % loss
        wire.cut_ab = True                        # b hears nothing more from a

Needs Linux, the `ip` command, /dev/net/tun, and root or a user namespace
(`unshare -Urnm`). It damages no packet and measures no bandwidth: one core carries
about 3 Gbit/s.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kit.errors import DeadlineExceededError, FailedPreconditionError
from tests.net.pump import Pump

T = TypeVar("T")

ADDRESS: Final = {"a": "10.77.0.1", "b": "10.77.0.2"}
MTU: Final = 9000
_DEVICE: Final = "wire0"
_TUN: Final = Path("/dev/net/tun")
_CLONE_NEWNET: Final = 0x40000000  # sched.h
_TUNSETIFF: Final = 0x400454CA  # linux/if_tun.h, as the flags
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
_ENTER_S: Final = 10.0
N_THREADS: Final = 16  # of an end: so many calls may wait for its other end


class EmulatedWire(Pump):
    """The wire and its two ends; faults are the attributes of `FaultyLine`, set live.

    Parameters
    ----------
    seed : int, optional
        Makes loss and jitter repeatable.

    Examples
    --------
    Cut a wire under a running program, as root or in a user namespace::

        with EmulatedWire(seed=1) as wire:
            server = wire.spawn("a", [sys.executable, "server.py"])
            wire.delay_s, wire.loss = 0.05, 0.01
            wire.cut_ab = wire.cut_ba = True
    """

    def __init__(self, seed: int | None = None) -> None:
        """Prepare; `seed` makes loss and jitter repeatable."""
        super().__init__(seed)
        self._tun: dict[str, int] = {}
        self._network: dict[str, int] = {}
        # A namespace belongs to a thread: each end has threads that stay in its own.
        # What they start or open belongs to it, too.
        self._ends: dict[str, ThreadPoolExecutor] = {}

    def start(self) -> Self:
        """Make both ends and begin to carry.

        Raises `FailedPreconditionError`, saying what is missing on this machine.
        """
        if reason := missing():
            raise FailedPreconditionError(f"no network bench: {reason}.")
        try:
            for end, peer in (("a", "b"), ("b", "a")):
                with ThreadPoolExecutor(1) as first:
                    entered = first.submit(_enter, end, peer).result(_ENTER_S)
                self._tun[end], self._network[end] = entered
                self._ends[end] = ThreadPoolExecutor(
                    N_THREADS, f"netlab-{end}", partial(_join, entered[1])
                )
            self.carry(self._tun)
        except (OSError, subprocess.SubprocessError) as exc:
            self.close()
            raise FailedPreconditionError(
                f"no network bench: this process may not make a network namespace with "
                f"a TUN device ({exc}). In a container: --cap-add NET_ADMIN --cap-add "
                f"SYS_ADMIN --device {_TUN}."
            ) from exc
        return self

    def close(self) -> None:
        """Stop carrying packets, release the namespaces; spawned processes live on."""
        self.stop_carrying()
        for end in self._ends.values():
            end.shutdown(cancel_futures=True)
        for descriptors in self._tun, self._network:
            for descriptor in descriptors.values():
                os.close(descriptor)
            descriptors.clear()

    def call(
        self, end: str, function: Callable[[], T], timeout_s: float = _ENTER_S
    ) -> T:
        """Call a function at one end, and return its result.

        Sockets that it makes belong to that end. Raises what it raises.

        Parameters
        ----------
        end : {"a", "b"}
            Where to call it.
        function : callable
            Takes no arguments.
        timeout_s : float
            Seconds that it may take.

        Raises
        ------
        DeadlineExceededError
            It takes longer.
        FailedPreconditionError
            The wire is closed.
        """
        try:
            result = self._ends[end].submit(function)
        except RuntimeError as exc:  # of the pool
            raise _closed() from exc
        try:
            return result.result(timeout_s)
        except CancelledError as exc:
            raise _closed() from exc
        except NotInTime as exc:
            if result.done():
                raise  # its own
            if not result.cancel():
                result.add_done_callback(_let_go)
            raise DeadlineExceededError(
                f"nothing came back from end {end} of the wire in {timeout_s:g} s."
            ) from exc

    def spawn(
        self, end: str, args: Sequence[str], **kwargs: Any
    ) -> subprocess.Popen[Any]:
        """Start a process in the network of an end; it is the caller's to end.

        Parameters
        ----------
        end : {"a", "b"}
            Where to start it.
        args : sequence of str
            The command and its arguments.
        **kwargs
            Passed to `subprocess.Popen`.
        """
        return self.call(end, lambda: subprocess.Popen(args, **kwargs))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


def _closed() -> FailedPreconditionError:
    return FailedPreconditionError("the wire is closed; nothing happens at its ends.")


def _let_go(result: Future[Any]) -> None:
    """Close a result that came too late for the caller."""
    if result.exception() is None and hasattr(result.result(), "close"):
        result.result().close()


def missing() -> str:
    """Return what this machine lacks for an `EmulatedWire`; "" if nothing is known."""
    if sys.platform != "linux":
        return "network namespaces exist on Linux only"
    if ip_command() is None:
        return "there is no 'ip' command; install the package iproute2"
    if not _TUN.is_char_device():
        return f"{_TUN} is not there; in a container give --device {_TUN}"
    if not os.access(_TUN, os.R_OK | os.W_OK):
        return f"user {os.geteuid()} may not open {_TUN}"
    if os.geteuid() != 0:
        return "only root makes namespaces; start it under 'unshare -Urnm'"
    return ""


def ip_command() -> str | None:
    return shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _join(network: int) -> None:
    """Move this thread to an existing network."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, _CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


def _enter(end: str, peer: str) -> tuple[int, int]:
    """Move this thread to a new network; return descriptors of its device and of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, f"unshare: {os.strerror(code)}")
    tun = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        request = struct.pack("16sH14x", _DEVICE.encode(), _IFF_TUN | _IFF_NO_PI)
        fcntl.ioctl(tun, _TUNSETIFF, request)
        for words in (
            "link set lo up",
            f"addr add {ADDRESS[end]}/32 peer {ADDRESS[peer]}/32 dev {_DEVICE}",
            f"link set {_DEVICE} up mtu {MTU}",
        ):
            command = [ip_command() or "ip", *words.split()]
            subprocess.run(command, check=True, timeout=_ENTER_S)
        return tun, os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except BaseException:
        os.close(tun)
        raise
