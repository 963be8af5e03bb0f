"""Copies of a large state lie in memory that two processes of one host see."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kit
from kit.errors import InvalidArgumentError
from kit.exchange.layout import Range
from kit.exchange.ports.memory import Array
from kit.server.elastic.handlers import ElasticHandlers
from kit.server.elastic.shared_copies import CopyLink
from kit.task import Task
from kit.testing.processes import process_cluster
from kit.testing.task_process import until
from kit.training.core.snapshot import Buffer, Buffers, CopyPoint, Shard, private
from kit.training.features.elastic.copies import Copies
from kit.wire import Bounds, Link, Role
from kit.wire.local.arena import Arena
from kit.wire.rpc import Caller, serve
from kit.wire.sockets import SocketStream
from tests.exchange import replay

ORIGIN = "0" * 32
SIZE = 1 << 16


@pytest.mark.slow
@settings(max_examples=600)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*3 * ["kept"], "again", "late", "lost", "epoch", "back"]),
            st.sampled_from(["worker:1", "worker:1", "worker:2"]),
        )
    )
)
def test_no_buffer_is_written_while_a_process_holds_the_copy_in_it(
    story: list[tuple[str, str]],
) -> None:
    buffers = Buffers(1, private)
    # Each process keeps copies by the rule that processes keep them by.
    holders = {name: Copies() for name in ("here", "worker:1", "worker:2")}
    step, n_epochs = 0, 0
    late: list[tuple[Buffer, CopyPoint, str]] = []
    for what, where in story:
        taken = buffers.take(1)
        held = [
            copies.find(each.moment, 0).data
            for copies in holders.values()
            for each in copies.held()
        ]
        assert all(data is not taken for data in held)

        if what == "back":  # those that go on let go of the newest copies
            step = max(0, step - 2)
            holders["here"].drop_after(step)
            holders[where].drop_after(step)
        if what in ("epoch", "back"):
            n_epochs += 1
            buffers.begin(CopyPoint(step, n_epochs))
            for item in late:
                buffers.kept(*item)
            late.clear()
        step += what != "again"
        copy = copy_of(step, taken, epoch=n_epochs)
        holders["here"].keep(copy)
        holders[where].keep(copy)  # if it is lost, so may be the answer alone
        if what == "lost":
            buffers.lost(taken)
        elif what == "late":  # the thread that sends is told of it in the next epoch
            late.append((taken, copy.moment, where))
        else:
            buffers.kept(taken, copy.moment, where)


def test_three_buffers_are_enough_for_any_number_of_copies() -> None:
    made: list[Buffer] = []

    def new(n_bytes: int) -> Buffer:
        made.append(private(n_bytes))
        return made[-1]

    buffers = Buffers(1, new)
    for step in range(20):
        buffers.prepare()
        buffers.kept(buffers.take(1), CopyPoint(step), "worker:1")

    assert len(made) == 3


def copy_of(step: int, data: Any, arena: Arena | None = None, epoch: int = 0) -> Shard:
    sizes = SIZE, 0, 0, 0
    point, ranges = CopyPoint(step, epoch), (Range(0, SIZE),)
    buffer = Buffer(data, arena)
    return Shard(point, 0, (0,), ranges, {}, sizes, data, buffer)


class Keeper:
    """A training that keeps what it is given."""

    def __init__(self) -> None:
        self.copies: list[Shard] = []

    def keep(self, _: str, copy: Shard) -> str:
        self.copies.append(copy)
        return "a keeper"


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    yield (result := Keeper())
    result.copies.clear()  # each holds a descriptor


@pytest.fixture
def caller(keeper: Keeper) -> Iterator[Caller]:
    """Ask a thread over a unix socket what a link for copies may be asked."""
    ends = socket.socketpair(socket.AF_UNIX)
    near, far = (SocketStream(end, "unix", "the other end") for end in ends)
    worker, ps = Task("worker", 0), Task("ps", 0)
    bounds = Bounds(1, 1 << 30)
    asking = Link(near, local=worker, peer=ps, role=Role.COPIES, bounds=bounds)
    answering = Link(far, local=ps, peer=worker, role=Role.COPIES, bounds=bounds)
    find: Any = lambda _: keeper  # noqa: E731
    table = ElasticHandlers(find, answering).table()
    thread = threading.Thread(target=serve, args=(answering, table, 5.0))
    thread.start()
    yield (asked := Caller(asking))
    asked.close()
    thread.join(10)
    assert not thread.is_alive()


def question(copy: Shard) -> dict[str, Any]:
    return {"origin": ORIGIN, "run": ORIGIN, "about": copy.about()}


def arena_with(value: int) -> tuple[Arena, Array]:
    arena = Arena.create("copies", SIZE)
    data = np.frombuffer(arena.view(), np.uint8)
    data[:] = value
    return arena, data


def test_copies_are_seen_where_they_were_made_and_outlive_who_made_them(
    caller: Caller, keeper: Keeper
) -> None:
    link, (arena, data) = CopyLink(caller), arena_with(1)
    copy = copy_of(4, data, arena)

    link.keep(question(copy), 5, copy)
    seen = np.frombuffer(keeper.copies[0].parts[0], np.uint8)
    assert (seen == 1).all()
    data[:] = 2  # it is the same memory
    assert (seen == 2).all()
    assert not seen.flags.writeable
    link.keep(question(copy), 5, copy)  # shown already: no descriptor follows

    del copy, data
    arena.close()
    assert (seen == 2).all()


def test_what_was_shown_gives_way_to_the_arenas_of_another_epoch(
    caller: Caller, keeper: Keeper
) -> None:
    link = CopyLink(caller)
    for value in range(200):
        arena, data = arena_with(value)
        copy = copy_of(value, data, arena)
        link.keep(question(copy), 5, copy)
        arena.close()

    values = [np.frombuffer(item.parts[0], np.uint8) for item in keeper.copies]
    assert [int(item[0]) for item in values] == [*range(200)]


@pytest.mark.parametrize("arena", [[0, SIZE, 0], [3, SIZE, 0]])
def test_an_arena_that_was_not_shown_is_refused_and_the_link_goes_on(
    caller: Caller, keeper: Keeper, arena: list[int]
) -> None:
    copy = copy_of(0, bytes(SIZE))

    with pytest.raises(InvalidArgumentError, match="no arena"):
        caller.call("elastic.keep", 5, {**question(copy), "arena": arena})

    CopyLink(caller).keep(question(copy), 5, copy)
    assert len(keeper.copies) == 1


def test_copies_of_very_many_members_are_sent_where_no_more_can_be_shown(
    caller: Caller, keeper: Keeper
) -> None:
    link, arenas = CopyLink(caller), [arena_with(value) for value in range(70)]
    for value, (arena, data) in enumerate(arenas):
        copy = copy_of(value, data, arena)
        link.keep(question(copy), 5, copy)

    values = [np.frombuffer(item.parts[0], np.uint8) for item in keeper.copies]
    assert [int(item[0]) for item in values] == [*range(70)]
    for arena, _ in arenas:
        arena.close()


def test_no_more_arenas_are_held_than_one_side_may_show(caller: Caller) -> None:
    arena, data = arena_with(1)
    copy = copy_of(0, data, arena)
    values = {**question(copy), "arena": [64, SIZE, 1]}

    with pytest.raises(InvalidArgumentError, match="numbers below 64"):
        caller.call("elastic.keep", 5, values, descriptors=[arena.fd])
    arena.close()


# -- in processes ----------------------------------------------------------------------

N, STEPS = 300_000, 24


def step(params: dict[str, Array], batch: tuple[Array]) -> tuple[float, Any]:
    number = float(batch[0][0])
    return number, {"w": params["w"] * np.float32(0.5) + np.float32(number)}


def shown_to(pid: int) -> int:
    """Return how many arenas for copies a process looks into."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sum("memfd:kit-copies" in line for line in maps)


