"""A job: checked when it is made, equal where it arrives, and what follows from it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import InvalidArgumentError
from kit.exchange.layout import Spec
from kit.exchange.plan import Owned
from kit.exchange.topologies import topology as table
from kit.exchange.topologies.counting import counted_traffic
from kit.exchange.topologies.ps import ParameterServer
from kit.exchange.topologies.ring import Ring
from kit.exchange.topologies.topology import Topology, by_name, registered
from kit.recording.state_keeper import states_of
from kit.task import Task
from kit.training.core import conflicts
from kit.training.core.axes import (
    Asynchronous,
    FirstArrivals,
    LocalTraining,
    OwnWork,
    Schedule,
    Synchronous,
)
from kit.training.core.conflicts import conflicts_of
from kit.training.core.job import Job
from kit.training.core.terms import difference, terms_of
from kit.training.features.checkpointing.policy import Checkpoints
from kit.training.features.elastic.options import Elastic
from tests.cases import for_each
from tests.exchange.models import models
from tests.training.jobs import COMPRESSED, PS, WORKERS, made


@for_each(
    ("changes", "words"),
    [
        ({"tasks": ()}, "no tasks"),
        ({"seed": -1}, "seed"),
        ({"link": "quick"}, "'quick'"),
        ({"topology": "star"}, "'star'"),
        ({"placement": "anywhere"}, "'anywhere'"),
    ],
)
def test_job_that_cannot_be_carried_out_is_not_made(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        made(**changes)


@given(
    models(),
    st.sampled_from(registered()),
    st.integers(0, 2**63),
    st.integers(2, 10**6),
    st.sampled_from([kit.GradientDescent(0.1), kit.Momentum(0.5), kit.RMSProp()]),
    st.sampled_from(["", "1gbit", "100mbit,5ms"]),
)
def test_job_survives_json(
    specs: list[Spec],
    topology: Topology,
    seed: int,
    batch: int,
    optimizer: Any,
    link: str,
) -> None:
    job = made(
        specs=tuple(specs),
        topology=topology.name,
        local_steps=int(not topology.agrees),
        inner=None if topology.agrees else kit.Adam(),
        seed=seed,
        batch=batch,
        optimizer=optimizer,
        link=link,
        settings=kit.Settings(bucket_bytes=1000),
    )

    again = Job.from_plain(json.loads(json.dumps(job.to_plain())))

    assert again == job
    assert again.layout == job.layout
    assert again.group == job.group


def test_a_compressed_job_survives_json_with_its_stages() -> None:
    job = made(**COMPRESSED)

    again = Job.from_plain(json.loads(json.dumps(job.to_plain())))

    assert again == job
    assert again.payload.stages == job.payload.stages
    assert [stage.layout.payload_bytes for stage in job.payload.stages] == [4, 6]
    assert job.layout.payload_bytes == made().layout.payload_bytes


@for_each(
    ("stage_specs", "words"),
    [
        ([[["w", [3], "object"]]], "stage_specs"),
        ([[]], "at least one array"),
        ([[["w", [3], "int8"], ["w", [], "int8"]]], "'w' twice"),
    ],
)
def test_what_cannot_be_added_up_is_not_a_stage(stage_specs: Any, words: str) -> None:
    plain = made(**COMPRESSED).to_plain() | {"stage_specs": stage_specs}

    with pytest.raises(InvalidArgumentError, match=words):
        Job.from_plain(plain)


def test_first_worker_leads_wherever_it_stands_in_the_list() -> None:
    assert made().coordinator == 1
    assert made(tasks=(*WORKERS, PS)).coordinator == 0
    assert made(tasks=(PS, Task("chief", 0), *WORKERS)).workers == (1, 2, 3)


def test_every_byte_is_held_by_exactly_one_server() -> None:
    specs = tuple(Spec(f"p{n}", (n, 7), "float32") for n in range(9))
    servers = tuple(Task("ps", n) for n in range(3))

    job = made(tasks=(*servers, *WORKERS), specs=specs, placement="greedy")

    held = [part for shard in job.group.shards for part in shard]
    assert sum(part.size for part in held) == job.layout.payload_bytes
    assert len(job.group.shards) == 3


#: For each field that must be equal on all workers, a job that has another value of it.
OTHERS: dict[str, dict[str, Any]] = {
    "tasks": {"tasks": WORKERS, "topology": "ring"},
    "specs": {"specs": (Spec("w", (3, 2), "float32"),)},
    "optimizer": {"optimizer": kit.Adam(0.25)},
    "topology": {"topology": "ring"},
    "steps": {"steps": 11},
    "batch": {"batch": 9},
    "seed": {"seed": 1},
    "synchronous": {"synchronous": False},
    "aggregate": {"aggregate": 1},
    "staleness": {"synchronous": False, "staleness": 3},
    "accumulate": {"accumulate": 2},
    "local_steps": {"local_steps": 2, "inner": kit.Adam()},
    "inner": {"local_steps": 2, "inner": kit.Adam()},
    "link": {"link": "1gbit"},
    "placement": {"placement": "greedy"},
    "checkpoints": {"checkpoints": kit.Checkpoints("folder", every_steps=5)},
    "keeps_state": {"keeps_state": True},
    "compress": COMPRESSED,
    "stage_specs": COMPRESSED,
    "device": {"device": "gpu"},
    "hosts": {"hosts": ("a", "a", "b")},
}
#: Which run it is, where it begins, where its members are; some settings must be equal.
COORDINATORS = {"run", "restore", "generation", "settings"}


@for_each("name", OTHERS)
def test_workers_must_agree_on(name: str) -> None:
    like = {key: value for key, value in OTHERS[name].items() if key != name}
    if name in {"local_steps", "inner", "compress", "stage_specs"}:
        like = {}  # neither is without the other
    ours, theirs = made(**like), made(**OTHERS[name])

    assert difference(terms_of(ours), terms_of(theirs))


def test_each_field_of_a_job_is_agreed_on_or_the_coordinators() -> None:
    assert {*OTHERS, *COORDINATORS} == {field.name for field in fields(Job)}
    job = made()
    other = replace(job, run="cd" * 16, settings=kit.Settings(trace=False))

    assert difference(terms_of(job), terms_of(other)) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 11}, "steps is 11 instead of 10"),
        ({"device": "gpu"}, "device is gpu instead of cpu"),
        (
            {"specs": (Spec("b", (), "float64"), Spec("w", (3, 2), "float32"))},
            "order of parameters is b, w instead of w, b",
        ),
        (
            {"specs": (Spec("w", (3, 2), "float64"), Spec("b", (), "float64"))},
            "parameter 'w' is float64[3, 2] instead of float32[3, 2]",
        ),
        ({"specs": (Spec("w", (3, 2), "float32"),)}, "parameter 'b' is missing"),
        ({"settings": kit.Settings(bucket_bytes=9)}, "bucket_bytes is 9 instead of 0"),
        ({"settings": kit.Settings(streams=2)}, "streams is 2 instead of 1"),
        (COMPRESSED, "compress is own instead of none"),
    ],
)
def test_difference_names_what_differs(changes: dict[str, Any], words: str) -> None:
    assert words in difference(terms_of(made()), terms_of(made(**changes)))


def test_long_list_of_differences_is_cut() -> None:
    specs = tuple(Spec(f"p{n}", (n,), "float32") for n in range(50))

    text = difference(terms_of(made()), terms_of(made(specs=specs)))

    assert text.endswith("and 49 more")
    assert len(text) < 600


# -- options that contradict each other ------------------------------------------------


class Mistaken(Ring):
    """Says that workers meet at servers; its owners are the workers."""

    name, hue = "mistaken_ring", 1
    may_be_asynchronous = may_have_backups = True


class Odd(ParameterServer):
    """As gossip, workers do not agree after a step."""

    name, agrees, hue = "odd_ps", False, 1


@pytest.fixture(autouse=True)
def own_topologies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "TABLE", dict(table.TABLE))
    for item in (Mistaken(), Odd()):
        table.register(item)


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
    job, held = made(), table.by_name("ps")

    assert len(REFUSED) == len([*conflicts_of(job, held, True, is_switch=False)])


@for_each("changes", [{}, LOCAL, {"aggregate": 1}, COMPRESSED, ELASTIC, SAVED])
def test_no_row_applies_to_what_may_be(changes: dict[str, Any]) -> None:
    job = made(**changes)
    rows = conflicts_of(job, table.by_name("ps"), True, is_switch=False)

    assert [sentence for applies, sentence in rows if applies] == []


def test_workers_that_never_hear_of_each_other_are_refused() -> None:
    class Alone(Odd):
        name = "alone_ps"

        def neighbourhood(self, group: Any, worker: int) -> tuple[int, ...]:
            return (worker,)

    table.register(Alone())

    with pytest.raises(InvalidArgumentError, match="1 of 2 workers never hear"):
        made(topology="alone_ps", **LOCAL)


# -- what travels in a step ------------------------------------------------------------

SUITED = [topology for topology in registered() if topology.agrees]


@pytest.mark.parametrize("topology", SUITED, ids=lambda item: item.name)
@pytest.mark.parametrize("options", [{}, COMPRESSED], ids=["plain", "compressed"])
def test_bytes_by_formula_are_those_of_the_plans(
    topology: Topology, options: dict[str, Any]
) -> None:
    job = made(topology=topology.name, **options)
    plans = {member: job.payload.plan(topology, member) for member in job.group.members}
    done = {member: plan for member, plan in plans.items() if plan is not None}

    formula = {key: n for key, n in job.payload.traffic(topology).items() if n}

    assert counted_traffic(done) == formula
    woven = {member: job.payload.woven(plan) for member, plan in done.items()}
    assert counted_traffic(woven) == formula


def test_stages_lie_one_after_the_other_behind_the_parameters() -> None:
    job = made(**COMPRESSED)
    ranges = [job.payload.range_of(stage) for stage in range(2)]

    assert [stage.layout.payload_bytes for stage in job.payload.stages] == [4, 6]
    assert ranges[0].lo >= job.layout.n_bytes
    assert all(before.hi <= after.lo for before, after in pairwise(ranges))


def test_gradients_are_one_stage_of_their_own() -> None:
    job = made()

    assert job.payload.stages == ((job.layout, job.group),)
    assert job.payload.range_of(0).size == job.layout.n_bytes


def test_owners_are_those_of_the_topology_or_all_workers() -> None:
    for topology in SUITED:
        plain, compressed = made(), made(**COMPRESSED)
        owners = topology.owners(plain.layout, plain.group)
        parts = [bucket.range for bucket in compressed.layout.buckets]

        assert plain.payload.owners(topology) == owners
        assert compressed.payload.owners(topology) == tuple(
            Owned(part, compressed.workers) for part in parts
        )


# -- who meets, and what a worker does by itself ---------------------------------------

SIX_TASKS = (Task("ps", 0), Task("ps", 1), *(Task("worker", n) for n in range(4)))
SERVERS, COMPUTING = {0, 1}, {2, 3, 4, 5}
SCHEDULES: list[type[Schedule]] = [Synchronous, FirstArrivals, Asynchronous]


def schedules() -> list[Schedule]:
    job = made(tasks=SIX_TASKS, aggregate=3)
    return [made(tasks=SIX_TASKS).schedule, job.schedule, job.schedule_of(False)]


def test_a_job_has_the_schedule_of_its_options_in_each_epoch() -> None:
    assert [type(schedule) for schedule in schedules()] == SCHEDULES
    assert type(made(tasks=SIX_TASKS, aggregate=4).schedule) is Synchronous
    assert type(made(tasks=SIX_TASKS, synchronous=False).schedule) is Asynchronous


def test_workers_meet_by_the_plan_or_at_the_servers() -> None:
    job = made(tasks=SIX_TASKS)
    joint, first, alone = schedules()

    for topology in ("ps", "ring", "mesh"):
        plan = job.plan(by_name(topology), 2)
        named = {
            to for (source, to, _) in job.traffic(by_name(topology)) if source == 2
        }
        assert plan is not None
        assert joint.partners(plan, 2) >= named
        assert first.partners(plan, 2) == alone.partners(plan, 2) == SERVERS
    assert joint.partners(None, 0) == set()
    assert first.partners(None, 0) == SERVERS | COMPUTING
    assert alone.partners(None, 0) == COMPUTING


@for_each(
    ("number", "is_elastic", "most"),
    [(0, False, 0), (0, True, 0), (1, False, 1), (2, False, 0), (2, True, 3)],
)
def test_workers_other_than_the_first_may_be_spared(
    number: int, is_elastic: bool, most: int
) -> None:
    schedule = schedules()[number]

    for n in range(1, len(SIX_TASKS)):
        for lost in combinations(range(len(SIX_TASKS)), n):
            may = n <= most and {*lost} <= COMPUTING - {2}
            assert schedule.spares(lost, is_elastic=is_elastic) == may, lost


PLAIN, ADAM = kit.GradientDescent(0.1), kit.Adam()


def local(inner: Any, **more: Any) -> dict[str, Any]:
    return {"local_steps": 3, "inner": inner, **more}


@for_each(
    ("options", "keeps", "may_keep"),
    [
        ({}, False, False),
        ({"accumulate": 2}, False, False),
        ({"keeps_state": True}, True, True),
        (local(PLAIN), False, True),  # a switch may make workers differ
        (local(ADAM), True, True),
        (local(PLAIN, topology="gossip"), True, True),
    ],
)
def test_workers_keep_what_their_own_work_carries_on(
    options: dict[str, Any], keeps: bool, may_keep: bool
) -> None:
    job = made(**options)
    all_workers = {"state/worker:0": 1, "state/worker:1": 2}

    assert job.states == (all_workers if keeps else {})
    assert states_of(job) == (all_workers if may_keep else {})


def test_a_gradient_and_local_steps_may_both_be_computed_in_pieces() -> None:
    assert made(accumulate=4).own_work == OwnWork(4)
    assert made(**local(ADAM, accumulate=4)).own_work == LocalTraining(4, 3, ADAM)


def test_the_optimizer_of_a_worker_is_what_the_user_calls_optimizer() -> None:
    job = made(**local(ADAM, optimizer=PLAIN))
    inputs = {
        name: getattr(job, field) for name, field in job.own_work.optimizers.items()
    }

    assert inputs == {"optimizer": ADAM, "outer": PLAIN}
    assert made().own_work.optimizers == {"optimizer": "optimizer"}
