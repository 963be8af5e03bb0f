"""Two hosts on this machine: namespaces with a network, names, processes and sshd each.

    this machine 10.86.N.254 --bridge-- nodea 10.86.N.1
                                    \\-- nodeb 10.86.N.2

They share this machine's files but /run, and see neither its processes nor its network.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import psutil

from tests.hosts import ready_python

_SSHD = "/usr/sbin/sshd"
_NEEDED = ("ip", "unshare", "nsenter", "ssh", "scp", "ssh-keygen")
_START_S = 60.0  # a test that gives up leaves the others without a host
_NOBODY = "02:00:00:00:00:fe"  # an Ethernet address that no host has
_EVERY_PROTOCOL = 0x0003  # ETH_P_ALL
_SO_RCVBUFFORCE = 33  # socket(7); the module lacks it
_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 1 << 18
_AHEAD_S = {"nodea": 5000, "nodeb": 1000}

T = TypeVar("T")


def missing() -> str:
    """Return why there can be no hosts here, empty if nothing known is missing."""
    if os.geteuid() != 0:
        return "namespaces with a network need root"
    absent = [name for name in _NEEDED if shutil.which(name) is None]
    if not Path(_SSHD).exists():
        absent.append("sshd (package openssh-server)")
    return f"not installed: {', '.join(absent)}" if absent else ""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class TwoHosts:
    """Both hosts, from `with` to its end; `address` is by name."""

    def __init__(self, folder: Path, *, is_forking: bool = False) -> None:
        """Take a folder; whether `python` is forked at the hosts, or started."""
        self.folder = folder
        self.python = str(folder / "python") if is_forking else sys.executable
        number = os.getpid() % 250
        self._link = f"ps{os.getpid() % 100_000}"
        self.here = f"10.86.{number}.254"
        self.address = {
            name: f"10.86.{number}.{i}" for i, name in enumerate(("nodea", "nodeb"), 1)
        }
        self._init: dict[str, subprocess.Popen[str]] = {}
        self._zygotes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def ssh_args(self) -> list[str]:
        """What ssh needs to log in to a host by its address."""
        options = ("IdentitiesOnly=yes", f"UserKnownHostsFile={self.folder}/known")
        words = [word for option in options for word in ("-o", option)]
        return ["-F", "/dev/null", "-i", str(self.folder / "key"), *words]

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _start(self) -> None:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._make_key("key")
        if self.python != sys.executable:
            ready_python.write(Path(self.python))
        keys = self.folder / "authorized"
        keys.write_text((self.folder / "key.pub").read_text())
        expected = {"localhost": "127.0.0.1", platform.node(): self.here} | self.address
        lines = [f"{address} {name}\n" for name, address in expected.items()]
        (self.folder / "names").write_text("".join(lines))
        run("ip", "link", "add", self._link, "type", "bridge")
        run("ip", "addr", "add", f"{self.here}/24", "dev", self._link)
        run("ip", "link", "set", self._link, "up")
        for name in self.address:
            self._describe(name)
            self._start_host(name)
        for name in self.address:
            self._wait_for_login(name)

    def _make_key(self, name: str) -> None:
        path = str(self.folder / name)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path)

    def _describe(self, name: str) -> None:
        """Write what a host keeps when it is off: its key, and what it answers to."""
        address, key = self.address[name], f"host_{name}"
        self._make_key(key)
        public = (self.folder / f"{key}.pub").read_text().split()
        names = f"{address},localhost,127.0.0.1" if name == "nodea" else address
        with (self.folder / "known").open("a") as expected:
            expected.write(f"{names} {public[0]} {public[1]}\n")
        (self.folder / f"sshd_{name}").write_text(
            f"Port 22\nListenAddress {address}\nListenAddress 127.0.0.1\n"
            f"HostKey {self.folder / key}\n"
            f"PidFile none\nAuthorizedKeysFile {self.folder}/authorized\n"
            "AuthenticationMethods publickey\nPermitRootLogin prohibit-password\n"
            "StrictModes no\nUsePAM no\nMaxStartups 100\nMaxSessions 100\n"
            "SetEnv SHLVL=1\n"  # or bash would read what this machine has for its user
            "Subsystem sftp internal-sftp\n"
        )

    def _start_host(self, name: str) -> None:
        address, config = self.address[name], self.folder / f"sshd_{name}"
        script = (
            f"mount -t proc proc /proc; hostname {name}; read go; ip link set lo up; "
            f"ip addr add {address}/24 dev eth0; ip link set eth0 up; "
            f"mount -t tmpfs none /run; mkdir /run/sshd; {self._names} "
            f"exec {_SSHD} -D -f {config} -E {self.folder}/log_{name}"
        )
        kinds = ("--net", "--uts", "--pid", "--mount", "--fork", "--kill-child")
        # Clocks of two machines have begun at different times.
        clock = ("--time", "--monotonic", str(_AHEAD_S[name]))
        self._init[name] = init = subprocess.Popen(
            ["unshare", *kinds, *clock, "sh", "-c", script],
            stdin=subprocess.PIPE,
            text=True,
        )
        port = f"{self._link}{name[-1]}"
        run("ip", "link", "add", port, "type", "veth", "peer", "name", f"{port}p")
        run("ip", "link", "set", port, "master", self._link, "up")
        run("ip", "link", "set", f"{port}p", "netns", str(self.pid(name)))
        run(*self.at(name, "ip", "link", "set", f"{port}p", "name", "eth0"))
        assert init.stdin is not None, "it was asked for"
        init.stdin.write("go\n")
        init.stdin.close()

    @property
    def _names(self) -> str:
        """A shell's line that makes the names of all known in its namespace."""
        return f"mount --bind {self.folder}/names /etc/hosts;"

    def call(self, function: Callable[[], T]) -> T:
        """Call a function here, where it and what it starts know the names."""

        def go() -> None:
            libc, private = ctypes.CDLL(None, use_errno=True), _MS_REC | _MS_PRIVATE
            names = str(self.folder / "names").encode()
            for failed in (
                libc.unshare(_CLONE_NEWNS),
                libc.mount(None, b"/", None, private, None),
                libc.mount(names, b"/etc/hosts", None, _MS_BIND, None),
            ):
                if failed:
                    raise OSError(code := ctypes.get_errno(), os.strerror(code))

        with ThreadPoolExecutor(1) as thread:  # whose namespace it is
            thread.submit(go).result()
            return thread.submit(function).result()

    def pid(self, name: str) -> int:
        """Return the process that keeps a host's namespaces, in ours."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            children = psutil.Process(self._init[name].pid).children()
            if children:
                return children[0].pid
            time.sleep(0.01)
        raise OSError(f"{name} has no process")

    def at(self, name: str, *command: str) -> list[str]:
        """Return the command that runs `command` at a host."""
        spaces = ("--net", "--uts", "--pid", "--mount")
        return ["nsenter", "-t", str(self.pid(name)), *spaces, *command]

    def login(self, name: str, *command: str) -> list[str]:
        """Return the ssh command that runs `command` at a host."""
        return ["ssh", *self.ssh_args, self.address[name], *command]

    def _wait_for_login(self, name: str) -> None:
        # A packet that is lost before the host is up would be sent again much later.
        soon = ["ssh", "-o", "ConnectTimeout=2", *self.login(name, "true")[1:]]
        deadline = time.monotonic() + _START_S
        while True:
            done = subprocess.run(soon, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            if time.monotonic() > deadline:
                raise OSError(f"no login to {name}: {done.stderr}")
            if self._init[name].poll() is not None:  # unshare itself fails at times
                with contextlib.suppress(OSError):  # it goes with its other end
                    run("ip", "link", "del", f"{self._link}{name[-1]}")
                self._start_host(name)
            time.sleep(0.05)
        if self.python != sys.executable:
            self._zygotes[name] = ready_python.begin(self.pid(name))

    def cut(self, name: str) -> None:
        """Let nothing through between a host and all others."""
        run("ip", "link", "set", f"{self._link}{name[-1]}", "down")

    def join(self, name: str) -> None:
        """Undo `cut`."""
        run("ip", "link", "set", f"{self._link}{name[-1]}", "up")

    @contextlib.contextmanager
    def refusing(self, near: str, far: str) -> Iterator[None]:
        """Refuse at one host what is sent to another, as a firewall may."""
        way = ("unreachable", f"{self.address[far]}/32")
        run(*self.at(near, "ip", "route", "add", *way))
        try:
            yield
        finally:
            run(*self.at(near, "ip", "route", "del", *way))

    @contextlib.contextmanager
    def swallowing(self, near: str, far: str) -> Iterator[None]:
        """Let what one host sends to another get lost, as behind other firewalls."""
        way = (self.address[far], "dev", "eth0")
        nobody = ("lladdr", _NOBODY, "nud", "permanent")
        run(*self.at(near, "ip", "neigh", "replace", *way, *nobody))
        try:
            yield
        finally:
            run(*self.at(near, "ip", "neigh", "del", *way))

    def bytes_to(self, name: str) -> int:
        """Return how many bytes have gone to a host, from whomever."""
        counters = Path("/sys/class/net", f"{self._link}{name[-1]}", "statistics")
        return int((counters / "tx_bytes").read_text())

    @contextlib.contextmanager
    def overheard(self, name: str) -> Iterator[list[bytes]]:
        """Gather what passes between a host and all others, for the end of `with`."""
        every = socket.htons(_EVERY_PROTOCOL)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, every) as ear:
            ear.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 28)
            ear.bind((f"{self._link}{name[-1]}", 0))
            packets: list[bytes] = []
            yield packets
            with contextlib.suppress(BlockingIOError):
                while True:
                    packets.append(ear.recv(1 << 17, socket.MSG_DONTWAIT))

    def processes(self, mark: str) -> list[list[str]]:
        """Return the command lines of all processes that have `mark`.

        It is in a value of their environment, or in the command line itself.
        """
        result = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                command = process.cmdline()
                if any(
                    mark in text for text in [*command, *process.environ().values()]
                ):
                    result.append(command)
        return result

    def _end(self) -> None:
        for name, init in self._init.items():
            init.kill()
            init.wait()
            if name in self._zygotes:  # it ends with its host
                self._zygotes.pop(name).wait()
        links: Sequence[str] = [*(f"{self._link}{n[-1]}" for n in self._init)]
        for link in [*links, self._link]:
            with contextlib.suppress(OSError):
                run("ip", "link", "del", link)