@pytest.mark.slow
@pytest.mark.lasting("process", "descriptor")
@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_a_large_state_survives_the_process_that_made_the_copies(topology: str) -> None:
    initial = {"w": np.linspace(-1, 1, N, dtype="float32")}
    data = [(np.arange(2 * n, 2 * n + 2, dtype="float32"),) for n in range(STEPS)]
    with process_cluster(ps=1, worker=2) as cluster:
        run = kit.train(
            step,
            initial,
            data,
            optimizer=kit.Momentum(0.125, 0.5),
            topology=topology,
            steps=STEPS,
            batch=2,
            elastic=True,
            cluster=cluster,
        )
        run.pause()
        for number, lost in enumerate(("worker:1", "ps:0"), 1):
            run.advance(8)
            until(lambda: run.copied >= 0, 20)
            left = [task for task in cluster.tasks if task.short != lost]
            assert any(shown_to(cluster[task].pid) for task in left)
            cluster[Task.parse(lost)].signal(signal.SIGKILL)
            until(lambda n=number: len(run.losses) == n, 20)  # type: ignore[misc]
        run.resume()
        run.wait(60)
        result = run.params

    def gradients(params: dict[str, Array], number: int) -> list[dict[str, Array]]:
        return [step(params, (half,))[1] for half in np.split(data[number][0], 2)]

    def update(now: Array, mean: Array, state: dict[str, Array], _: int) -> Array:
        state["a"] = state.get("a", np.zeros_like(now)) * np.float32(0.5) + mean
        return np.asarray(now - state["a"] * np.float32(0.125))

    expected = replay.train(initial, STEPS, gradients, update)
    np.testing.assert_array_equal(result["w"], expected["w"], strict=True)
