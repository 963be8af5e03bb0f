"""The processes that play the tasks of puzzles; they serve one try after another.

The near end of `kit.puzzles.process`. They start with the first try and end with this
process, or by `close`. One that does not end its try is killed, and then replaced.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import send_handle
from pathlib import Path
from typing import Any, Final

import cloudpickle

from kit.errors import InvalidArgumentError, PeerLost
from kit.forking import BareProcess, ForkServer
from kit.puzzles.events import Attempt, Ended, Event, Failed, Received, Sent, WaitBegan
from kit.puzzles.process import OVER, Assignment

# --------------------------------------------------------------------------------------
# Which tasks wait for each other, and whether that will ever end.
#
# Pure. A task waits for one message of one other task, so the answer is exact: follow
# the waits, from task to task. They end at a task that runs, at one that has ended, or
# they run in a circle. A task reports what it sends before it reports its next wait, so
# a message on its way is never overlooked.


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


# --------------------------------------------------------------------------------------
# The processes.

_STUCK_S: Final = 1.0  # how long others may go on once a task waits for ever
_END_S: Final = 1.0  # how long a task may take to notice the end of a try


class PuzzleProcesses:
    """As many processes as the largest puzzle has needed so far."""

    def __init__(self) -> None:
        self._forks = ForkServer("kit.puzzles.fork_server")
        self._living: list[_Player] = []

    def run(self, orders: Sequence[Assignment], deadline_s: float) -> Attempt:
        """Play all tasks of a puzzle at once, until all have ended or are stuck.

        Parameters
        ----------
        orders : sequence of Assignment
            What each task has to do, in the order of their ranks.
        deadline_s : float
            When to end tasks that neither end nor wait, in seconds.

        Returns
        -------
        Attempt
            What all tasks did.

        Raises
        ------
        PeerLost
            A process has died, of a lack of memory for example.
        """
        players = self._take(len(orders))
        begin = time.perf_counter()
        attempt = Attempt([[] for _ in orders], [{} for _ in orders])
        try:
            _hand_out(players, orders)
            _watch(players, attempt, begin + deadline_s)
        finally:
            _end(players)
        attempt.seconds = time.perf_counter() - begin
        return attempt

    def close(self) -> None:
        """End all processes; a later try starts new ones."""
        for player in self._living:
            player.kill()
        self._living.clear()
        self._forks.end()

    def _take(self, n: int) -> list[_Player]:
        self._living = [process for process in self._living if process.is_alive]
        while len(self._living) < n:
            self._living.append(_Player(self._forks))
        return self._living[:n]


def packed(program: Callable[[Any], Any]) -> bytes:
    """Return a program as bytes for other processes.

    Raises `InvalidArgumentError` if it refers to something that cannot be pickled.
    """
    try:
        pickled: bytes = cloudpickle.dumps(program)
    except Exception as error:  # a class may refuse with whatever it likes
        raise InvalidArgumentError(
            f"the program refers to something that cannot go to another process: "
            f"{error}. Use what the task gives it, and numpy."
        ) from error
    return pickled


class _Player:
    """One process, and the pipe to it."""

    def __init__(self, forks: ForkServer) -> None:
        with tempfile.TemporaryDirectory(prefix="kit-") as folder:
            self.pipe, theirs = Pipe()
            try:
                with theirs:
                    # Not kept: what a program prints is reported. Only a crash of
                    # Python itself would write here.
                    self._forked: BareProcess = forks.fork(theirs, Path(folder) / "log")
            except BaseException:
                self.pipe.close()
                raise
        self.pipe.send_bytes(cloudpickle.dumps(sys.path))
        self.is_ready = True

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._forked.poll() is None

    def kill(self) -> None:
        """End the process at once."""
        self.pipe.close()
        self._forked.send_signal(9)
        self._forked.wait()


def _hand_out(players: Sequence[_Player], orders: Sequence[Assignment]) -> None:
    """Give each process its assignment, and one end of a link to each of the others."""
    n = len(players)
    ends: dict[tuple[int, int], Connection] = {}
    for low in range(n):
        for high in range(low + 1, n):
            ends[low, high], ends[high, low] = Pipe()
    try:
        for rank, (player, order) in enumerate(zip(players, orders, strict=True)):
            player.is_ready = False
            with _named(rank):
                player.pipe.send_bytes(cloudpickle.dumps(order))
                for other in range(n):
                    if other != rank:
                        send_handle(player.pipe, ends[rank, other].fileno(), None)
    finally:
        # A copy here would keep a link open when the process at its end has died.
        for end in ends.values():
            end.close()


def _watch(players: Sequence[_Player], attempt: Attempt, deadline: float) -> None:
    """Take in what the tasks report until nothing more will come."""
    waits = Waits(len(players))
    rank_of = {player.pipe: rank for rank, player in enumerate(players)}
    while not waits.is_quiet:
        now = time.perf_counter()
        ready = wait(list(rank_of), max(0.0, deadline - now))
        if not ready:
            break
        for pipe in ready:
            assert isinstance(pipe, Connection)
            with _named(rank := rank_of[pipe]):
                event, result = cloudpickle.loads(pipe.recv_bytes())
            _note(attempt, rank, event, result)
            waits.take(rank, event)
        if waits.stuck():
            # Nothing can save the try now; the others may still say what they do.
            deadline = min(deadline, now + _STUCK_S)
    attempt.stuck = waits.stuck()
    done = waits.ended | attempt.stuck.keys()
    attempt.busy = tuple(rank for rank in rank_of.values() if rank not in done)


@contextmanager
def _named(rank: int) -> Iterator[None]:
    """Name the task whose process has died, if one has."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise PeerLost(
            f"the process of task {rank} has died, perhaps of a lack of memory; the "
            f"next try has another one."
        ) from error


def _note(attempt: Attempt, rank: int, event: Event, result: Any) -> None:
    log = attempt.logs[rank]
    if log and isinstance(log[-1], WaitBegan):
        log.pop()  # that it had to wait is chance: the clock says whether and how long
    log.append(event)
    if isinstance(event, Ended | Failed):
        attempt.results[rank] = result or {}


def _end(players: Sequence[_Player]) -> None:
    """End the try for all; a process that does not notice is killed."""
    # To all first, so that they end at the same time.
    for player in players:
        with suppress(OSError):
            player.pipe.send_bytes(OVER)
    deadline = time.perf_counter() + _END_S
    for player in players:
        with suppress(EOFError, OSError):
            while not player.is_ready and player.pipe.poll(
                max(0.0, deadline - time.perf_counter())
            ):
                player.is_ready = cloudpickle.loads(player.pipe.recv_bytes())[0] is None
        if not player.is_ready:
            player.kill()
