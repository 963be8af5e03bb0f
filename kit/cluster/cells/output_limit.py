"""How much of what a task prints goes to the notebook: a bounded part of each request.

Pure. The beginning goes as it comes; of the rest, only the end is kept, and goes when
the request is over, with a line before it that says how much is left out.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

MOST: Final = 1 << 20  # characters of a request that go as they come
TAIL: Final = 16 << 10  # and of its end
_REQUESTS: Final = 64  # remembered: threads of some may print in turn


@dataclass
class _Printed:
    gone: int = 0
    left_out: int = 0  # with the tail
    tail: str = ""


class OutputLimit:
    """What each request has printed so far.

    >>> limit = OutputLimit(most=6, tail=3)
    >>> limit.take("a", "begin")
    'begin'
    >>> limit.take("a", "12345").splitlines()[0], limit.take("a", "the end")
    ('1', '')
    >>> limit.finish("a").splitlines()[1:]
    ['[8 characters are left out here.]', 'end']
    >>> limit.finish("a")
    ''
    """

    def __init__(self, most: int = MOST, tail: int = TAIL) -> None:
        self._most, self._tail = most, tail
        self._printed: OrderedDict[str, _Printed] = OrderedDict()

    def take(self, request: str, text: str) -> str:
        """Return what of a text goes to the notebook now."""
        printed = self._of(request)
        room = self._most - printed.gone
        if len(text) <= room:
            printed.gone += len(text)
            return text
        is_first, printed.gone = room > 0 or not printed.left_out, self._most
        shown, rest = text[:room], text[room:]
        printed.left_out += len(rest)
        printed.tail = (printed.tail + rest[-self._tail :])[-self._tail :]
        return f"{shown}\n{self._explained}\n" if is_first else shown

    def finish(self, request: str) -> str:
        """Return what goes at the end of a request; empty if all has gone."""
        printed = self._printed.get(request)
        if printed is None or not printed.left_out:
            return ""
        left_out, tail = printed.left_out - len(printed.tail), printed.tail
        printed.left_out, printed.tail = 0, ""
        printed.gone -= self._tail  # for what is still on its way through a pipe
        return f"\n[{left_out:,} characters are left out here.]\n{tail}"

    @property
    def _explained(self) -> str:
        return (
            f"[This has printed more than {self._most:,} characters. Of the rest, only "
            f"the end is sent to the notebook, when all is done.]"
        )

    def _of(self, request: str) -> _Printed:
        if request not in self._printed:
            self._printed[request] = _Printed()
            if len(self._printed) > _REQUESTS:
                self._printed.popitem(last=False)
        return self._printed[request]
