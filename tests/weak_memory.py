"""All that can come of programs over shared memory, on processors that keep no order.

A model of processors where a store is seen by all others at once (ARMv8, RISC-V, x86):
each performs its accesses one at a time, in an order of its choice. It may choose any
in which no access passes an earlier one to the same word, a fence, or what `Memory`
says that it keeps in order. All choices are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

Word = str
State = tuple[tuple[Word, int], ...]


class Do(Enum):
    """The kinds of accesses; `PUBLISH` and `ACQUIRE` as C11 has them."""

    STORE, PUBLISH, LOAD, ACQUIRE, FENCE = range(5)


STORES = {Do.STORE, Do.PUBLISH}


class Access(NamedTuple):
    """One access; `value` is stored, or is what a load has to find on this path."""

    do: Do
    word: Word = ""
    value: int = 0


Memory = Callable[[Access, Access], bool]  # whether the second may pass the first


def arm(first: Access, second: Access) -> bool:
    """Let all pass that names another word, but for what C11 forbids."""
    return first.do is not Do.ACQUIRE and second.do is not Do.PUBLISH


def x86(first: Access, second: Access) -> bool:
    """Let loads pass stores alone."""
    return first.do in STORES and second.do not in STORES


def is_possible(
    programs: Sequence[Sequence[Access]], memory: Memory, **words: int
) -> bool:
    """Whether the programs can end with each load having found its value.

    `words` are what the memory holds at first; all others hold 0.
    """
    seen: set[tuple[State, tuple[frozenset[int], ...]]] = set()
    begin: tuple[frozenset[int], ...] = (frozenset(),) * len(programs)
    todo = [(tuple(sorted(words.items())), begin)]
    while todo:
        state, done = todo.pop()
        if (state, done) in seen:
            continue
        seen.add((state, done))
        if [*map(len, done)] == [*map(len, programs)]:
            return True
        for number, program in enumerate(programs):
            for index in _next(program, done[number], memory):
                after = _perform(program[index], dict(state))
                if after is not None:
                    ended = done[number] | {index}
                    todo.append((after, (*done[:number], ended, *done[number + 1 :])))
    return False


def _next(
    program: Sequence[Access], done: frozenset[int], memory: Memory
) -> Iterator[int]:
    for index, access in enumerate(program):
        earlier = (program[i] for i in range(index) if i not in done)
        if index not in done and all(
            Do.FENCE not in (first.do, access.do)
            and first.word != access.word
            and memory(first, access)
            for first in earlier
        ):
            yield index


def _perform(access: Access, words: dict[Word, int]) -> State | None:
    if access.do in STORES:
        words[access.word] = access.value
    elif access.do is not Do.FENCE and words.get(access.word, 0) != access.value:
        return None
    return tuple(sorted(words.items()))
