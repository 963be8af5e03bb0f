"""Exchange what is ready beside the rest of the computation.

A thread of its own sums up buckets in their order, as they become ready, while the
worker's thread computes: numpy releases the interpreter during both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Overlap:
    """Runs `reduce(bucket)` for one bucket after the other, as they are ready."""

    def __init__(
        self, reduce: Callable[[int], None], n_buckets: int, name: str
    ) -> None:
        """Start the thread."""
        self._reduce, self._n_buckets = reduce, n_buckets
        self._ready: SimpleQueue[int | None] = SimpleQueue()
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ready(self, bucket: int) -> None:
        """Say that a bucket's gradients are complete."""
        self._ready.put(bucket)

    def finish(self, deadline_s: float) -> None:
        """Wait until all buckets of the step are summed up; raises what failed."""
        if not self._done.wait(deadline_s):
            raise TimeoutError(f"the exchange thread did not end in {deadline_s:g} s")
        self._done.clear()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread; a wait inside it must have been aborted before."""
        self._ready.put(None)
        self._thread.join()

    def _run(self) -> None:
        waiting: set[int] = set()
        following = 0
        while (bucket := self._ready.get()) is not None:
            waiting.add(bucket)
            try:
                while following in waiting:
                    waiting.discard(following)
                    self._reduce(following)
                    following += 1
            except BaseException as error:
                self._error = error
                self._done.set()
                return
            if following == self._n_buckets:
                following = 0
                self._done.set()
