"""Variants of ipyparallel's launchers of engines.

Instead of engines they launch the processes from which engines are forked.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from pathlib import Path
from typing import Any

from ipyparallel.cluster.launcher import (
    SlurmEngineSetLauncher,
    SSHEngineLauncher,
    SSHEngineSetLauncher,
)

from kit.cluster.launchers import LAUNCH_LOG
from kit.cluster.loop import gather
from kit.cluster.runtime import tail_of
from kit.errors import StartFailed

_END_S = 5.0  # of a process on another host


class SSHHostLauncher(SSHEngineLauncher):  # type: ignore[misc]  # untyped base
    """Launch one process on one host.

    It does not wait for the end of that process, which would keep an ssh open for the
    cluster's whole life; the controller knows which hosts are there. Nothing but that
    process imports a package there: ipyparallel's own imports itself for each command,
    and IPython for a profile that nobody uses, which took longer than the process.
    """

    def start(self, hostname: str, user: str | None, port: str | None) -> None:
        """Start the process, in a new folder. Blocks."""
        self.hostname, self.user = hostname, user or ""
        self.location = f"{user}@{hostname}" if user else hostname
        if port:
            self.ssh_args.extend(["-p", port])
            self.scp_args.extend(["-P", port])
        sender = self.ssh_sender
        sender.send_receiver_code = True
        sender.cmd_mkdir(str(Path(self.remote_output_file).parent))
        self.pid = sender.cmd_start(
            [*self.program, *self.program_args],
            env=self.get_env(),
            output_file=self.remote_output_file,
        )
        self.notify_start({"host": self.location, "pid": self.pid})

    def why_ended(self) -> str | None:
        """Return the last words of the process if it has ended, None if not. Blocks."""
        script = f"kill -0 {self.pid} 2>/dev/null && echo runs || echo ended"
        if self.ssh_sender.check_output(script).strip() == "runs":
            return None
        return str(self.get_output())

    def end(self) -> None:
        """End the process, if it was started, and remove its folder there. Blocks."""
        folder = shlex.quote(self.remote_profile_dir)
        # It may have a reaper already, which removes the folder when it has ended all.
        script = (
            f"kill {self.pid}; for _ in 1 2 3 4 5 6 7 8 9 10; do "
            f"kill -0 {self.pid} || break; sleep 0.1; done; rm -rf {folder}"
        )
        remote = shlex.join(["sh", "-c", script])
        # Not by `ssh_cmd`: a stop would end it.
        if self.pid > 0:
            command = ["ssh", *self.ssh_args, self.location, remote]
            subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_END_S
            )


class SSHHostsLauncher(SSHEngineSetLauncher):  # type: ignore[misc]  # untyped base
    """Launch one process on each of the first `n` hosts, on all at the same time.

    ipyparallel's own starts them one after the other, in some seconds each, and blocks
    the loop meanwhile.
    """

    async def start(self, n: int) -> list[str]:
        """Start them; raises the first error of a start when all have ended.

        Those that were started then go on until they are ended.
        """
        starts = [
            self._start_one(host, traits)
            for host, traits in list(self.engines.items())[:n]
        ]
        await gather(starts)
        self.notify_start(list(self.launchers))
        return list(self.launchers)

    async def _start_one(self, host: str, traits: dict[str, Any]) -> None:
        user, _, address = host.rpartition("@")
        name, _, port = address.partition(":")
        launcher = SSHHostLauncher(
            parent=self,
            identifier=host,
            loop=self.loop,
            profile_dir=self.profile_dir,
            cluster_id=self.cluster_id,
            environment=self.environment,
            **traits,
        )
        self.launchers[host] = launcher
        try:
            await asyncio.to_thread(
                launcher.start, user=user or None, hostname=name, port=port or None
            )
        except Exception as error:
            # Now: the starts that go on write into the same file.
            why = tail_of(Path(self.profile_dir).parents[1] / LAUNCH_LOG, 3)
            raise StartFailed(f"{host}: {why or error}") from error


class SlurmJobLauncher(SlurmEngineSetLauncher):  # type: ignore[misc]  # untyped base
    """Submit one job with `n` of Slurm's tasks.

    ipyparallel's own blocks the loop until a busy controller answers.
    """

    def find_args(self) -> list[str]:
        """Return the command."""
        return [*self.submit_command, f"--ntasks={self.n}", self.batch_file]

    async def start(self, n: int) -> str:
        """Submit the job; return its id."""
        return str(await asyncio.to_thread(super().start, n))
