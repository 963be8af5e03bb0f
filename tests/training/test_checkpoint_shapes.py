"""A checkpoint of any number of tasks, on any topology, is good for any other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kit
from kit.checkpoint import Folder, Manifest, graph_hash, write_shard
from kit.errors import DeadlineExceededError
from kit.exchange import layout
from kit.exchange.layout import Range, Spec, lay_out, tensors_of
from kit.exchange.plan import NOW, SLOT, Group, Owned
from kit.exchange.ports.memory import Memory, physical
from kit.exchange.ports.port import Stamp
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import by_name
from kit.task import Task
from kit.training.core import snapshot
from kit.training.core.axes import ranges_of, writers_of
from kit.training.core.context import MemberContext
from kit.training.core.member import Member
from kit.training.core.news import parameters
from kit.training.core.snapshot import empty_pieces, fill, pieces
from tests.training.saved import resumed_at
from tests.training.shards import shard_of
from tests.training.toy import Params, begin, fit, quick_cluster, replayed, same_bits

SLOTS = ("first", "second")
REGIONS = (physical(NOW, 0), SLOT, SLOT + 1)


class Shape(NamedTuple):
    """How many tasks there are, and how they meet."""

    ps: int
    workers: int
    topology: str


@st.composite
def shapes(draw: st.DrawFn, workers: int = 0) -> Shape:
    topology = draw(st.sampled_from(["ps", "ring", "mesh", "ring-whole"]))
    n_ps = draw(st.integers(1 if topology == "ps" else 0, 2))
    return Shape(n_ps, workers or draw(st.integers(1, 4)), topology)


SPECS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 7), max_size=2).map(tuple),
        st.sampled_from(["float32", "float64"]),
    ),
    min_size=1,
    max_size=4,
).map(lambda rows: tuple(Spec(f"p{n}", *row) for n, row in enumerate(rows)))


def random_bits(specs: tuple[Spec, ...], seed: int) -> dict[str, Any]:
    """Return values for all parameters and slots: any bits, NaN among them."""
    dice = np.random.default_rng(seed)
    return {
        name: np.frombuffer(
            dice.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype
        ).reshape(shape)
        for name, (shape, dtype) in tensors_of(specs, SLOTS).items()
    }


def owners_of(shape: Shape, memory: Memory) -> tuple[Owned, ...]:
    numbers = tuple(range(shape.ps + shape.workers))
    shards = shards_of(memory.layout, shape.ps)
    group = Group(numbers[: shape.ps], numbers[shape.ps :], shards)
    return by_name(shape.topology).owners(memory.layout, group)


def save(
    folder: Folder, shape: Shape, specs: tuple[Spec, ...], values: dict[str, Any]
) -> None:
    """Save as the members of a shape do, each of which has what it owns and no more."""
    truth = Memory(lay_out(specs, shape.workers, 64))
    fill(truth, REGIONS[0], SLOTS, values)
    owners = owners_of(shape, truth)
    draft, shards = folder.draft(7), []
    writers = writers_of(owners, shape.ps)
    for member in writers:
        memory = Memory(truth.layout)
        own = ranges_of(owners, member)
        for region in REGIONS:
            memory.raw(region, Range(0, memory.layout.n_bytes))[:] = (
                b"\xaa" * memory.layout.n_bytes
            )
            for part in own:
                memory.raw(region, part)[:] = truth.raw(region, part)
        held = shard_of(memory, owners, member, SLOTS, writers)
        first = empty_pieces(memory.layout, SLOTS) if member == writers[0] else ()
        mine = [*pieces(held, memory.layout, SLOTS), *first]
        shards.append(write_shard(draft / f"{member}.safetensors", mine))
    names = graph_hash(tensors_of(specs, SLOTS))
    folder.commit(draft, Manifest(7, 1, names, tuple(shards), {}))


def bits(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (tensor.shape, tensor.dtype, tensor.tobytes())
        for name, tensor in values.items()
    }


@pytest.mark.slow
@given(SPECS, shapes(), shapes(), st.integers(0, 2**32 - 1))
def test_any_shape_restores_what_any_other_has_saved_bit_for_bit(
    specs: tuple[Spec, ...], before: Shape, after: Shape, seed: int
) -> None:
    values = random_bits(specs, seed)
    with tempfile.TemporaryDirectory() as path:
        save(Folder(Path(path)), before, specs, values)

        _, loaded = Folder(Path(path)).load_newest()

    assert bits(loaded) == bits(values)
    memory = Memory(lay_out(specs, after.workers, 48))
    fill(memory, REGIONS[0], SLOTS, loaded)
    for region, slot in zip(REGIONS, ("", *SLOTS), strict=True):
        for name, result in memory.leaves(region).items():
            want = values[f"{name}/{slot}" if slot else name]
            assert result.tobytes() == want.tobytes()


def train(folder: str, shape: Shape, steps: int, step: Any = fit, **how: Any) -> Any:
    with quick_cluster(shape.ps, shape.workers) as cluster:
        return begin(
            cluster,
            step,
            topology=shape.topology,
            steps=steps,
            checkpoint=kit.Checkpoints(folder),
            **how,
        ).wait(60)


def still(params: Params, batch: Any) -> Any:
    """A step that changes nothing: Adagrad adds the square of no gradient."""
    return 0.0, {name: np.zeros_like(value) for name, value in params.items()}


@pytest.mark.slow
@settings(max_examples=5)
@given(shapes(), shapes())
def test_training_of_any_shape_takes_up_what_any_other_has_left(
    before: Shape, after: Shape
) -> None:
    adagrad = kit.Adagrad(0.1)
    with tempfile.TemporaryDirectory() as folder:
        train(folder, before, 3, optimizer=adagrad)
        train(folder, after, 4, step=still, optimizer=adagrad)

        was, now = (kit.load_checkpoint(f"{folder}/step-{n}") for n in (3, 4))

        assert bits(dict(was)) == bits(dict(now))
        assert {k: bits(v) for k, v in was.slots.items()} == {
            k: bits(v) for k, v in now.slots.items()
        }
        assert any(
            value.any() for slot in now.slots.values() for value in slot.values()
        )


@pytest.mark.slow
@settings(max_examples=5)
@given(st.data(), st.integers(1, 3), st.sampled_from(["momentum", "adam"]))
def test_training_that_was_interrupted_equals_one_that_was_not(
    data: st.DataObject, workers: int, optimizer: str
) -> None:
    rule = {"momentum": kit.Momentum(0.01), "adam": kit.Adam(0.01)}[optimizer]
    before, after = (data.draw(shapes(workers)) for _ in range(2))
    stop = data.draw(st.integers(0, 6))
    with tempfile.TemporaryDirectory() as folder:
        train(folder, before, stop, optimizer=rule)

        run = train(folder, after, 8, optimizer=rule)

    assert resumed_at(run) == stop
    assert same_bits(run.params, replayed(8, workers, rule))
    ((_, measured, formula),) = run.moved_once
    assert measured == formula
    assert all(entry.agrees for entry in run.traffic)


def test_thousands_of_parameters_are_not_looked_through_for_each_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_parameters, looked_at = 2000, list[Range]()
    specs = [Spec(f"p{n}", (8,), "float32") for n in range(n_parameters)]
    memory = Memory(lay_out(specs, 4, 256))
    owners = owners_of(Shape(0, 4, "ring"), memory)
    held = shard_of(memory, owners, 1, SLOTS, (0, 1, 2, 3))

    def intersect(a: Range, b: Range) -> Range | None:
        looked_at.append(b)
        return layout.intersect(a, b)

    monkeypatch.setattr(snapshot, "intersect", intersect)
    result = [*pieces(held, memory.layout, SLOTS)]

    assert len(held.ranges) > 100
    assert len(looked_at) <= len(result) + len(held.ranges) * len(REGIONS)


# -- one moment ------------------------------------------------------------------------


@dataclass
class Busy:
    """A part of a training that goes on while its parameters are copied."""

    goes_on: list[Callable[[Any], None]]
    step: int = 7
    endpoint: Any = field(default_factory=lambda: SimpleNamespace(stamp=Stamp()))
    n_copies: int = 0

    moment = MemberContext.moment

    def parameters(self) -> bytes:
        self.n_copies += 1
        if self.goes_on:
            self.goes_on.pop(0)(self)
            return b"torn"
        return b"whole"


def copy(busy: Busy, clock: Callable[[], float] = lambda: 0.0) -> tuple[int, bytes]:
    task = Task("worker", 0)
    member = SimpleNamespace(context=busy, epochs=[1], task=task, state="running")
    return parameters(cast("Member", member), clock)


def makes_a_step(busy: Busy) -> None:
    busy.step += 1


def commits(busy: Busy) -> None:
    busy.endpoint.stamp.parity ^= 1


def switches(busy: Busy) -> None:
    busy.endpoint.stamp.epoch += 1


@pytest.mark.parametrize("change", [makes_a_step, commits, switches])
def test_what_was_copied_while_it_changed_is_copied_again(
    change: Callable[[Any], None],
) -> None:
    busy = Busy([change, change])

    assert copy(busy) == (busy.step, b"whole")
    assert busy.n_copies == 3


def test_steps_that_are_too_short_to_copy_between_end_in_a_deadline() -> None:
    times = iter(range(1000))

    with pytest.raises(DeadlineExceededError, match=r"pause the run first"):
        copy(Busy([makes_a_step] * 1000), lambda: float(next(times)))
