"""Random programs of collectives and messages: results and bytes are plain numpy's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import kit
from kit.errors import AbortedError, MemberMismatch
from kit.groups import generation
from tests.group.model import Step, n_bytes, play, programs, results, same
from tests.group.scene import scene

TCP: dict[str, Any] = {"transport": "tcp", "insecure": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "settings"),
    [*((n, {}) for n in (2, 3, 4, 6)), (3, {"native": False}), (2, TCP), (3, TCP)],
)
def test_results_and_bytes_are_those_of_a_model_in_one_process(
    n: int, settings: dict[str, Any]
) -> None:
    with scene(n, values=settings) as stage:

        @given(programs(n))
        def check(program: list[Step]) -> None:
            before = stage.groups[0].traffic.measured
            result = stage.play(play(program))

            for task, wanted in enumerate(results(program, n)):
                assert same(result[task], wanted), (task, program)
            traffic = stage.groups[0].traffic
            assert traffic.measured - before == n_bytes(program, n), program
            assert traffic.measured == traffic.formula

        check()


@pytest.mark.slow
def test_memory_grows_on_all_tasks_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "LEAST_CAPACITY", 128)
    with scene(3) as stage:

        @given(programs(3))
        def check(program: list[Step]) -> None:
            for group in stage.groups:  # begins again with little memory
                group._state._close_links()
            result = stage.play(play(program))
            for task, wanted in enumerate(results(program, 3)):
                assert same(result[task], wanted), (task, program)

        check()


def _called(step: Step) -> tuple[object, ...]:
    """Return what of a step has to be the same on all tasks."""
    match step.what:
        case "all_reduce":
            return (*step[:3], step.op, step.algorithm)
        case "reduce":
            return (*step[:3], step.root, step.op)
        case "reduce_scatter":
            return (*step[:3], step.op)
        case "gather" | "broadcast" | "scatter":
            return step.what, step.root
    return (step.what,)


def _wrong(program: list[Step], at: int, how: str) -> list[Step]:
    at %= len(program)
    step, before, after = program[at], program[:at], program[at + 1 :]
    match how:
        case "missing":
            return [*before, *after]
        case "twice":
            return [*before, step, step, *after]
        case "swapped":
            return [*before, *after[:1], step, *after[1:]]
        case "another shape":
            return [*before, step._replace(size=step.size + 1), *after]
        case "another type":
            dtype = "float64" if step.dtype != "float64" else "float32"
            return [*before, step._replace(dtype=dtype), *after]
        case "another root":
            return [*before, step._replace(root=1 - min(step.root, 1)), *after]
    return [*before, step._replace(what="barrier"), *after]


HOW = (
    *("missing", "twice", "swapped", "another shape", "another type"),
    *("another root", "another call"),
)
COLLECTIVE = (
    *("all_reduce", "reduce", "reduce_scatter", "gather", "all_gather"),
    *("broadcast", "scatter", "all_to_all"),
)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 6])
def test_wrong_program_ends_on_all_tasks_and_is_named(n: int) -> None:
    with scene(n) as stage:

        @given(
            programs(n), st.integers(0, n - 1), st.integers(0, 9), st.sampled_from(HOW)
        )
        def check(program: list[Step], who: int, at: int, how: str) -> None:
            only = [item._replace(what=COLLECTIVE[item.seed % 8]) for item in program]
            wrong = _wrong(only, at, how)
            assume([*map(_called, wrong)] != [*map(_called, only)])
            each = [play(only)] * n
            each[who] = play(wrong)

            errors = stage.errors(*each)

            for error in errors:
                assert isinstance(error, MemberMismatch), error
                assert all(f"worker:{task}" in str(error) for task in range(n))
                assert "No byte has moved" in str(error)
            # The group can be used again.
            assert len(stage.play(lambda group: group.all_reduce(1))) == n

        check()


@pytest.mark.slow
def test_message_that_is_never_sent_is_a_deadlock_of_those_that_wait() -> None:
    step = Step("messages", "float32", 5, 0, 0, "sum")

    def silent(group: kit.Group) -> Any:
        group.receive(1, tag=step.seed)  # of those, each sends to the next one
        return group.barrier()

    def right(group: kit.Group) -> Any:
        return play([step, step])(group)

    with scene(2) as stage:
        errors = stage.errors(silent, right)

        for error in errors:
            assert isinstance(error, AbortedError), error
            assert "deadlock: worker:0 is in barrier()" in str(error)
            assert "worker:1 is in receive(source=0)" in str(error)
        assert stage.play(lambda group: group.all_reduce(1)) == [2, 2]
