"""Several processes are asked at the same time, and one of them again and again."""

from __future__ import annotations

import threading
from typing import Any

from kit.errors import DeadlineExceededError
from kit.training.features.elastic.asking import Told, Unanswered, ask_all


def test_a_silent_process_is_asked_once_however_often_the_others_are() -> None:
    speaks, asked = threading.Event(), list[str]()

    def ask(process: str) -> dict[str, Any]:
        asked.append(process)
        if process == "silent":
            assert speaks.wait(10)
        return {"says": process}

    def ask_again(moment_s: float = 0.01) -> dict[str, Any]:
        both = ["silent", "quick"]
        return ask_all(both, ask, has_told, moment_s, unanswered=unanswered)

    def has_told(reply: Told) -> bool:
        return "quick" in reply

    unanswered: Unanswered = {}
    lines = [ask_again() for _ in range(5)]
    speaks.set()
    last = ask_again(10)

    assert all(isinstance(row["silent"], DeadlineExceededError) for row in lines)
    assert last == {name: {"says": name} for name in ("silent", "quick")}
    assert (asked.count("silent"), asked.count("quick")) == (1, 6)
    assert not unanswered
