"""A group whose tasks are servers in this process, each with a program in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import kit
from kit.settings import settings
from kit.testing.cluster import LocalCluster, local_cluster

Program = Callable[[kit.Group], Any]
QUICK: dict[str, Any] = {"heartbeat_s": 0.1, "suspect_after_s": 0.3, "dead_after_s": 2}


class Scene:
    """Servers, and a thread for each that runs programs."""

    def __init__(self, cluster: LocalCluster, **options: Any) -> None:
        self.cluster = cluster
        self.pool = ThreadPoolExecutor(len(cluster.servers))
        options = {"timeout_s": 20.0, **options}
        self.groups = [kit.group(cluster=s, **options) for s in cluster.servers]

    def begin(self, *programs: Program) -> list[Future[Any]]:
        """Begin a program on each task: one for all, or one for each."""
        n = len(self.groups)
        each = programs if len(programs) == n else programs * n
        pairs = zip(each, self.groups, strict=True)
        return [self.pool.submit(program, group) for program, group in pairs]

    def play(self, *programs: Program) -> list[Any]:
        """Return the results of programs that all end well."""
        return [future.result(60) for future in self.begin(*programs)]

    def errors(self, *programs: Program) -> list[BaseException | None]:
        """Return what the programs raise."""
        return [future.exception(60) for future in self.begin(*programs)]


@contextmanager
def scene(
    n: int, *, values: dict[str, Any] | None = None, **options: Any
) -> Iterator[Scene]:
    """Give a group of n tasks, with `values` of settings."""
    with settings(**QUICK, **(values or {})), local_cluster(0, n) as cluster:
        result = Scene(cluster, **options)
        try:
            yield result
        finally:
            for group in result.groups:
                group.close()
            result.pool.shutdown()
