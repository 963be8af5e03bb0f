"""What a member asks again because the answer was lost on a cut line changes nothing.

Each case is a question; before it, what the training has come to; and after it, what
others do until it is heard the second time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.checkpoint import Piece, write_shard
from kit.errors import KitError, PeerLost, StepFailed, to_plain
from kit.exchange.layout import Spec
from kit.task import Task
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job
from kit.training.core.terms import terms_of
from kit.wire.message import pack_text
from tests.training.jobs import Asked, made

TASKS = (Task("ps", 0), *(Task("worker", number) for number in range(3)))
EVERYBODY = range(len(TASKS))
ASKER = 3  # the last worker
KEY = (5, 1)
Act = Callable[["Coordinator"], None]


class Coordinator:
    """Answers as the first worker of a training does, which goes on without one."""

    def __init__(self, folder: Path) -> None:
        self.job = made(
            tasks=TASKS,
            specs=(Spec("w", (3,), "float32"),),
            optimizer=kit.GradientDescent(0.1),
            steps=100,
            batch=9,
            aggregate=2,
            checkpoints=kit.Checkpoints(str(folder), every_steps=0),
        )
        self.coordinator = TrainingCoordinator(self.job, clock=lambda: 0.0)
        self._asked = Asked(self.coordinator, self.job)

    def hear(self, op: str, member: int = ASKER, **values: Any) -> Any:
        """Answer a question as a link would carry it; an error is an answer too."""
        try:
            return self._asked.ask(op, member, **values)
        except KitError as error:
            return to_plain(error)

    def begin_save(self) -> None:
        save_coordinator = self.coordinator.save_coordinator
        assert save_coordinator.begin(KEY, 1, True, (ASKER,))
        save_coordinator.open(KEY)

    def entry(self) -> bytes:
        draft = Path(self.coordinator.save_coordinator.where(KEY).path)
        piece = Piece("w", "float32", (3,), 0, np.zeros(3, np.float32))
        return pack_text(write_shard(draft / "a.safetensors", [piece]).to_plain())


def after(*acts: Act) -> Act:
    """Do one after the other."""

    def act(on: Coordinator) -> None:
        for act in acts:
            act(on)

    return act


def asked(op: str, member: int, **values: Any) -> Act:
    return lambda on: on.hear(op, member, **values)


def others_arrive(number: int, step: int) -> Act:
    others = sorted(set(EVERYBODY) - {ASKER})
    return after(
        *(asked("run.arrive", other, number=number, step=step) for other in others)
    )


def others_prepare(number: int, why: str | None = None) -> Act:
    others = sorted(set(EVERYBODY) - {ASKER})
    return after(
        *(asked("run.prepared", other, number=number, refusal=why) for other in others)
    )


def arrive(number: int, step: int) -> Act:
    mine = asked("run.arrive", ASKER, number=number, step=step)
    return after(others_arrive(number, step), mine)


def request(what: str, **values: Any) -> Act:
    return asked("run.command", ASKER, what=what, values=values)


def conclude(on: Coordinator) -> None:
    on.coordinator.save_coordinator.conclude(KEY, lambda: False)


def written(on: Coordinator) -> None:
    on.hear("run.wrote", key=KEY, wrong="", blob=on.entry())
    conclude(on)


def lost(member: int) -> Act:
    return lambda on: on.coordinator.gone(member, "silence")


def nothing(_: Coordinator) -> None:
    """Nobody does anything."""


begun = after(
    *(arrive(0, 0), others_prepare(0)),
    asked("run.prepared", ASKER, number=0, refusal=None),
)
asked_to_prepare = after(begun, request("configure", link="1gbit"), arrive(1, 5))
paused = after(begun, request("pause"), others_arrive(1, 5))
saving = after(begun, Coordinator.begin_save)


@dataclass(frozen=True)
class Case:
    op: str
    values: Mapping[str, Any]
    before: Act = begun
    meanwhile: Act = nothing


GONE = to_plain(PeerLost("it closed its link", task=str(TASKS[0]), step=7))
MISTAKE = to_plain(StepFailed("a mistake of mine", task=str(TASKS[ASKER])))
DIGESTS = [[1, 5, -1, [[0, 77]]]]
READY = {"number": 1, "refusal": None}
ARRIVED = {"number": 1, "step": 5}
WRITTEN, UNWRITTEN = {"key": KEY, "wrong": ""}, {"key": KEY, "wrong": "no space"}
SAVE = {"what": "save", "values": {"ticket": "mine"}}
CASES = {
    "arrived at the start": Case("run.arrive", {"number": 0, "step": 0}, nothing),
    "arrived first": Case("run.arrive", ARRIVED),
    "arrived last": Case("run.arrive", ARRIVED, after(begun, others_arrive(1, 5))),
    "arrived, and others have gone on": Case(
        *("run.arrive", ARRIVED, begun), after(others_arrive(1, 5), others_arrive(2, 6))
    ),
    "arrived at a pause": Case("run.arrive", ARRIVED, paused),
    "arrived at a pause that is over": Case(
        *("run.arrive", ARRIVED, paused), after(request("resume"), others_arrive(1, 5))
    ),
    "arrived at a pause for one more step": Case(
        *("run.arrive", ARRIVED, paused),
        after(request("pause", steps=1), others_arrive(1, 5)),
    ),
    "arrived, and a change is prepared": Case(
        *("run.arrive", ARRIVED, begun),
        after(
            *(request("configure", link="1gbit"), others_arrive(1, 5)),
            others_prepare(1),
        ),
    ),
    "arrived to save": Case(
        *("run.arrive", ARRIVED, begun),
        after(request("save", ticket="mine"), others_arrive(1, 5)),
    ),
    "arrived at the end": Case(
        *("run.arrive", {"number": 1, "step": 100}, after(begun, request("stop"))),
        after(others_arrive(1, 100), *(asked("run.leave", item) for item in (0, 2))),
    ),
    "ready first": Case("run.prepared", READY, asked_to_prepare),
    "ready, and others have gone on": Case(
        *("run.prepared", READY, asked_to_prepare),
        after(others_prepare(1), others_arrive(2, 6)),
    ),
    "ready, and others were not": Case(
        *("run.prepared", READY, asked_to_prepare),
        after(others_prepare(1, "no room"), others_arrive(2, 6)),
    ),
    "not ready": Case(
        *("run.prepared", {"number": 1, "refusal": "no room"}, asked_to_prepare),
        others_prepare(1),
    ),
    "failed": Case("run.fail", {"error": MISTAKE}),
    "lost another": Case("run.fail", {"error": GONE}),
    "lost another, which is gone": Case("run.fail", {"error": GONE}, begun, lost(0)),
    "lost another, which lost it": Case(
        *("run.fail", {"error": GONE}, begun),
        asked("run.fail", 0, error=GONE | {"task": str(TASKS[ASKER])}),
    ),
    "left": Case("run.leave", {}, after(begun, request("stop"), arrive(1, 5))),
    "lives": Case("run.beat", {"digests": DIGESTS}),
    "lives, and others tell the same": Case(
        *("run.beat", {"digests": DIGESTS}, begun),
        after(*(asked("run.beat", item, digests=DIGESTS) for item in (0, 1, 2))),
    ),
    "asks where to write": Case("run.where", {"key": KEY}, saving),
    "sends a block": Case("run.collect", {"key": KEY, "offset": 0}, saving),
    "sends a block, and the next one came": Case(
        *("run.collect", {"key": KEY, "offset": 0}, saving),
        asked("run.collect", ASKER, key=KEY, offset=5, blob=b"more"),
    ),
    "has written": Case("run.wrote", WRITTEN, saving),
    "has written, and it is a checkpoint": Case("run.wrote", WRITTEN, saving, conclude),
    "cannot write": Case("run.wrote", UNWRITTEN, saving),
    "cannot write, and the save is over": Case(
        "run.wrote", UNWRITTEN, saving, conclude
    ),
    "cannot write, before others begin to": Case("run.wrote", UNWRITTEN),
    "joins": Case("run.join", {}, nothing),
    "requests for another configuration": Case(
        "run.command", {"what": "configure", "values": {"link": "1gbit"}}
    ),
    "requests for one later": Case(
        "run.command", {"what": "configure", "values": {"link": "1gbit", "at": 50}}
    ),
    "requests for a pause": Case("run.command", {"what": "pause"}),
    "requests for steps": Case(
        "run.command", {"what": "pause", "values": {"steps": 3}}
    ),
    "requests to go on": Case("run.command", {"what": "resume"}, paused),
    "requests for the end": Case("run.command", {"what": "stop"}),
    "requests for a save": Case("run.command", SAVE),
    "requests for a save, which is written": Case(
        *("run.command", SAVE, begun),
        after(arrive(1, 5), Coordinator.begin_save, written),
    ),
}


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Coordinator]:
    result = Coordinator(tmp_path)
    yield result
    assert result.coordinator.store is not None
    result.coordinator.store.close()


def state_of(thing: Any) -> Any:
    """Return all that a coordinator knows, as plain data that can be compared."""
    if isinstance(thing, Job | Path | Enum | np.ndarray) or callable(thing):
        return None
    if isinstance(thing, KitError):
        return to_plain(thing)
    if isinstance(thing, Mapping):
        return {repr(name): state_of(value) for name, value in thing.items()}
    if isinstance(thing, set | frozenset):
        return sorted(map(repr, thing))
    if isinstance(thing, list | tuple | deque):
        return [state_of(item) for item in thing]
    if isinstance(thing, threading.Condition) or not hasattr(thing, "__dict__"):
        return repr(thing) if isinstance(thing, str | int | float) else None
    return {name: state_of(value) for name, value in vars(thing).items()}


@pytest.mark.parametrize("name", CASES)
def test_question_that_is_heard_twice_changes_nothing_the_second_time(
    on: Coordinator, name: str
) -> None:
    case = CASES[name]
    case.before(on)
    inputs = dict(case.values)
    if case.op == "run.join":
        inputs["terms"] = terms_of(on.job)
    if case.op == "run.collect":
        inputs["blob"] = b"block"
    if case.op == "run.wrote" and not inputs["wrong"]:
        inputs["blob"] = on.entry()
    first = on.hear(case.op, **inputs)
    case.meanwhile(on)
    before = state_of(on.coordinator)

    second = on.hear(case.op, **inputs)

    assert isinstance(second, tuple), second
    assert state_of(on.coordinator) == before
    assert on.hear(case.op, **inputs) == second
    if case.meanwhile is nothing:
        assert second == first
