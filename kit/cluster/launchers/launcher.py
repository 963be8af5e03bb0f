"""The base of all launchers, and how they run commands."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shlex
import sys
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kit.cluster.launchers.forms import form_of
from kit.cluster.processes import reaper
from kit.errors import InvalidArgumentError, StartFailed, UnavailableError
from kit.wire.sockets import address_towards

CONNECT_S = 10
LAUNCH_LOG = "logs/launch.log"  # in the cluster's folder: stderr of what launches
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_NOWHERE = "192.0.2.1"  # for documentation (RFC 5737): it takes the default route


@dataclass(frozen=True, kw_only=True)
class Launcher(ABC):
    """Base of all launchers.

    Parameters
    ----------
    address : str, optional
        The address at which the hosts reach this machine. By default the one from which
        packets to the hosts leave.
    python : str, optional
        The interpreter on the hosts, in which the kit is installed.
    """

    address: str = ""
    python: str = sys.executable
    launches: ClassVar[str] = ""  # ipyparallel's name of the launcher
    starts_ranks: ClassVar[bool] = False  # whether its processes are ranks of MPI
    socket: ClassVar[str] = ""  # the longest name of its own in the cluster's folder

    def __post_init__(self) -> None:
        """Raise `InvalidArgumentError` for a value that is not as its field's.

        So is one with a line break or another control character: in a script or a
        command that another program reads, it could begin something else.
        """
        hints = typing.get_type_hints(type(self))
        for name in (field.name for field in dataclasses.fields(self)):
            value, form = getattr(self, name), form_of(hints[name])
            if form is None:
                continue
            refusal = f"{type(self).__name__} cannot be made with {name}={value!r}"
            if not form.is_right(value):
                raise InvalidArgumentError(
                    f"{refusal}; write it like {name}={form.in_code}."
                )
            texts = value if isinstance(value, Iterable) else ()
            if any(map(_CONTROL.search, [value] if isinstance(value, str) else texts)):
                raise InvalidArgumentError(
                    f"{refusal}: leave out line breaks and other control characters."
                )
        if not self.python or self.python.startswith("-"):
            raise InvalidArgumentError(
                f"python={self.python!r} is not an interpreter; write it like "
                f"python='/opt/psring/bin/python'."
            )

    def n_processes(self, n_tasks: int) -> int:
        """Return how many processes to launch for so many tasks; by default one each.

        Raises `InvalidArgumentError` if the hosts cannot hold that many tasks.
        """
        return n_tasks

    @abstractmethod
    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return the traits of ipyparallel's launcher, by class; may block.

        `program` is the command to start on each host; `folder` is the cluster's, here.
        """

    @property
    def reached_at(self) -> str:
        """The address at which the hosts reach this machine; may ask a name server."""
        if self.address:
            return self.address
        try:
            return address_towards(_NOWHERE)
        except UnavailableError as error:
            raise StartFailed(
                f"the address at which the hosts reach this machine is not known "
                f"({error.message}); name it with address=... of the launcher."
            ) from error

    def shared_folder(self, folder: Path) -> Path | None:
        """Return the folder in which the hosts find the connection of the cluster.

        None if the launch itself passes the connection on.
        """
        return None

    async def check(self, n_tasks: int) -> None:
        """Raise `StartFailed` if a launch would surely fail; nothing starts before."""
        return None

    def ending(self, folder: Path) -> list[str]:
        """Return the command that ends what the launch has left; empty for none.

        The command runs at the cluster's end, whichever process brings that about, and
        also after a launch that was given up halfway.
        """
        return []

    async def waiting_for(self, job: str) -> str:
        """Return why the launched job has not begun; empty if that is not known."""
        return ""


def quiet(program: str, folder: Path, without: Sequence[str] = ()) -> list[str]:
    """Return a command that writes its stderr into the cluster's folder.

    A stop finds it by the cluster's mark, if it still waits for a host. It does not get
    the variables `without`.
    """
    words = shlex.quote(str(folder / LAUNCH_LOG))
    script = f'exec {program} "$@" 2>>{words}'
    unset = [word for name in without for word in ("-u", name)]
    return ["env", *unset, f"{reaper.MARK}={folder}", "sh", "-c", script, program]


async def run(command: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Run a command without input; return its status and its output."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except FileNotFoundError as error:
        return 127, f"{command[0]} is not installed here ({error.strerror})"
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate()
    except TimeoutError:
        return 124, f"no answer within {limit_s:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode("utf-8", "replace").strip()
