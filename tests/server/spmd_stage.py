"""Servers of one cluster in this process, each with its program in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import kit
from kit.errors import KitError
from kit.wire.handshake.credentials import Credentials
from tests.server.ports import spec_of
from tests.training.toy import BATCH, DATA, fit, initial

Program = Callable[[kit.Server], Any]


class Stage:
    """Starts servers of one cluster, each with its program in a thread."""

    def __init__(
        self, folder: Path, credentials: Credentials, n_ps: int, n_workers: int
    ) -> None:
        self.spec = spec_of(n_ps, n_workers)
        self._credentials = credentials
        self.settings = kit.Settings(
            runtime_dir=str(folder), heartbeat_s=0.05, start_deadline_s=10.0
        )
        self._stack = ExitStack()
        self._pool = ThreadPoolExecutor(n_workers, thread_name_prefix="program")

    def server(self, job: str, index: int) -> kit.Server:
        server = kit.Server(
            self.spec, job, index, credentials=self._credentials, settings=self.settings
        )
        return self._stack.enter_context(server)

    def play(self, server: kit.Server, program: Program) -> Future[Any]:
        def perform() -> Any:
            with kit.settings(**self.settings.as_plain()):
                return program(server)

        return self._pool.submit(perform)

    def close(self) -> None:
        self._pool.shutdown()
        self._stack.close()


@contextmanager
def stage(
    folder: Path, credentials: Credentials, n_ps: int = 2, n_workers: int = 2
) -> Iterator[Stage]:
    """Give a stage, and take it down at the end."""
    result = Stage(folder, credentials, n_ps, n_workers)
    try:
        yield result
    finally:
        result.close()


def program(steps: int = 6, step: Any = fit, **changes: Any) -> Program:
    def begin_and_wait(server: kit.Server) -> kit.Run:
        options: dict[str, Any] = {"steps": steps, "batch": BATCH, **changes}
        run = kit.train(step, initial(), DATA, cluster=server, **options)
        return run.wait(10)

    return begin_and_wait


def error_of(outcome: Future[Any]) -> KitError:
    error = outcome.exception(20)
    assert isinstance(error, KitError), error
    return error
