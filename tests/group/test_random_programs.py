"""Random programs of collectives and messages: results and bytes are plain numpy's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import MemberMismatch
from kit.groups import generation
from tests.group.model import Step, n_bytes, play, programs, results, same
from tests.group.scene import scene

TCP: dict[str, Any] = {"transport": "tcp", "insecure": True}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"native": False}, TCP])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_results_and_bytes_are_those_of_a_model_in_one_process(
    n: int, settings: dict[str, Any]
) -> None:
    with scene(n, given=settings) as stage:

        @given(programs(n))
        def check(program: list[Step]) -> None:
            before = stage.groups[0].traffic.measured
            found = stage.play(play(program))

            for task, wanted in enumerate(results(program, n)):
                assert same(found[task], wanted), (task, program)
            traffic = stage.groups[0].traffic
            assert traffic.measured - before == n_bytes(program, n), program
            assert traffic.measured == traffic.formula

        check()


@pytest.mark.slow
def test_memory_grows_on_all_tasks_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "_LEAST_CAPACITY", 128)
    with scene(3) as stage:

        @given(programs(3))
        def check(program: list[Step]) -> None:
            for group in stage.groups:  # begins again with little memory
                group._state._close_links()
            found = stage.play(play(program))
            for task, wanted in enumerate(results(program, 3)):
                assert same(found[task], wanted), (task, program)

        check()


def _wrong(program: list[Step], at: int, how: str) -> list[Step]:
    at %= len(program)
    if how == "missing":
        return program[:at] + program[at + 1 :]
    if how == "twice":
        return program[: at + 1] + program[at:]
    other = program[at]._replace(what="all_reduce", size=program[at].size + 1)
    return [*program[:at], other, *program[at + 1 :]]


COLLECTIVE = ("all_reduce", "reduce", "reduce_scatter", "gather", "all_gather")


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 4])
def test_wrong_program_ends_on_all_tasks_and_is_named(n: int) -> None:
    with scene(n) as stage:

        @given(
            programs(n),
            st.integers(0, n - 1),
            st.integers(0, 9),
            st.sampled_from(["missing", "twice", "other"]),
        )
        def check(program: list[Step], who: int, at: int, how: str) -> None:
            only = [one._replace(what=COLLECTIVE[one.seed % 5]) for one in program]
            each = [play(only)] * n
            each[who] = play(_wrong(only, at, how))

            errors = stage.errors(*each)

            for error in errors:
                assert isinstance(error, MemberMismatch), error
                assert f"worker:{who}" in str(error)
                assert "No byte has moved" in str(error)
            # The group can be used again.
            assert len(stage.play(lambda group: group.all_reduce(1))) == n

        check()
