"""Which tasks wait for each other, and whether that will ever end.

Pure. A task waits for one message of one other task, so the answer is exact: follow the
waits, from task to task. They end at a task that runs, at one that has ended, or they
run in a circle. A task reports what it sends before it reports its next wait, so a
message on its way is never overlooked.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from kit.puzzles.events import Ended, Event, Failed, Received, Sent, WaitBegan


class Waits:
    """What the tasks of a run wait for, from their reports.

    >>> waits = Waits(2)
    >>> waits.take(0, WaitBegan(1, "x"))
    >>> waits.stuck()
    {}
    >>> waits.take(1, WaitBegan(0, "y"))
    >>> waits.stuck()
    {0: (0, 1, 0), 1: (1, 0, 1)}
    """

    def __init__(self, n: int) -> None:
        self.waiting: dict[int, WaitBegan] = {}
        self.ended: set[int] = set()
        # A count is below 0 while the receiver's report has been read and the sender's
        # has not: they come through two pipes.
        self.on_the_way: defaultdict[tuple[int, int], Counter[str]]
        self.on_the_way = defaultdict(Counter)
        self._n = n

    def take(self, task: int, event: Event) -> None:
        """Note a report; those of one task come in order."""
        match event:
            case Sent():
                self.on_the_way[task, event.to][event.name] += 1
            case Received():
                self.waiting.pop(task, None)
                self.on_the_way[event.source, task][event.name] -= 1
            case WaitBegan():
                self.waiting[task] = event
            case Ended() | Failed():
                self.waiting.pop(task, None)
                self.ended.add(task)

    @property
    def is_quiet(self) -> bool:
        """Whether no task will report anything more."""
        return len(self.ended) + len(self.stuck()) == self._n

    def stuck(self) -> dict[int, tuple[int, ...]]:
        """Return the tasks that wait for ever, each with the chain of waits behind it.

        In a chain each task waits for the next. It ends at a task that has ended, or at
        one that is in it already.
        """
        ways = {task: self._way(task) for task in self.waiting}
        return {task: way for task, way in ways.items() if way}

    def _way(self, task: int) -> tuple[int, ...]:
        way = [task]
        while (last := way[-1]) in self.waiting:
            wanted = self.waiting[last]
            there = self.on_the_way[wanted.source, last]
            counts = (there[wanted.name],) if wanted.name else there.values()
            if max(counts, default=0) > 0:
                return ()
            way.append(wanted.source)
            if wanted.source in way[:-1]:
                return tuple(way)
        return tuple(way) if last in self.ended else ()
