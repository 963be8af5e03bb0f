"""Servers of one cluster in this process, each with its program in a thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import kit
from kit.errors import KitError
from kit.wire.handshake.credentials import Credentials
from tests.server.ports import spec_of
from tests.training import toy

Program = Callable[[kit.Server], Any]
MakeStage = Callable[..., "Stage"]


class Stage:
    """Starts servers of one cluster, each with its program in a thread."""

    def __init__(
        self,
        folder: Path,
        credentials: Credentials,
        n_ps: int,
        n_workers: int,
        **changes: Any,
    ) -> None:
        self.spec = spec_of(n_ps, n_workers)
        self._credentials = credentials
        options = {"heartbeat_s": 0.05, "start_deadline_s": 10.0} | changes
        self.settings = kit.Settings(runtime_dir=str(folder), **options)
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

    def begin(self, *programs: Program) -> list[Future[Any]]:
        """Start all servers, and each worker its program: one for all, or its own."""
        for index, _ in enumerate(self.spec["ps"]):
            self.server("ps", index)
        workers = [self.server("worker", n) for n, _ in enumerate(self.spec["worker"])]
        each = programs if len(programs) > 1 else programs * len(workers)
        return [self.play(*pair) for pair in zip(workers, each, strict=True)]

    def results(self, program: Program) -> list[Any]:
        """Return what the program of each worker returns."""
        return [outcome.result(60) for outcome in self.begin(program)]

    def close(self) -> None:
        self._pool.shutdown()
        self._stack.close()


def program(steps: int = 6, step: Any = toy.fit, **changes: Any) -> Program:
    """Return a program that trains the toy to its end."""
    return lambda server: toy.begin(server, step, steps=steps, **changes).wait(10)


def in_turn(*programs: Program) -> Program:
    """Return a program that performs some, one after the other."""
    return lambda server: [each(server) for each in programs]


def error_of(outcome: Future[Any]) -> KitError:
    error = outcome.exception(20)
    assert isinstance(error, KitError), error
    return error
