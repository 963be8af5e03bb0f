"""What a learner's function programs: one task, with its messages and its memory.

    def broadcast(task):
        if task.rank == 0:
            for other in range(1, task.n):
                task.send(task["x"], to=other, name="x")
        else:
            task.keep("x", task.recv(0, name="x"))

Everything is real: the bytes go over a link to another process, and an array counts as
held until Python has freed its memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kit.errors import InvalidArgumentError, NotFoundError
from kit.puzzles.events import (
    Event,
    MemoryFreed,
    MemoryKept,
    Received,
    Sent,
    WaitBegan,
    Worked,
)

Array = NDArray[Any]
Report = Callable[[Event], None]
#: A function that the puzzle offers, and how long a call takes on its clock, in ms.
Piece = tuple[Callable[..., Any], float]


class TaskLinks(Protocol):
    """What a task needs of its links to the others."""

    def send(self, to: int, name: str, number: int, array: Array) -> None:
        """Give an array to a link; it may be changed as soon as this returns."""

    def taken(self, source: int, name: str) -> tuple[str, int, Array] | None:
        """Return the oldest message that has come, of this name if it is not "".

        Its name, its number and its array; None if there is none.
        """

    def wait(self) -> None:
        """Return when another message may have come."""


class PuzzleTask:
    """One task of a puzzle; the learner's function gets it as its argument.

    Attributes
    ----------
    rank, n : int
        Which task this is, from 0, and how many there are.
    name, names : str, tuple of str
        What this task is called, such as "worker:1", and what each task is called.
    """

    def __init__(
        self,
        rank: int,
        names: tuple[str, ...],
        links: TaskLinks,
        pieces: Mapping[str, Piece],
        report: Report,
    ) -> None:
        self.rank, self.n, self.names = rank, len(names), names
        self.name = names[rank]
        self._links, self._pieces, self._report = links, pieces, report
        self._memory = TrackedMemory(report)
        self._kept: dict[str, Array] = {}
        self._n_sent = [0] * self.n

    def send(self, array: Array, to: int, name: str = "") -> None:
        """Send an array to task `to`. Returns at once; the array may change after that.

        Parameters
        ----------
        array : numpy.ndarray
            What to send; each of its bytes is counted once.
        to : int
            The rank of the receiver.
        name : str, optional
            The name by which the receiver can ask for it. Pictures show it too.

        Raises
        ------
        InvalidArgumentError
            It is not an array of numbers, or no other task has this rank.
        """
        what = f"message {name!r}"
        self._check_other(to, f"{self.name} sends {what} to")
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise InvalidArgumentError(
                f"{self.name} sends {what} to {self.names[to]}, which is "
                f"{described(array)} and not an array of numbers; send a numpy array."
            )
        array = np.asarray(
            array
        )  # a class derived from it may say anything of its size
        number = self._n_sent[to]
        self._n_sent[to] += 1
        # Before it is sent, so also before the task reports a wait: see `waiting`.
        self._report(Sent(to, name, array.nbytes, number))
        self._links.send(to, name, number, array)

    def recv(self, source: int, name: str = "") -> Array:
        """Wait for a message from another task and return its array.

        Parameters
        ----------
        source : int
            The rank of the sender.
        name : str, optional
            Take the oldest message of this name and leave all others for later; without
            a name, the oldest that has not been received.

        Raises
        ------
        InvalidArgumentError
            No other task has this rank.

        Returns
        -------
        numpy.ndarray
            The array. It counts as held while anything refers to it.
        """
        self._check_other(source, f"{self.name} waits for message {name!r} from")
        message = self._links.taken(source, name)
        if message is None:
            self._report(WaitBegan(source, name))
            while (message := self._links.taken(source, name)) is None:
                self._links.wait()
        called, number, array = message
        self._report(Received(source, called, array.nbytes, number))
        self._memory.hold(array, called or f"from {self.names[source]}")
        return array

    def keep(self, name: str, array: Array) -> None:
        """Hold an array under a name; `task[name] = array` is the same.

        Parameters
        ----------
        name : str
            The name for `task[name]` and for `free`.
        array : numpy.ndarray
            A view holds the whole array that it is a view of; to hold only a part, keep
            a `.copy()` of the part.

        Raises
        ------
        InvalidArgumentError
            It is not an array.
        """
        if not isinstance(array, np.ndarray):
            raise InvalidArgumentError(
                f"{self.name} keeps {name!r}, which is {described(array)} and not an "
                f"array; keep what recv returns, or a numpy array."
            )
        self._memory.hold(array, name)
        self._kept[name] = array

    def free(self, name: str) -> None:
        """Stop holding an array. A variable that still refers to it goes on holding it.

        Parameters
        ----------
        name : str
            The name under which it was kept.

        Raises
        ------
        NotFoundError
            The task holds nothing of this name.
        """
        self[name]
        del self._kept[name]

    def __getitem__(self, name: str) -> Array:
        """Return what is held under a name; raises `NotFoundError` if nothing is."""
        if name not in self._kept:
            here = ", ".join(repr(item) for item in self._kept) or "nothing"
            raise NotFoundError(
                f"{self.name} holds no {name!r}; it holds {here}. Receive it and "
                f"keep it first."
            )
        return self._kept[name]

    __setitem__ = keep

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return one of the functions that the puzzle hands out."""
        # Not `self._pieces`: before that is set, it would lead here again, without end.
        pieces = self.__dict__.get("_pieces", {})
        if name not in pieces:
            can = ["send", "recv", "keep", "free", *pieces]
            raise AttributeError(f"a task has no {name!r}; it has {', '.join(can)}.")
        function, ms = pieces[name]

        def work(*args: Any, name: str = name) -> Any:
            result = function(*args)
            self._report(Worked(name, ms))
            for value in result if isinstance(result, tuple) else (result,):
                if isinstance(value, np.ndarray):
                    self._memory.hold(value, name)
            return result

        return work

    def _check_other(self, rank: object, doing: str) -> None:
        if isinstance(rank, np.integer):
            rank = int(rank)
        if not isinstance(rank, int) or isinstance(rank, bool):
            raise InvalidArgumentError(
                f"{doing} {described(rank)}; give a rank, from 0 to {self.n - 1}."
            )
        if rank == self.rank:
            raise InvalidArgumentError(f"{doing} itself; give the rank of another one.")
        if not 0 <= rank < self.n:
            raise InvalidArgumentError(
                f"{doing} rank {rank}, and ranks are 0 to {self.n - 1}. The one after "
                f"the last is 0 again with % task.n."
            )


