"""The agreed part of a training: checked when it is made, equal wherever it arrives."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import InvalidArgumentError
from kit.exchange.layout import Spec
from kit.exchange.topologies.topology import Topology, registered
from kit.task import Task
from kit.training.core.job import Job
from kit.training.core.terms import difference, terms_of
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
