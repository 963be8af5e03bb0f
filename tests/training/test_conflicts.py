"""Options that contradict each other are refused, each pair in its own sentence."""

from __future__ import annotations

from typing import Any

import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.exchange.layout import Spec
from kit.exchange.topologies import topology
from kit.exchange.topologies.ps import ParameterServer
from kit.exchange.topologies.ring import Ring
from kit.task import Task
from kit.training.core import conflicts
from kit.training.core.conflicts import conflicts_of
from kit.training.features.checkpointing.policy import Checkpoints
from kit.training.features.elastic.options import Elastic
from tests.cases import for_each
from tests.training.jobs import COMPRESSED, PS, WORKERS, made


class Mistaken(Ring):
    """Says that workers meet at servers; its owners are the workers."""

    name, hue = "mistaken_ring", 1
    may_be_asynchronous = may_have_backups = True


class Odd(ParameterServer):
    """As gossip, workers do not agree after a step."""

    name, agrees, hue = "odd_ps", False, 1


@pytest.fixture(autouse=True)
def own_topologies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "TABLE", dict(topology.TABLE))
    for item in (Mistaken(), Odd()):
        topology.register(item)


LOCAL = {"local_steps": 2, "inner": kit.GradientDescent(0.1)}
SAVED = {"checkpoints": Checkpoints("somewhere", every_steps=1)}
ELASTIC = {"generation": Elastic().first("ab" * 16, (PS, *WORKERS))}
TWO_PS = (PS, Task("ps", 1))
NAMED = (Spec("state/worker:1", (3,), "float32"),)

#: What a training begins with, what it is to become, and the sentence about it.
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"steps": -1}, {}, "steps is -1; give 0 or more"),
    ({"hosts": ("a", "b")}, {}, "hosts has 2 names for 3 tasks"),
    ({"tasks": (PS,)}, {}, "there is no worker among ps:0"),
    ({"specs": ()}, {}, "there are no parameters to train"),
    ({"batch": 1}, {}, "a batch of 1 cannot be split over 2 workers"),
    ({"aggregate": 3}, {}, "aggregate is 3, but 2 workers send a gradient each"),
    ({"accumulate": 0}, {}, "accumulate is 0; give in how many pieces"),
    ({"local_steps": 2}, {}, "local_steps is 2, with None as the optimizer"),
    ({"aggregate": 1, "synchronous": False}, {}, "with sync=False each is applied"),
    ({"aggregate": 2}, {"synchronous": False}, "this training cannot become asyn"),
    ({"aggregate": 1, **ELASTIC}, {}, "elastic=True with all of them elsewhere"),
    ({"optimizer": kit.LAMB()}, {}, "the length of each whole parameter"),
    ({"staleness": -1, "synchronous": False}, {}, "staleness is -1; give 0"),
    ({"staleness": 2}, {}, "use sync=False, or leave it"),
    (
        {"staleness": 2, "synchronous": False, "tasks": (*TWO_PS, *WORKERS)},
        {},
        "staleness=2 needs one parameter server",
    ),
    ({"aggregate": 1, **COMPRESSED}, {}, "aggregate=1 leaves some out"),
    (COMPRESSED, {"synchronous": False}, "workers have no step in common"),
    (LOCAL, {"synchronous": False}, "local_steps=2 needs workers that all"),
    ({"tasks": WORKERS}, {}, "'ps' needs a parameter server and there is none"),
    ({"topology": "ring"}, {"synchronous": False}, "not on 'ring'; use topology='ps'"),
    ({"aggregate": 1, "topology": "ring"}, {}, r"the first 1 of 2 \(aggregate=1\)"),
    ({"topology": "mistaken_ring", "aggregate": 1}, {}, "these do not own all that"),
    ({}, {"topology": "gossip"}, "or more; or use topology='ring'"),
    ({**LOCAL, **COMPRESSED}, {"topology": "gossip"}, "they send their parameters"),
    ({**LOCAL, **SAVED}, {"topology": "gossip"}, "have no place for them"),
    ({**LOCAL, **ELASTIC}, {"topology": "gossip"}, "between 'ps' and 'gossip'"),
    ({"device": "tpu"}, {}, "device is 'tpu'; give one of 'cpu', 'gpu'"),
    ({"device": "gpu"}, {"synchronous": False}, "are on GPUs, and those of asyn"),
    ({**SAVED, "specs": NAMED, "keeps_state": True}, {}, "are called state/worker:1"),
]


def changed(
    begun: dict[str, Any], *, topology: str = "", synchronous: bool = True
) -> None:
    job = made(**begun)
    conflicts.check(job, topology or job.topology, synchronous, is_switch=True)


@for_each(("begun", "becomes", "words"), REFUSED)
def test_what_contradicts_itself_is_refused(
    begun: dict[str, Any], becomes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        changed(begun, **becomes)


def test_each_row_of_the_table_is_among_these_cases() -> None:
    job, held = made(), topology.by_name("ps")

    assert len(REFUSED) == len([*conflicts_of(job, held, True, is_switch=False)])


@for_each("changes", [{}, LOCAL, {"aggregate": 1}, COMPRESSED, ELASTIC, SAVED])
def test_no_row_applies_to_what_may_be(changes: dict[str, Any]) -> None:
    job = made(**changes)
    rows = conflicts_of(job, topology.by_name("ps"), True, is_switch=False)

    assert [sentence for applies, sentence in rows if applies] == []


def test_workers_that_never_hear_of_each_other_are_refused() -> None:
    class Alone(Odd):
        name = "alone_ps"

        def neighbourhood(self, group: Any, worker: int) -> tuple[int, ...]:
            return (worker,)

    topology.register(Alone())

    with pytest.raises(InvalidArgumentError, match="1 of 2 workers never hear"):
        made(topology="alone_ps", **LOCAL)
