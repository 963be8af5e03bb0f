"""What all launchers have, and how they run commands."""

from __future__ import annotations

import asyncio
import dataclasses
import shlex
import sys
import typing
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kit.cluster.launchers.forms import form_of
from kit.cluster.processes import reaper
from kit.errors import InvalidArgumentError, StartFailed, UnavailableError
from kit.wire.sockets import address_towards

CONNECT_S = 10
LAUNCH_LOG = "logs/launch.log"  # in the cluster's folder: what launching complained of
_NOWHERE = "192.0.2.1"  # for documentation (RFC 5737): where the default route leads


@dataclass(frozen=True, kw_only=True)
class Launcher(ABC):
    """What all launchers can be told.

    Parameters
    ----------
    address : str, optional
        The address of this machine at which the hosts reach it. By default the one
        that packets to the hosts leave from.
    python : str, optional
        The interpreter on the hosts, in which the kit is installed.
    """

    address: str = ""
    python: str = sys.executable
    launches: ClassVar[str] = ""  # ipyparallel's name of the launcher

    def __post_init__(self) -> None:
        """Raise `InvalidArgumentError` for a value of another type than its field's."""
        hints = typing.get_type_hints(type(self))
        for name in (one.name for one in dataclasses.fields(self)):
            value, form = getattr(self, name), form_of(hints[name])
            if form is not None and not form.is_right(value):
                raise InvalidArgumentError(
                    f"{type(self).__name__} cannot be made with {name}={value!r}; "
                    f"write it like {name}={form.in_code}."
                )

    def n_processes(self, n_tasks: int) -> int:
        """Return how many processes are launched for so many tasks, one for each.

        Raises `InvalidArgumentError` if the hosts cannot hold them.
        """
        return n_tasks

    @abstractmethod
    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return the traits of ipyparallel's launcher, by class.

        `program` is what to start on each host; `folder` is the cluster's own, here.
        """

    @property
    def reached_at(self) -> str:
        """The address of this machine at which the hosts reach it."""
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
        """Return where the hosts read what they need of the cluster in `folder`.

        None if launching hands it on.
        """
        return None

    async def check(self, n_tasks: int) -> None:
        """Raise `StartFailed` for what can be known to fail before anything starts."""
        return None

    def ending(self, job: str) -> list[str]:
        """Return the command that ends what is left of the launched job `job`."""
        return []

    async def waiting_for(self, job: str) -> str:
        """Say why the launched job `job` has not begun; empty if that is not known."""
        return ""


def quiet(program: str, folder: Path) -> list[str]:
    """Return a command that writes its complaints into the cluster's folder.

    By its mark a stop finds it, should it still wait for a host.
    """
    words = shlex.quote(str(folder / LAUNCH_LOG))
    script = f'exec {program} "$@" 2>>{words}'
    return ["env", f"{reaper.MARK}={folder}", "sh", "-c", script, program]


async def run(command: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Run a command that asks nothing; return its status and all it said."""
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
            told, _ = await process.communicate()
    except TimeoutError:
        return 124, f"no answer within {limit_s:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, told.decode("utf-8", "replace").strip()
