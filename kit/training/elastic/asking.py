"""How several processes are asked at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any, Final

from kit.errors import DeadlineExceededError, KitError

_MOMENT_S: Final = 0.2
Told = Mapping[str, dict[str, Any] | KitError]


def ask_all(
    processes: Iterable[str],
    ask: Callable[[str], dict[str, Any]],
    is_enough: Callable[[Told], bool] = lambda _: False,
) -> dict[str, dict[str, Any] | KitError]:
    """Ask processes side by side; what one fails with is its answer.

    As soon as what was told `is_enough`, those that are stopped or unreachable get only
    a moment more, then the answer `DeadlineExceededError`.
    """

    def told_by(process: str) -> dict[str, Any] | KitError:
        try:
            return ask(process)
        except KitError as error:
            return error

    wanted = list(processes)
    pool = ThreadPoolExecutor(len(wanted) or 1)
    asked = {pool.submit(told_by, process): process for process in wanted}
    told: dict[str, dict[str, Any] | KitError] = {}
    waiting = set(asked)
    while waiting:
        moment = _MOMENT_S if is_enough(told) else None
        done, waiting = wait(waiting, moment, FIRST_COMPLETED)
        told |= {asked[one]: one.result() for one in done}
        if not done:
            text = "it did not answer as soon as the others."
            late = {asked[one]: DeadlineExceededError(text) for one in waiting}
            told, waiting = told | late, set()
    pool.shutdown(wait=False)
    return told
