"""Who waits for whom, and whether that will ever end.

Pure. A task waits for one message of one other task, so the answer is exact: follow the
waits, from task to task. They end at one that goes on by itself, at one that has ended,
or they run in a circle. All that a task has sent is known before its next wait is, so
a message on its way is never overlooked.
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
        # Below 0 for a moment where the receiver's report is read before the sender's.
        self.on_the_way: defaultdict[tuple[int, int], Counter[str]]
        self.on_the_way = defaultdict(Counter)
        self._n = n

    def take(self, task: int, event: Event) -> None:
        """Take note of a report; those of a task come in their order."""
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
        """Whether no task will report anything more by itself."""
        return len(self.ended) + len(self.stuck()) == self._n

    def stuck(self) -> dict[int, tuple[int, ...]]:
        """Return the tasks that wait for ever, each with its way to the reason.

        A way is from task to task, as each waits for the next. It ends at one that has
        ended, or where it has been before.
        """
        ways = {task: self._way(task) for task in self.waiting}
        return {task: way for task, way in ways.items() if way}

    def _way(self, task: int) -> tuple[int, ...]:
        way = [task]
        while (last := way[-1]) in self.waiting:
            wanted = self.waiting[last]
            there = self.on_the_way[wanted.source, last]
            if there[wanted.name] > 0 or (not wanted.name and max_of(there) > 0):
                return ()
            way.append(wanted.source)
            if wanted.source in way[:-1]:
                return tuple(way)
        return tuple(way) if last in self.ended else ()


def max_of(counts: Counter[str]) -> int:
    """Return the highest count, 0 for none."""
    return max(counts.values(), default=0)
