"""The history of a training, and the checker that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kit.faults.history import History, check, read
from kit.task import Task

Event = dict[str, Any]


def step(task: str, number: int, digest: str = "") -> Event:
    return {
        "task": task,
        "event": "step",
        "step": number,
        "epoch": 1,
        "digest": digest or f"d{number}",
    }


def epoch(task: str, number: int, topology: str) -> Event:
    return {"task": task, "event": "epoch", "epoch": number, "topology": topology}


def sound(n_workers: int, steps: int) -> list[Event]:
    tasks = [f"worker:{index}" for index in range(n_workers)]
    begun = [epoch(task, 1, "ring") for task in tasks]
    return begun + [step(task, number) for task in tasks for number in range(steps)]


@given(n_workers=st.integers(1, 4), steps=st.integers(0, 8))
def test_a_sound_history_violates_nothing(n_workers: int, steps: int) -> None:
    assert check(sound(n_workers, steps)) == []


@given(
    n_workers=st.integers(2, 4),
    steps=st.integers(1, 8),
    data=st.data(),
)
def test_one_other_digest_anywhere_violates_i1(
    n_workers: int, steps: int, data: st.DataObject
) -> None:
    events = sound(n_workers, steps)
    number = data.draw(st.integers(n_workers, len(events) - 1))
    events[number] = {**events[number], "digest": "other"}

    wrong = check(events)

    assert len(wrong) == 1
    assert wrong[0].startswith(f"I1: step {events[number]['step']} ")
    assert "other" in wrong[0]


@given(steps=st.integers(2, 8), data=st.data())
def test_a_missing_or_a_repeated_step_violates_i2(
    steps: int, data: st.DataObject
) -> None:
    events = sound(1, steps)
    number = data.draw(st.integers(1, len(events) - 2))  # the last may be missing

    without, twice = events.copy(), events.copy()
    del without[number]
    twice.insert(number, events[number])

    for wrong in (check(without), check(twice)):
        assert len(wrong) == 1
        assert wrong[0].startswith("I2: worker:0 ")


def test_one_epoch_with_two_topologies_violates_i5() -> None:
    events = [epoch("worker:0", 2, "ring"), epoch("ps:0", 2, "ps")]

    assert check(events) == ["I5: epoch 2 has the topologies ps, ring"]


def test_a_server_may_join_late_since_it_commits_no_steps_of_its_own() -> None:
    assert check([step("ps:0", 4), step("ps:0", 5)]) == []


def test_what_is_noted_is_read_back_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "history"
    first = History(str(folder), Task("worker", 0))
    second = History(str(folder), Task("ps", 0))

    first.note("epoch", epoch=1, topology="ps")
    second.note("epoch", epoch=1, topology="ps")
    first.note("step", step=0, epoch=1, digest="aa")

    # At once: a task that is killed must not take its history with it.
    assert read(folder) == [
        epoch("ps:0", 1, "ps"),
        epoch("worker:0", 1, "ps"),
        step("worker:0", 0, "aa"),
    ]
    first.close()
    second.close()
    assert first.is_on is False


def test_without_a_folder_nothing_is_written(tmp_path: Path) -> None:
    history = History("", Task("worker", 0))

    history.note("step", step=0)
    history.close()

    assert history.is_on is False
    assert list(tmp_path.iterdir()) == []
