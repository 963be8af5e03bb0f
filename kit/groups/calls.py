"""One call of a group: what must be the same on all tasks, and what differed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

_MOST_LIKE = 200  # characters of a description in an error


def digest(text: str) -> int:
    """Return 62 bits of a text, the same in all processes.

    >>> digest("barrier()") == digest("barrier()"), digest("a") == digest("b")
    (True, False)
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 2


@dataclass(frozen=True)
class Signature:
    """What is compared: function, arguments, and what kind of value it has.

    `like` may differ between tasks where each may give its own, as in a gather.
    """

    what: str
    like: str = ""
    options: tuple[tuple[str, object], ...] = ()

    @cached_property
    def text(self) -> str:
        """How errors show it: `all_reduce(float32[10], op='sum')`."""
        like = self.like
        if len(like) > _MOST_LIKE:
            like = f"{like[:_MOST_LIKE]}..."
        arguments = [like] if like else []
        arguments += [f"{name}={value!r}" for name, value in self.options]
        return f"{self.what}({', '.join(arguments)})"

    @cached_property
    def strict(self) -> str:
        """Everything."""
        return f"{self.what}|{self.like}|{self.options}"

    @cached_property
    def digests(self) -> tuple[int, int]:
        """What is compared: of everything, and of everything but the value."""
        return digest(self.strict), digest(f"{self.what}|{self.options}")


@lru_cache(1000)  # a loop makes the same few calls
def signature_of(
    what: str, like: str = "", options: tuple[tuple[str, object], ...] = ()
) -> Signature:
    """Return the signature of a call."""
    return Signature(what, like, options)


@dataclass(frozen=True)
class CallSeen:
    """Where a task is in a call: what `group.look` says of it."""

    text: str
    line: str

    @property
    def words(self) -> str:
        """The call and its line."""
        return f"{self.text} at {self.line}" if self.line else self.text


def numbered(number: int, generation: int) -> str:
    """Return what errors call a collective; calls are counted anew after a failure.

    >>> numbered(7, generation=0), numbered(1, generation=2)
    ('call 7', 'call 1 after the last failure')
    """
    return f"call {number}{' after the last failure' if generation else ''}"


def differ(call: str, calls: Mapping[str, CallSeen]) -> str:
    """Return the sentence for calls that do not agree, by task.

    >>> barrier = CallSeen("barrier()", "a.py, line 3")
    >>> other = CallSeen("broadcast(root=0)", "")
    >>> seen = {"worker:0": barrier, "worker:1": barrier, "worker:2": other}
    >>> differ("call 7", seen)[:72]
    'call 7: worker:0, worker:1 are in barrier() at a.py, line 3; worker:2 is'
    """
    by_words: dict[str, list[str]] = {}
    for task, seen in calls.items():
        by_words.setdefault(seen.words, []).append(task)
    parts = [
        f"{', '.join(tasks)} {'is' if len(tasks) == 1 else 'are'} in {words}"
        for words, tasks in by_words.items()
    ]
    return (
        f"{call}: {'; '.join(parts)}. No byte has moved. All tasks of a group "
        f"make the same calls in the same order."
    )


@dataclass(frozen=True)
class Waiting:
    """What a task waits for: all of `tasks`, or, of a message from anyone, any."""

    tasks: tuple[int, ...]
    any_will_do: bool = False


def stuck(waits: Sequence[Waiting | None]) -> tuple[int, ...]:
    """Return the tasks that wait for each other for ever; None is one that works.

    >>> stuck([Waiting((1,)), Waiting((0,)), None])
    (0, 1)
    >>> stuck([Waiting((1, 2), any_will_do=True), Waiting((0,)), None])
    ()
    """
    left = {task for task, wait in enumerate(waits) if wait is not None}
    is_changed = True
    while is_changed:
        is_changed = False
        for task in sorted(left):
            wait = waits[task]
            assert wait is not None
            hopeless = [item in left for item in wait.tasks]
            is_stuck = all(hopeless) if wait.any_will_do else any(hopeless)
            if not is_stuck or not hopeless:
                left.discard(task)
                is_changed = True
    return tuple(sorted(left))