class TrackedMemory:
    """The memory that a task holds: reported when it is taken and when it is freed."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._known: dict[int, tuple[int, weakref.ref[Array]]] = {}
        self._n = 0

    def hold(self, array: Array, name: str) -> None:
        """Count the memory of an array until nobody refers to it any more."""
        # Of views and the array itself the owner counts, once. It is known by its `id`,
        # which can be that of another array only after `_gone`.
        owner = owner_of(array)
        identity = id(owner)
        if identity not in self._known:
            key, self._n = self._n, self._n + 1
            gone = weakref.ref(owner, lambda _: self._gone(identity))
            self._known[identity] = key, gone
        n_bytes = np.asarray(owner).nbytes  # a derived class may say anything
        self._report(MemoryKept(self._known[identity][0], name, n_bytes))

    def _gone(self, identity: int) -> None:
        key, _ = self._known.pop(identity)
        self._report(MemoryFreed(key))


def owner_of(array: Array) -> Array:
    """Return the array whose memory this one uses, itself if it is not a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def described(value: object) -> str:
    """Describe a value in the text of an error.

    >>> described(None), described(3), described(np.float32(3))
    ('None', 'the int 3', 'the float32 3.0')
    """
    if value is None or value is ...:
        return "None" if value is None else "..."
    if isinstance(value, np.ndarray):
        return "an array"
    return f"the {type(value).__name__} {value!s:.40}"
