from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.cluster import memory
from kit.errors import NotEnoughMemory, ResourceExhaustedError
from kit.machine import MachineMemory
from tests.cases import for_each

BINDER = MachineMemory(limit_mib=1024, available_mib=650, is_contained=True)


def test_too_little_memory_names_the_need_the_limit_and_what_would_fit() -> None:
    with pytest.raises(NotEnoughMemory) as caught:
        memory.check({"ps": 1, "worker": 20}, BINDER)

    assert caught.value.message == (
        "ps=1, worker=20 needs about 1,420 MiB; 650 MiB of the 1,024 MiB of this "
        "container are free. ps=1, worker=7 would fit."
    )
    memory.check({"ps": 1, "worker": 7}, BINDER)


def test_hardly_any_memory_suggests_no_cluster_but_to_free_some() -> None:
    with pytest.raises(NotEnoughMemory, match="Free some, or raise the limit of this"):
        memory.check({"ps": 1, "worker": 1}, MachineMemory(24000, 10))
    # The default cluster fits beside a notebook in a gigabyte.
    memory.check({"ps": 1, "worker": 3}, MachineMemory(1024, 1024 - 300))


def test_what_a_cluster_gives_back_can_be_used_by_the_next_one() -> None:
    jobs, short = {"ps": 1, "worker": 3}, MachineMemory(1024, memory.need_mib(4) - 1)

    memory.check(jobs, short, freed_mib=1)
    with pytest.raises(NotEnoughMemory):
        memory.check(jobs, short)


@for_each(
    ("jobs", "n_tasks", "fitting"),
    [
        ({"ps": 1, "worker": 7}, 8, {"ps": 1, "worker": 7}),
        ({"ps": 1, "worker": 7}, 3, {"ps": 1, "worker": 2}),
        ({"ps": 6, "worker": 2}, 4, {"ps": 2, "worker": 2}),
        ({"worker": 2, "ps": 2}, 3, {"worker": 2, "ps": 1}),
        ({"ps": 1, "worker": 9, "chief": 1}, 4, {"ps": 1, "worker": 2, "chief": 1}),
        ({"ps": 0, "worker": 5}, 2, {"worker": 2}),
        ({"ps": 1, "worker": 1}, 1, {}),
    ],
)
def test_the_largest_job_gives_up_tasks_first_and_no_job_all(
    jobs: dict[str, int], n_tasks: int, fitting: dict[str, int]
) -> None:
    assert memory.shrunk(jobs, n_tasks) == fitting


@given(st.integers(0, 100_000))
def test_what_fits_fits_and_one_more_does_not(available: int) -> None:
    n = memory.engines_that_fit(available)

    assert n == 0 or memory.need_mib(n) <= available
    assert memory.need_mib(n + 1) > available


def test_an_estimate_says_that_it_is_one() -> None:
    assert memory.summary(400, BINDER, is_estimate=True) == (
        "memory: about 400 MiB of the 1,024 MiB of this container; 650 MiB are free"
    )


def test_more_tasks_than_open_files_are_refused_with_the_number_that_there_may_be() -> (
    None
):
    memory.check_descriptors(96, 1024)
    memory.check_descriptors(224, 1024, "nodeb")

    here = (
        r"up to 1,056 open files .* 1,024 are allowed here \(ulimit -Hn\), .* 96 tasks"
    )
    with pytest.raises(ResourceExhaustedError, match=here):
        memory.check_descriptors(100, 1024)
    there = r"up to 1,028 open files .* 1,024 are allowed on nodeb .* for 224 tasks"
    with pytest.raises(ResourceExhaustedError, match=there):
        memory.check_descriptors(225, 1024, "nodeb")
