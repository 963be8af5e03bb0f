"""The rules by which one generation of an elastic training follows another."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InternalError, InvalidArgumentError
from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.plan import NOW, SLOT, Owned
from kit.exchange.ports.memory import Memory
from kit.task import Task
from kit.trace.log import rows
from kit.trace.named_rows import Change
from kit.trace.traffic import MEASURE, STEP
from kit.training.client.watched import Once, Watched
from kit.training.core.news import LOGS
from kit.training.core.snapshot import CopyPoint, Held, Shard, restore, values_of
from kit.training.features.elastic.copies import Copies
from kit.training.features.elastic.generation import (
    Generation,
    Holder,
    may_go_on,
    newest_whole,
    number_after,
    run_of,
)
from kit.training.features.elastic.placing import Placing
from tests.exchange.models import models
from tests.training.shards import shard_of

TASKS = [Task("ps", 0), Task("ps", 1), *(Task("worker", n) for n in range(4))]
NAMES = [task.short for task in TASKS]
names = st.sets(st.sampled_from(NAMES))


@given(names, names, names)
def test_two_sides_that_share_no_process_never_both_go_on(
    left: set[str], right: set[str], ended: set[str]
) -> None:
    # What each side knows to have ended has ended; it may know different parts of it.
    living = set(NAMES) - ended
    here, there = left & living, (right & living) - left
    for expected in range(len(ended) + 1):
        some = set(sorted(ended)[:expected])
        both = may_go_on(NAMES, here, ended), may_go_on(NAMES, there, some)
        assert both != (True, True)


def test_the_last_process_goes_on_when_all_others_have_ended() -> None:
    for last in NAMES:
        assert may_go_on(NAMES, [last], set(NAMES) - {last})


def test_of_two_halves_of_those_that_may_live_that_with_the_first_goes_on() -> None:
    for half in itertools.combinations(NAMES, len(NAMES) // 2):
        assert may_go_on(NAMES, half, []) == (NAMES[0] in half)


moments = st.builds(CopyPoint, st.integers(0, 3), st.integers(0, 1), st.integers(0, 1))
held = st.lists(st.builds(Held, moments, st.integers(0, 2), st.just((0, 1, 2))))


@given(st.dictionaries(st.sampled_from(NAMES), held))
def test_the_newest_whole_copy_is_the_last_step_of_which_nothing_is_missing(
    copies: dict[str, list[Held]],
) -> None:
    result = newest_whole(copies)

    every = [item for some in copies.values() for item in some]
    whole = [
        moment
        for moment in {copy.moment for copy in every}
        if {copy.member for copy in every if copy.moment == moment} == {0, 1, 2}
    ]
    if not whole:
        assert result is None
        return
    assert result is not None
    assert result[0] == max(whole)
    assert result[1].keys() >= {0, 1, 2}
    for member, (process, moment) in result[1].items():
        assert any(copy[:2] == (moment, member) for copy in copies[process])
        assert moment == result[0] or member not in {0, 1, 2}


def test_copies_of_one_step_but_of_two_epochs_make_no_whole() -> None:
    # After a switch other members may hold other parts of the state.
    before, after = CopyPoint(8, 2, 1), CopyPoint(8, 2, 2)
    copies = {
        "ps:0": [Held(before, 0, (0, 1)), Held(after, 1, (0, 1))],
        "worker:0": [Held(before, 1, (0, 1))],
    }

    holders = {0: Holder("ps:0", before), 1: Holder("worker:0", before)}
    assert newest_whole(copies) == (before, holders)
    assert newest_whole({"ps:0": copies["ps:0"]}) is None


def test_a_generation_is_the_same_after_it_was_told() -> None:
    change = Change(("worker:1",), ("worker:2",), ("ps:1",), 9, 4, 0.25, "it is gone")
    placing = Placing(3, 1, {"worker:2": 2.0}, ("ps:1",))
    generation = Generation(
        "a" * 32,
        3,
        places=("ps:0", "ps:0"),
        standby=("worker:2",),
        known=("ps:0", "ps:1", "worker:2"),
        placing=placing,
        addresses=("unix:/a", "unix:/b"),
        changes=(change,),
    )

    assert Generation.from_plain(generation.to_plain()) == generation


def test_a_generation_with_other_members_is_refused() -> None:
    for places in (), ("ps:0",), ("ps:0", "ps:0", "ps:0"), ("a", "b"):
        with pytest.raises(InvalidArgumentError):
            Generation("a" * 32, places=places).check(2)


def test_each_attempt_to_begin_a_generation_has_a_number_and_a_run_of_its_own() -> None:
    many = [f"{job}:{n}" for job in ("ps", "worker") for n in range(1000)]
    numbers = [{number_after(0, name) for name in many}]
    for _ in range(3):
        newest = max(numbers[-1])
        numbers.append({number_after(newest, name) for name in many})
        assert min(numbers[-1]) > newest

    every = set().union(*numbers)
    assert len(every) == len({run_of("a" * 32, n) for n in every}) == 4 * len(many)


def test_of_two_that_claim_at_once_each_time_the_same_has_the_higher_number() -> None:
    # Else each could refuse the other for ever.
    for name, other in itertools.pairwise(NAMES):
        higher = {
            number_after(newest, name) > number_after(newest, other)
            for newest in (0, number_after(0, other), number_after(7 << 32, name))
        }
        assert len(higher) == 1


def copy_of(step: int, member: int, lo: int, data: np.ndarray) -> Shard:
    ranges = (Range(lo, lo + data.nbytes // 2),)
    sizes = data.nbytes, 0, 0, 0
    result = data.view(np.uint8)
    return Shard(CopyPoint(step), member, (0, 1), ranges, {}, sizes, result)


def test_copies_of_all_members_make_the_whole_state() -> None:
    layout = lay_out([Spec("w", (4,), "float64")], 2, 1 << 20)
    # Each has its half of the parameters, then of the slot.
    halves = np.array([[0, 1, 10, 11], [2, 3, 12, 13]], float)
    copies = [copy_of(5, n, 16 * n, halves[n]) for n in range(2)]

    result = values_of(copies, layout, ["momentum"])

    assert result["w"].tolist() == [0, 1, 2, 3]
    assert result["w/momentum"].tolist() == [10, 11, 12, 13]


@given(
    models(), st.integers(1, 4), st.integers(0, 2), st.randoms(use_true_random=False)
)
def test_a_member_reads_what_it_owns_from_whoever_has_copied_it(
    specs: list[Spec], n_members: int, n_slots: int, dice: Random
) -> None:
    slots = [f"slot {n}" for n in range(n_slots)]
    layout = lay_out(specs, n_members, 64)
    leaves = [leaf.range for leaf in layout.leaves if leaf.range.size]

    def shares() -> list[list[Range]]:
        """Give each range of the parameters to some member."""
        result: list[list[Range]] = [[] for _ in range(n_members)]
        for part in leaves:
            middle = part.lo + dice.randrange(part.size) // 8 * 8  # whole elements
            for piece in Range(part.lo, middle), Range(middle, part.hi):
                dice.choice(result).append(piece)
        return result

    before, writers = Memory(layout), shares()
    for region in (NOW, *range(SLOT, SLOT + n_slots)):
        for part in leaves:
            before.raw(region, part)[:] = dice.randbytes(part.size)
    owners = [
        Owned(part, (member,)) for member, own in enumerate(writers) for part in own
    ]
    copies = [
        shard_of(before, owners, member, slots, (0,)) for member in range(n_members)
    ]

    for own in shares():
        after, taken = Memory(layout), iter(copies)
        restore(after, NOW, own, n_slots=n_slots, shards=taken)
        for region in (NOW, *range(SLOT, SLOT + n_slots)):
            for part in own:
                assert after.raw(region, part) == before.raw(region, part)
        if not own:
            assert len([*taken]) == n_members  # it fetches none


def test_copies_that_lack_a_part_are_no_state() -> None:
    layout = lay_out([Spec("w", (4,), "float64")], 2, 1 << 20)
    half = copy_of(5, 0, 0, np.arange(2.0))

    with pytest.raises(InternalError, match="no copy has 24 bytes"):
        restore(Memory(layout), NOW, [Range(0, 32)], n_slots=1, shards=iter([half]))


def test_a_process_keeps_the_two_newest_copies_of_a_member() -> None:
    copies, nothing = Copies(), np.zeros(0)
    for step in 0, 4, 8:
        for member in 0, 1:
            copies.keep(copy_of(step, member, 0, nothing))

    def kept() -> set[tuple[int, int]]:
        return {(copy.moment.step, copy.member) for copy in copies.held()}

    assert kept() == {(4, 0), (4, 1), (8, 0), (8, 1)}
    copies.drop_after(4)
    assert kept() == {(4, 0), (4, 1)}


@given(st.lists(st.lists(st.integers(0, 3000), max_size=8)))
def test_each_step_is_told_once_however_often_and_in_which_order_it_comes(
    reports: list[list[int]],
) -> None:
    once, rest = Once(), (0, 0.5, 1, 0, 0, 0, 0, 0)
    result: list[int] = []
    for steps in reports:
        unique = dict.fromkeys(steps)  # a member tells a step once in a generation
        table = rows(STEP, [(0, step, *rest) for step in unique])
        result += once.new(table)["step"].tolist()

    assert sorted(result) == sorted({step for steps in reports for step in steps})


def test_measures_of_one_step_do_not_hide_each_other() -> None:
    once = Once()
    table = rows(MEASURE, [(0, 7, name, 1.0, 1, 0) for name in (b"a", b"b")])

    assert len(once.new(table[:1])) == 1
    assert once.new(table)["name"].tolist() == [b"b"]


def test_steps_that_are_committed_stay_so_when_a_member_begins_again() -> None:
    def reply(step: int) -> dict[str, Any]:
        empty: dict[str, Any] = {"leads": None, "epochs": [], "n_steps": [], "error": 0}
        empty |= {"doing": {"what": "exchanging", "since": 0, "members": []}}
        n_logs = len(LOGS)
        empty |= {"counts": [0] * (n_logs + 1), "cursors": [0] * n_logs}
        return empty | {"step": step, "more": False, "state": "running"}

    member = Watched()
    member.take(reply(33), b"")
    again = member.move_on(1)
    again.take(reply(0), b"")
    assert again.step == 33
    again.take(reply(40), b"")
    assert again.step == 40
