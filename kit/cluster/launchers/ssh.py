"""A launcher by ssh."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from kit.cluster.launchers.launcher import CONNECT_S, Launcher, quiet, run
from kit.cluster.loop import gather
from kit.errors import InvalidArgumentError, StartFailed, UnavailableError
from kit.wire.sockets import address_towards

# Of a host for ssh, with a user and a port perhaps: nothing that ssh or the commands of
# its configuration, such as ProxyCommand, would take for an option or for shell.
_NAME = re.compile(r"(?:[\w.][\w.@\\+-]*@)?[\w.][\w.-]*(?::[0-9]{1,5})?")

# Imports only what is missing, for the error: a start imports it all again.
_LOOK = (
    "from importlib.util import find_spec; "
    "[find_spec(name) or __import__(name) for name in ('ipyparallel', 'kit')]"
)


@dataclass(frozen=True)
class SSH(Launcher):
    """Start the tasks on hosts to which ssh can log in from here.

    Parameters
    ----------
    hosts : mapping of str to int
        How many tasks each host can hold, by its name for ssh: `"nodea"`,
        `"me@nodea"`, `"nodea:2222"`. Hosts are filled in this order, with parameter
        servers first and then workers.
    ssh_args : sequence of str
        Arguments for ssh and scp, such as `["-i", "key"]`. They never ask for a
        password.
    address, python
        As for every launcher; python is `python3` by default.

    Examples
    --------
    Three tasks on one host and two on another::

        launcher = kit.launchers.SSH({"nodea": 3, "nodeb": 2})
        cluster = kit.Cluster(ps=1, worker=4, launcher=launcher)
    """

    hosts: Mapping[str, int]
    ssh_args: Sequence[str] = field(default=(), kw_only=True)
    python: str = field(default="python3", kw_only=True)
    launches: ClassVar[str] = "ssh"
    # %C is a digest of 40 digits, and ssh makes the socket under a longer name first.
    socket: ClassVar[str] = "ssh-" + 40 * "0" + "." + 16 * "0"

    def __post_init__(self) -> None:
        super().__post_init__()
        bad = [host for host, n in self.hosts.items() if not host or n < 1]
        if bad or not self.hosts:
            raise InvalidArgumentError(
                f"hosts={dict(self.hosts)!r}: give at least one host, and for each how "
                f"many tasks it can hold, such as {{'nodea': 3, 'nodeb': 2}}."
            )
        for host in self.hosts:
            if not _NAME.fullmatch(host):
                raise InvalidArgumentError(
                    f"hosts={dict(self.hosts)!r}: {host!r} is not a host. Write "
                    f"it like 'nodea', 'me@nodea' or 'nodea:2222', and options of ssh "
                    f"into ssh_args=['-i', 'key']."
                )

    def n_processes(self, n_tasks: int) -> int:
        """Return how many hosts are needed, from the first on."""
        n_slots = 0
        for n_hosts, slots in enumerate(self.hosts.values(), 1):
            n_slots += slots
            if n_slots >= n_tasks:
                return n_hosts
        raise InvalidArgumentError(
            f"the hosts {dict(self.hosts)!r} can hold {n_slots} tasks, and the cluster "
            f"has {n_tasks}; give more hosts, or larger numbers."
        )

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return the traits of ipyparallel's ssh launcher."""
        options = self._options(folder)
        engines = {
            host: {
                "engine_args": [f"--slots={n}", f"--label={host}"],
                "remote_profile_dir": f"/tmp/{folder.name}-{_as_file(host)}",
            }
            for host, n in self.hosts.items()
        }
        return {
            "SSHEngineSetLauncher": {"engines": engines},
            "SSHEngineLauncher": {
                "ssh_cmd": quiet("ssh", folder),
                "scp_cmd": quiet("scp", folder),
                "ssh_args": list(options),
                "scp_args": list(options),
                "remote_python": self.python,
                "engine_cmd": list(program),
                "to_send": [],  # the connection travels in the environment
            },
        }

    def ending(self, folder: Path) -> list[str]:
        """Return the command that closes the connections to all hosts."""
        # ssh writes its process title over its environment, so the mark of its
        # connections is gone and a stop does not find them.
        script = 'for socket in "$0"/ssh-*; do ssh -S "$socket" -O exit host; done'
        return ["sh", "-c", script, str(folder)]

    @property
    def reached_at(self) -> str:
        """The address at which the first host reaches this machine."""
        if not self.address:
            with suppress(UnavailableError):  # the name may be known to ssh alone
                return address_towards(_plain_host(next(iter(self.hosts))))
        return super().reached_at

    def _options(self, folder: Path | None = None) -> list[str]:
        chosen = ["BatchMode=yes", f"ConnectTimeout={CONNECT_S}"]
        if folder is not None:  # one login for all commands at a host
            chosen += ["ControlMaster=auto", "ControlPersist=10"]
            # Quoted as in a file of ssh; % would begin one of its own patterns.
            quoted = '"' + str(folder).replace("%", "%%") + '/ssh-%C"'
            chosen += [f"ControlPath={quoted}"]
        return [*self.ssh_args, *(word for option in chosen for word in ("-o", option))]

    async def check(self, n_tasks: int) -> None:
        """Log in to each needed host, and look there for what a task needs.

        Raises `StartFailed` with the host, and the error of ssh or of its Python.
        """
        needed = list(self.hosts)[: self.n_processes(n_tasks)]
        answers = await gather(map(self._check_host, needed))
        problems = [problem for problem in answers if problem]
        if problems:
            raise StartFailed("\n".join(problems))

    async def _check_host(self, host: str) -> str:
        login, _, port = host.partition(":")
        remote = shlex.join([self.python, "-P", "-c", _LOOK])
        ports = ["-p", port] if port else []
        command = ["ssh", *self._options(), *ports, login, remote]
        status, words = await run(command, 2 * CONNECT_S)
        words_of = words.rpartition("\n")[2].rstrip(".")
        if status == 0:
            return ""
        if status == 255:  # ssh(1): an error of ssh itself
            return f"{host} cannot be logged in to: {words_of}"
        return (
            f"{host} cannot run tasks with {self.python!r}: {words_of}. Install psring "
            f"there, or name the interpreter that has it: SSH(python=...)."
        )


def _as_file(host: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in host)[-24:]


def _plain_host(host: str) -> str:
    return host.rpartition("@")[2].partition(":")[0]
