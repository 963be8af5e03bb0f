"""How several processes are asked at the same time, and how it is decided what.

A coroutine, here a generator, decides what to ask of whom: it yields `Ask` or `Pause`,
and is sent the answers. Its driver has the links, the threads and the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final, NamedTuple, TypeVar

from kit.errors import DeadlineExceededError, KitError

_MOMENT_S: Final = 0.2
Told = Mapping[str, dict[str, Any] | KitError]
#: By process, the questions that it has not answered yet.
Unanswered = dict[str, Future[dict[str, Any] | KitError]]


class Ask(NamedTuple):
    """Asks processes at the same time; see `ask_all`, whose answers it is sent."""

    processes: Iterable[str]
    op: str
    values: dict[str, Any]
    is_enough: Callable[[Told], bool] = lambda _: False
    limit_s: float = 0.0  # as long as a step may take
    moment_s: float = _MOMENT_S


class Pause(NamedTuple):
    """Waits until something holds, but not for longer; it is sent nothing."""

    until: Callable[[], bool]
    limit_s: float


_T = TypeVar("_T")
Coroutine = Generator[Ask | Pause, Told, _T]


def ask_one(
    process: str, op: str, values: dict[str, Any], limit_s: float = 0.0
) -> Coroutine[dict[str, Any]]:
    """Ask one process; raises what it fails with."""
    reply = (yield Ask([process], op, values, limit_s=limit_s))[process]
    if isinstance(reply, KitError):
        raise reply
    return reply


def ask_all(
    processes: Iterable[str],
    ask: Callable[[str], dict[str, Any]],
    is_enough: Callable[[Told], bool] = lambda _: False,
    moment_s: float = _MOMENT_S,
    *,
    unanswered: Unanswered | None = None,
) -> dict[str, dict[str, Any] | KitError]:
    """Ask processes side by side; what one fails with is its answer.

    As soon as the answers are enough (`is_enough`), those that are stopped or
    unreachable get only a moment more, `moment_s`, then `DeadlineExceededError` as
    their answer. A caller that asks the same again and again keeps the open questions
    in `unanswered`: they are waited for, and not asked once more, since each question
    has a thread and dials for seconds.
    """

    def answer_of(process: str) -> dict[str, Any] | KitError:
        try:
            return ask(process)
        except KitError as error:
            return error

    wanted = list(processes)
    kept = {} if unanswered is None else unanswered
    pool = ThreadPoolExecutor(len(wanted) or 1)
    asked = {
        kept.pop(process)
        if process in kept
        else pool.submit(answer_of, process): process
        for process in wanted
    }
    replies: dict[str, dict[str, Any] | KitError] = {}
    waiting = set(asked)
    try:
        while waiting:
            moment = moment_s if is_enough(replies) else None
            done, waiting = wait(waiting, moment, FIRST_COMPLETED)
            replies |= {asked[future]: future.result() for future in done}
            if not done:
                text = "it did not answer as soon as the others."
                late = {
                    asked[future]: DeadlineExceededError(text) for future in waiting
                }
                kept |= {asked[future]: future for future in waiting}
                replies, waiting = replies | late, set()
    finally:
        pool.shutdown(wait=False)  # a stopped process would keep us for its deadline
    return replies
