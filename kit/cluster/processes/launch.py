"""Variants of ipyparallel's launchers of engines.

Instead of engines they launch the processes from which engines are forked.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ipyparallel.cluster.launcher import (
    LocalEngineLauncher,
    SSHEngineLauncher,
    SSHEngineSetLauncher,
)


class ForkServerLauncher(LocalEngineLauncher):  # type: ignore[misc]  # untyped base
    """Launch one fork server, which forks all engines of the set."""

    def start(self, n: int) -> None:
        """Start the fork server; the number of engines is in its orders already."""
        self.n = n
        super().start()


class SSHHostLauncher(SSHEngineLauncher):  # type: ignore[misc]  # untyped base
    """Launch one process on one host.

    It does not wait for the end of that process, which would keep an ssh open for the
    cluster's whole life; the controller knows which hosts are there.
    """

    def _start_waiting(self) -> None:
        pass

    def why_ended(self) -> str | None:
        """Return the last words of the process if it has ended, None if not. Blocks."""
        try:
            self.wait_one(timeout=0)
        except TimeoutError:
            return None
        return str(self.get_output())


class SSHHostsLauncher(SSHEngineSetLauncher):  # type: ignore[misc]  # untyped base
    """Launch one process on each of the first `n` hosts, on all at the same time.

    ipyparallel's own starts them one after the other, in some seconds each, and blocks
    the loop meanwhile.
    """

    async def start(self, n: int) -> list[str]:
        """Start them; raises the error of the first start that fails."""
        starts = [
            self._start_one(host, traits)
            for host, traits in list(self.engines.items())[:n]
        ]
        await asyncio.gather(*starts)
        self.notify_start(list(self.launchers))
        return list(self.launchers)

    async def _start_one(self, host: str, traits: dict[str, Any]) -> None:
        user, _, place = host.rpartition("@")
        name, _, port = place.partition(":")
        one = SSHHostLauncher(
            parent=self,
            identifier=host,
            loop=self.loop,
            profile_dir=self.profile_dir,
            cluster_id=self.cluster_id,
            environment=self.environment,
            **traits,
        )
        self.launchers[host] = one
        await asyncio.to_thread(
            one.start, user=user or None, hostname=name, port=port or None
        )
