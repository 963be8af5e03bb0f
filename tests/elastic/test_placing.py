"""The rules by which the members of an elastic training are spread over processes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.task import Task
from kit.trace.named_rows import Change
from kit.training.features.elastic.generation import (
    MOST_CHANGES,
    Generation,
    next_generation,
)
from kit.training.features.elastic.options import Elastic
from kit.training.features.elastic.placing import (
    Placing,
    check_leaves,
    check_shares,
    check_workers,
    hosting,
    placed,
)
from tests.cases import for_each

TASKS = [Task("ps", 0), Task("ps", 1), *(Task("worker", n) for n in range(6))]
NAMES = [task.short for task in TASKS]
processes = st.sets(st.sampled_from([*NAMES, "worker:6", "worker:7"]), min_size=1)
NOTHING = Change((), (), (), 0, 0, 0.0, "")


def workers_of(names: object) -> list[str]:
    return [name for name in names if name.startswith("worker")]  # type: ignore[attr-defined]


@given(processes, st.integers(0, 8))
def test_each_member_is_hosted_by_a_process_that_is_here_and_by_its_own_if_that_may(
    here: set[str], most: int
) -> None:
    placing = Placing(workers=most)
    hosts = hosting(here, placing)

    result = placed(TASKS, here, placing)

    assert set(result) <= set(hosts) <= here
    assert len(workers_of(hosts)) == min(most or 8, len(workers_of(here)))
    for position, name in zip(result, NAMES, strict=True):
        assert position == name or name not in hosts


@given(processes)
def test_members_are_spread_evenly_over_the_processes_of_their_kind(
    some: set[str],
) -> None:
    here = some | {"ps:0", "worker:0"}
    result = placed(TASKS, here, Placing())

    for kind in "ps", "worker":
        own = [name for name in here if name.startswith(kind)]
        of_kind = [p for p, n in zip(result, NAMES, strict=True) if n.startswith(kind)]
        assert set(of_kind) <= set(own)
        counts = [of_kind.count(name) for name in own]
        assert max(counts) - min(counts) <= 1


shares = st.dictionaries(
    st.sampled_from(["worker:0", "worker:1", "worker:2"]), st.integers(1, 5)
)


@given(shares, st.integers(3, 30))
def test_a_process_has_the_members_of_its_share_give_or_take_one_of_each_other(
    given_shares: dict[str, int], n_members: int
) -> None:
    here = ["worker:0", "worker:1", "worker:2"]
    tasks = [Task("worker", n) for n in range(n_members)]
    result = placed(tasks, here, Placing(shares=dict(given_shares)))

    counts = {name: result.count(name) for name in here}
    share = {name: given_shares.get(name, 1) for name in here}
    for item in here:
        for other in here:
            if counts[item] > 1:  # nobody has one too many while another has too few
                with_less = Fraction(counts[item], share[item])
                assert with_less <= Fraction(counts[other] + 1, share[other])


@given(processes, st.integers(0, 8), st.sets(st.sampled_from(NAMES)))
def test_the_next_generation_is_on_all_that_are_here_and_have_not_left(
    here: set[str], most: int, left: set[str]
) -> None:
    assume(here - left)
    first = Generation.first("a" * 32, TASKS, NAMES, Placing())
    placing = Placing(workers=most, left=tuple(sorted(left)))

    result = next_generation(first, TASKS, here, placing, NOTHING)

    assert set(result.processes) == here - left
    assert set(result.standby) == set(result.processes) - set(result.places)
    assert set(result.known) == here | set(NAMES)
    assert result.number == 1


def test_a_spare_takes_over_for_a_lost_task_until_that_is_back() -> None:
    cluster = [Task("worker", n) for n in range(4)]
    options = Elastic(spare=1)
    members = options.members(cluster)
    first = options.first("a" * 32, cluster)
    assert (first.places, first.standby) == (
        ("worker:0", "worker:1", "worker:2"),
        ("worker:3",),
    )

    here = ["worker:0", "worker:2", "worker:3"]
    second = next_generation(first, members, here, first.placing, NOTHING)
    assert second.places == ("worker:0", "worker:3", "worker:2")
    assert second.standby == ()

    third = next_generation(
        second, members, [*here, "worker:1"], first.placing, NOTHING
    )
    assert (third.places, third.standby) == (first.places, first.standby)


def test_a_generation_tells_the_newest_changes_and_a_notebook_remembers_all() -> None:
    made = [NOTHING._replace(step=step) for step in range(3 * MOST_CHANGES)]
    now = Generation.first("a" * 32, TASKS, NAMES, Placing())
    remembered: tuple[Change, ...] = ()
    for number, change in enumerate(made, 1):
        now = next_generation(now, TASKS, NAMES, now.placing, change)
        if number % 7 == 0:  # it does not hear of each
            remembered = now.remembering(remembered).changes

    assert now.changes == tuple(made[-MOST_CHANGES:])
    assert now.remembering(remembered).changes == tuple(made)
    assert now.reached == made[-1].step


def test_members_are_tasks_and_logical_workers_have_names_that_no_task_has() -> None:
    cluster = [Task("ps", 0), Task("worker", 0), Task("worker", 2)]

    assert Elastic().members(cluster) == (*cluster,)
    names = [task.short for task in Elastic(logical_workers=4).members(cluster)]
    assert names == ["ps:0", "worker:0", "worker:1", "worker:2", "worker:3"]


@for_each(
    ("options", "words"),
    [
        ({"logical_workers": 0}, "logical_workers is 0"),
        ({"spare": -1}, "spare is -1"),
        ({"logical_workers": "six"}, "logical_workers is 'six'"),
        ({"shares": [1]}, "shares"),
        ({"shares": {"worker:1": 0}}, "shares"),
        ({"shares": {"worker:1": float("nan")}}, "shares"),
    ],
)
def test_options_out_of_range_are_refused(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Elastic(**options)  # type: ignore[arg-type]


def test_options_that_do_not_fit_the_tasks_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="leaves none of the 6 worker tasks"):
        Elastic(spare=6).first("a" * 32, TASKS)
    with pytest.raises(InvalidArgumentError, match="'worker:9', which takes no part"):
        Elastic(shares={"worker:9": 2}).first("a" * 32, TASKS)
    check_shares({"worker:1": 2.5}, NAMES)


def test_it_is_said_how_many_workers_there_can_be() -> None:
    check_workers(6, TASKS, NAMES)
    with pytest.raises(InvalidArgumentError, match="at most 6 tasks can take part"):
        check_workers(7, TASKS, NAMES)
    with pytest.raises(InvalidArgumentError, match="only worker:0, worker:1 take part"):
        check_workers(3, TASKS, ["ps:0", "worker:0", "worker:1"])
    with pytest.raises(InvalidArgumentError, match="1 or more"):
        check_workers(0, TASKS, NAMES)


def test_the_only_task_cannot_leave() -> None:
    check_leaves("ps:0", ["ps:0", "worker:0"])
    with pytest.raises(InvalidArgumentError, match="the only task"):
        check_leaves("worker:0", ["worker:0"])
    with pytest.raises(InvalidArgumentError, match="takes no part"):
        check_leaves("worker:1", ["ps:0", "worker:0"])
