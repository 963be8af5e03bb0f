"""All small histories of losses, other orders and timeouts, played without threads.

`tests.elastic.explorer` says which histories are played up to a bound.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from kit.errors import LinkLost, NotFoundError
from kit.server.elastic import succession
from kit.server.elastic.standing import Standing
from kit.server.elastic.training import ElasticTraining
from kit.training.features.elastic import generation as rules
from kit.training.features.elastic.asking import Ask, Pause
from tests.elastic.explorer import Bound, explore, play, wander
from tests.elastic.invariants import Violation
from tests.elastic.world import World

# CI plays deeper histories than a run by hand, and a run at night deeper ones still.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fast")
DEEPER = {"fast": -2, "nightly": 2}.get(PROFILE, 0)
LEAVES = Bound(4, delays=0, kinds=("leave",))
QUICK = [
    LEAVES,
    Bound(2, delays=0),
    Bound(3, standby=2, delays=0, kinds=("kill", "stop")),
]
LONGER = [
    *(Bound(3, standby=n, delays=0) for n in range(3)),
    Bound(4, delays=0, kinds=("kill", "restart")),
    Bound(4, standby=3, delays=0),
    Bound(3, losses=2, delays=0, depth=12, kinds=("kill",)),
    Bound(3, losses=2, delays=0, depth=5 + DEEPER, standby=1),
    Bound(3, losses=2, delays=0, depth=5 + DEEPER, kinds=("leave", "kill", "restart")),
    Bound(3, standby=1, delays=1, depth=8 + 2 * DEEPER, kinds=("leave",)),
    Bound(4, losses=2, delays=0, depth=12, kinds=("leave",)),
    Bound(2, depth=10 + 3 * DEEPER),
    Bound(3, depth=6 + DEEPER, kinds=("kill", "isolate")),
]
# With many other orders.
RANDOM = [
    Bound(4, standby=1, delays=12),
    Bound(4, losses=2, delays=6, kinds=("kill", "restart", "leave")),
]


@pytest.mark.parametrize(
    "bound",
    [*QUICK, *(pytest.param(item, marks=pytest.mark.slow) for item in LONGER)],
    ids=str,
)
def test_no_small_history_forks_loses_a_copy_or_stands_still(bound: Bound) -> None:
    result = explore(bound)

    assert not result.wrong
    assert result.paths > 50


@pytest.mark.slow
@pytest.mark.parametrize("bound", RANDOM, ids=str)
def test_no_random_history_forks_loses_a_copy_or_stands_still(bound: Bound) -> None:
    result = wander(bound, range({"fast": 50, "nightly": 2000}.get(PROFILE, 100)))

    assert not result.wrong


def test_a_history_is_the_same_each_time_it_is_played() -> None:
    script = ("", "restart worker:0"), ("copy 1", "isolate worker:1")
    first, again = (play(Bound(3, losses=2), *script) for _ in range(2))

    assert first.moves == again.moves
    assert first.world.clock == again.world.clock


# -- what the explorer would find ------------------------------------------------------


def half_may_go_on(
    processes: Collection[str],
    answered: Collection[str],
    ended: Collection[str],
    vouched: Collection[str],
) -> bool:
    may_live = set(processes) - set(ended)
    return 2 * len(may_live & set(answered)) >= len(may_live)


def forgets_who_has_claimed(self: ElasticTraining, number: int, after: int) -> Any:
    self.now.claimed = 0
    return _claim(self, number, after)


def takes_parts_for_whole(held: Any) -> Any:
    return _newest_whole(
        {
            name: [copy._replace(writers=(copy.member,)) for copy in some]
            for name, some in held.items()
        }
    )


_claim, _newest_whole = ElasticTraining.claim, rules.newest_whole
_may_go_on = rules.may_go_on
MUTATIONS: list[tuple[Any, str, Callable[..., Any], Bound]] = [
    (rules, "may_go_on", half_may_go_on, Bound(2, delays=0)),
    (ElasticTraining, "claim", forgets_who_has_claimed, Bound(3)),
    (Standing, "check", lambda *_: None, Bound(3)),
    (rules, "newest_whole", takes_parts_for_whole, Bound(3, standby=1, delays=0)),
    (rules, "newest_whole", lambda _: None, Bound(2, delays=0)),
    (succession, "_placing", lambda before, *_: before.placing, LEAVES),
    (Standing, "note", lambda *_: None, LEAVES),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "name", "wrong", "bound"),
    MUTATIONS,
    ids=[f"{n}-{name}" for n, (_, name, *_) in enumerate(MUTATIONS)],
)
def test_a_rule_that_is_broken_is_found(
    where: Any,
    name: str,
    wrong: Callable[..., Any],
    bound: Bound,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(where, name, wrong)

    assert explore(bound, 20).wrong


# -- what it has found -----------------------------------------------------------------


def test_a_process_has_not_begun_whose_copies_are_lost_as_it_fetches_them() -> None:
    # It took the generation for its own, and had no member to notice the loss.
    history = play(
        Bound(2, losses=2),
        ("", "restart worker:1"),
        ("worker:0 is told by worker:1: host", "worker:0 is asked by worker:0: begin"),
        ("worker:0 is told by worker:0: begin", "kill worker:0"),
    )

    left = history.world.machines["worker:1"].training
    assert left.now.error is not None
    assert not left.now.has_begun


def test_a_claim_that_is_refused_keeps_nobody_else_from_the_log() -> None:
    # A process held to what it had asked for in vain, and refused who leads since.
    play(
        Bound(3, losses=2),
        ("", "stop worker:0"),
        ("worker:1 is told by worker:0: lose", "cut worker:1 worker:2"),
    )


def test_one_that_alone_was_told_to_begin_does_not_go_on_without_the_others() -> None:
    # Of the two that it was to have, it was the first half.
    play(
        Bound(3, losses=2),
        ("", "stop worker:0"),
        ("worker:1 is asked by worker:1: begin", "isolate worker:1"),
    )


def test_who_wakes_up_does_not_go_on_where_others_have_gone_on_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One of them had ended, and the other slept: it could not say so.
    bound = Bound(3, losses=3, kinds=("kill", "stop"))
    script = [
        ("", "stop worker:1"),
        ("copy 2", "kill worker:0"),
        ("wake worker:1", "stop worker:2"),
    ]
    play(bound, *script)

    monkeypatch.setattr(rules, "is_over", lambda *_: True)
    with pytest.raises(Violation, match="two runs commit"):
        play(bound, *script)


def test_of_two_hosts_one_does_not_go_on_beside_the_other_when_a_third_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The third alone could have said that the other had gone on with it.
    bound = Bound(3, losses=3, kinds=("kill", "stop", "isolate"))
    script = [
        ("", "stop worker:0"),
        ("copy 2", "kill worker:2"),
        ("kill worker:2", "isolate worker:1"),
    ]
    play(bound, *script)

    monkeypatch.setattr(rules, "may_go_on", counts_who_has_ended_as_gone)
    with pytest.raises(Violation, match="two runs commit"):
        play(bound, *script)


def counts_who_has_ended_as_gone(
    processes: Collection[str],
    answered: Collection[str],
    ended: Collection[str],
    _: Collection[str],
) -> bool:
    return _may_go_on(processes, answered, ended, ended)


def test_who_leaves_knows_who_goes_on_without_it() -> None:
    # It had let that happen, and let another one do the same.
    play(
        Bound(3, losses=2, kinds=("cut", "leave")),
        ("", "cut worker:0 worker:1"),
        ("cut worker:0 worker:1", "leave worker:2"),
    )


def test_who_asks_to_join_goes_on_when_one_knows_nothing_of_the_training() -> None:
    # A process that was started again answers so until it joins itself.
    machine = World(2).machines["worker:1"]
    machine.training.now.has_begun = False
    coroutine = machine.succession._ask_to_join()

    wanted = next(coroutine)
    while isinstance(wanted, Ask):
        nothing = dict.fromkeys(wanted.processes, NotFoundError("nothing"))
        wanted = coroutine.send(nothing)

    assert isinstance(wanted, Pause)


def test_who_asks_to_join_a_generation_goes_back_to_none_before_it() -> None:
    # It had asked several, and one of them answered late.
    world = World(3)
    machine, job = world.machines["worker:2"], world.job
    first, later = (
        replace(job, generation=replace(job.generation, number=number, places=places))
        for number, places in [(1, ("worker:0",) * 3), (2, ("worker:1",) * 3)]
    )
    asked = machine.succession._is_led_by_another(0, "it is gone")
    next(asked)
    machine.training.join(later)

    reply = {**world.machines["worker:0"].training.look(), "job": first.to_plain()}
    with suppress(StopIteration):
        asked.send({"worker:0": reply})

    assert machine.training.now.generation.number == 2


def test_who_stands_by_hears_nothing_of_a_generation_from_one_before_it() -> None:
    # It was told so late that the next generation, too, was followed by another.
    machine = World(3, standby=1).machines["worker:2"]
    standing = machine.training.now
    coroutine = machine.succession._look_around()
    assert isinstance(next(coroutine), Pause)
    asked = next(coroutine)
    assert isinstance(asked, Ask)
    generation = replace(standing.generation, number=1)
    standing.job = replace(standing.job, generation=generation)

    with pytest.raises(StopIteration):
        coroutine.send({process: LinkLost("it ended") for process in asked.processes})

    assert standing.noticed is None


def test_each_member_begins_with_the_rows_of_its_steps_wherever_it_was_hosted() -> None:
    # One that stayed where it was left them behind, for observers who had them already.
    history = play(Bound(3), ("copy 2", "kill worker:2"))

    *_, last = history.world.runs.values()
    begun = [member.beginning for member in last.members.values()]
    assert len(begun) == 3
    assert all(beginning and beginning.report for beginning in begun)


def test_who_was_silent_gives_its_copies_when_those_after_it_are_lost() -> None:
    # It had let go of them as soon as it heard of a generation without itself.
    history = play(
        Bound(4, losses=3, kinds=("kill", "stop")),
        ("step", "copy 0"),
        ("copy 3", "step"),
        ("step", "copy 0"),
        ("copy 3", "stop worker:1"),
        ("stop worker:1", "stop worker:3"),
        ("worker:0 is told by worker:2: begin", "kill worker:0"),
    )

    left = [history.world.machines[f"worker:{n}"].training.now for n in (1, 2, 3)]
    assert [now.error for now in left] == 3 * [None]
    assert {now.generation.processes for now in left} == {
        ("worker:1", "worker:2", "worker:3")
    }


def test_who_is_to_leave_stays_when_all_others_are_lost() -> None:
    history = play(
        Bound(3, standby=1, losses=3, kinds=("kill", "leave")),
        ("copy 2", "leave worker:1"),
        ("worker:0 is told by worker:2: note", "kill worker:2"),
        ("kill worker:2", "kill worker:0"),
    )

    left = history.world.machines["worker:1"].training.now
    assert left.error is None
    assert left.generation.processes == ("worker:1",)
