"""A generation that is to end ends, whatever becomes of the words about its copies."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import kit
from kit.errors import DeadlineExceededError, PeerLost
from kit.exchange.layout import Spec
from kit.task import Task
from kit.training.core.agreement import Verdict
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job
from kit.training.features.elastic.generation import Generation
from kit.training.features.elastic.placing import Placing
from tests.elastic.world import World

RUN = "ab" * 16
TASKS = (Task("ps", 0), *(Task("worker", number) for number in range(3)))
EVERYBODY = range(len(TASKS))
FIRST, SECOND, THIRD = 1, 2, 3  # the workers, as members
GIVES_UP_S = 6.0  # then another copy is called for


class Scene:
    """A coordinator whose members have begun and copied, at step 0."""

    def __init__(self, **options: Any) -> None:
        names = [task.short for task in TASKS]
        job = Job(
            *(RUN, TASKS, (Spec("w", (3,), "float32"),), kit.GradientDescent(0.1)),
            *("ps", 100, 9),
            generation=Generation.first(RUN, TASKS, names, Placing()),
            **options,
        )
        self.now, self._number = 0.0, 0
        self.coordinator = TrainingCoordinator(job, lambda: self.now)
        self.begin_epoch(0)
        assert self.meet(0) is Verdict.COPY
        self.copied(0)
        assert self.meet(0) is Verdict.GO

    @property
    def error(self) -> Any:
        return self.coordinator.error

    def begin_epoch(self, step: int) -> None:
        assert self.meet(step) is Verdict.PREPARE
        for item in EVERYBODY:
            self.coordinator.prepared(item, self._number - 1, None, 0.0)

    def meet(self, step: int, without: Collection[int] = ()) -> Verdict:
        """Let the members come to the next boundary, before `step`."""
        for item in EVERYBODY:
            if item not in without:
                answer = self.coordinator.arrive(item, self._number, step, 0.0)
        self._number += 1
        return answer.verdict

    def meet_again(self) -> Verdict:
        """Let one who was told to wait ask again."""
        number = self._number - 1
        step = self.coordinator._agreement.boundaries[number].arrived[FIRST]
        return self.coordinator.arrive(FIRST, number, step, 0.0).verdict

    def copied(self, step: int, by: Collection[int] = EVERYBODY) -> None:
        for item in by:
            self.coordinator.copied(item, step)

    def beat(self, *, after_s: float) -> None:
        """Let that much time pass, with signs of life of all."""
        for _ in range(round(after_s)):
            self.now += 1.0
            for item in EVERYBODY:
                if item not in self.coordinator.lost:
                    self.coordinator.beat(item)
            self.coordinator.watch()


def test_the_late_word_of_a_copy_is_not_taken_for_that_of_the_last_one() -> None:
    # Where it was, the members stood at the last boundary for ever.
    scene = Scene()
    scene.beat(after_s=1)
    assert scene.coordinator.wants_halt(4)
    assert scene.meet(5) is Verdict.COPY
    scene.beat(after_s=GIVES_UP_S)
    assert scene.coordinator.wants_halt(9)  # another one is called for
    scene.coordinator.regroup("others take part")

    scene.copied(5)
    assert scene.meet(10) is Verdict.COPY
    scene.copied(5)

    assert scene.error is None
    assert scene.meet(10) is Verdict.WAIT
    scene.copied(10)
    assert isinstance(scene.error, PeerLost)
    assert "others take part" in scene.error.message


def test_a_paused_training_ends_its_generation_though_the_word_of_a_copy_was_lost() -> (
    None
):
    scene = Scene()
    scene.coordinator.command("configure", topology="ring")
    scene.begin_epoch(3)
    scene.beat(after_s=1)
    assert scene.coordinator.wants_halt(4)
    assert scene.meet(5) is Verdict.COPY
    scene.copied(5, by=(FIRST, SECOND))
    scene.coordinator.command("pause")
    assert scene.meet(5) is Verdict.WAIT
    scene.coordinator.regroup("others take part")
    assert scene.meet_again() is Verdict.WAIT

    scene.beat(after_s=GIVES_UP_S)

    assert scene.meet_again() is Verdict.COPY
    scene.copied(5)
    assert scene.meet(5) is Verdict.COPY
    scene.copied(5)
    assert isinstance(scene.error, PeerLost)


def test_a_loss_at_the_last_boundary_of_asynchronous_members_keeps_nobody_there() -> (
    None
):
    scene = Scene(synchronous=False)
    scene.coordinator.gone(SECOND, "its links closed")
    assert scene.coordinator.wants_halt(4)
    assert scene.meet(5, without=[SECOND]) is Verdict.COPY
    scene.copied(5, by=(0, FIRST))
    assert scene.error is None

    scene.coordinator.gone(THIRD, "its links closed")

    assert isinstance(scene.error, PeerLost)


def test_who_was_stopped_does_not_blame_those_who_could_not_come_meanwhile() -> None:
    scene = Scene()
    scene.beat(after_s=1)
    assert scene.meet(5, without=[THIRD]) is Verdict.WAIT

    scene.now += 100.0
    scene.beat(after_s=29)

    assert scene.error is None
    scene.beat(after_s=3)
    assert isinstance(scene.error, DeadlineExceededError)


def test_a_claim_that_comes_before_word_of_the_end_fails_no_backup_workers() -> None:
    world = World(3, rehosts=False)
    training = world.machines["worker:1"].training
    while not training.copies.held():  # until it has begun everywhere
        world.happen(world.ready()[0])

    reply = training.claim(1, after=0)
    ends = [event for event in world.ready() if event.label == "ended 1"]
    world.happen(*ends)

    assert reply["granted"]
    assert training.look()["error"] is None
