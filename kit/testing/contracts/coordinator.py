"""What the members of a training rely on in its coordinator, as one check.

No task is started and nothing waits: the check asks what members ask, with no patience,
and sets the clock itself. The theory is in `kit.training.core.agreement`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Protocol

from kit.errors import KitError, StepFailed
from kit.exchange.layout import Spec
from kit.exchange.topologies.topology import registered
from kit.task import Task
from kit.training.core.agreement import BoundaryReply, Verdict
from kit.training.core.job import Job
from kit.training.core.log import Epoch
from kit.training.optimizers.rules import GradientDescent

_TASKS = (Task("ps", 0), *(Task("worker", number) for number in range(3)))
_ALL = range(len(_TASKS))
_SECOND, _THIRD = 2, 3  # workers that do not lead, as members
_STEPS = 8
_ONE, _OTHER = [topology.name for topology in registered() if not topology.needs_ps][:2]


class Coordinator(Protocol):
    """What `check_coordinator` asks; see `TrainingCoordinator` for each."""

    def arrive(
        self, member: int, number: int, step: int, patience_s: float
    ) -> BoundaryReply:
        """Take a member to its boundary."""

    def prepared(
        self, member: int, number: int, refusal: str | None, patience_s: float
    ) -> BoundaryReply:
        """Note that a member is ready, or why not."""

    def beat(self, member: int) -> KitError | None:
        """Note that a member lives; return what the training failed with."""

    def watch(self) -> None:
        """Find who is silent; called now and then."""

    def fail(self, error: KitError, *, by: int | None = None) -> KitError | None:
        """Note that a member cannot go on."""

    def gone(self, member: int, reason: str) -> None:
        """Take the end of a member's links."""

    def leave(self, member: int) -> None:
        """Note that a member has ended in good order."""

    def see_off(self, timeout_s: float) -> bool:
        """Return whether all members have left."""

    def wants_halt(self, step: int) -> bool:
        """Whether all members must meet after `step`."""

    def command(self, what: str, /, **values: Any) -> None:
        """Note a request of the user."""


Make = Callable[[Job, Callable[[], float]], Coordinator]


def check_coordinator(make: Make) -> None:
    """Check that a coordinator does what the members of a training rely on.

    No member goes on before all are there; all get the same answer, at the same step;
    asking again changes nothing; all hear of a loss, a failure and the end.

    Parameters
    ----------
    make : callable
        Given a `Job` and a clock, returns the coordinator of a training that no member
        has come to yet. It is called once for each case.

    Raises
    ------
    AssertionError
        With what the coordinator said, and what its members rely on instead.

    Examples
    --------
    >>> from kit.testing import check_coordinator
    >>> from kit.training.core.coordinator import TrainingCoordinator
    >>> check_coordinator(TrainingCoordinator)
    """
    for case in _CASES:
        case(make)


class _Scene:
    """One training: three workers and a server, of which `aggregate` may be needed."""

    def __init__(self, make: Make, aggregate: int = 0) -> None:
        self.job = Job(
            "ab" * 16,
            _TASKS,
            (Spec("w", (3,), "float32"),),
            GradientDescent(0.1),
            "ps",
            steps=_STEPS,
            batch=9,
            aggregate=aggregate,
        )
        self.now = 0.0
        self.asked = make(self.job, lambda: self.now)

    def begun(self) -> _Scene:
        """Let all begin the first epoch, at boundary 0."""
        self.agree(0, 0, _ALL)
        return self

    def arrive(
        self, number: int, step: int, who: Collection[int] = _ALL
    ) -> BoundaryReply:
        """Let these come to a boundary; return what all hear, and hear again."""
        for member in who:
            self.asked.arrive(member, number, step, 0.0)
        heard = [self.asked.arrive(item, number, step, 0.0) for item in who]
        return _one_answer(f"at boundary {number}", heard)

    def prepared(
        self, number: int, who: Collection[int] = _ALL, refusal: str | None = None
    ) -> BoundaryReply:
        """Let these be ready, the last with a refusal; return what all hear."""
        why = {item: refusal if item == max(who) else None for item in who}
        for member in who:
            self.asked.prepared(member, number, why[member], 0.0)
        heard = [self.asked.prepared(item, number, why[item], 0.0) for item in who]
        return _one_answer(f"when all are ready at boundary {number}", heard)

    def agree(self, number: int, step: int, who: Collection[int]) -> Epoch:
        """Let these come to a boundary and begin the epoch that is proposed there."""
        at = f"boundary {number}"
        answer = self.arrive(number, step, who)
        epoch = _proposed(at, answer, step)
        _expect(self.prepared(number, who), Verdict.COMMIT, f"all are ready at {at}")
        return epoch


def _nobody_goes_on_before_all_are_there(make: Make) -> None:
    scene = _Scene(make)
    for member in _ALL[:-1]:
        answer = scene.asked.arrive(member, 0, 0, 0.0)
        _expect(answer, Verdict.WAIT, "not all members have come to boundary 0")
    epoch = _proposed("boundary 0", scene.arrive(0, 0), 0)
    assert epoch.number == 1, f"the first epoch has number {epoch.number}; give it 1."
    for member in _ALL[:-1]:
        answer = scene.asked.prepared(member, 0, None, 0.0)
        _expect(answer, Verdict.WAIT, "not all members are ready for epoch 1")
    _expect(scene.prepared(0), Verdict.COMMIT, "all are ready for epoch 1")
    _expect(scene.arrive(1, 3), Verdict.GO, "nothing is requested")


def _a_switch_begins_at_one_step_for_all(make: Make) -> None:
    scene = _Scene(make).begun()
    scene.asked.command("configure", topology=_ONE)
    assert scene.asked.wants_halt(3), (
        "a switch is requested, and wants_halt(3) is False; members must meet after "
        "the step that is under way."
    )
    epoch = scene.agree(1, 4, _ALL)
    switched = epoch.number, epoch.topology, epoch.first_step
    assert switched == (2, _ONE, 4), (
        f"the switch to {_ONE!r} at step 4 began epoch {epoch}; it is number 2."
    )
    assert not scene.asked.wants_halt(4), (
        "nothing is requested any more, and wants_halt(4) is True; a switch that has "
        "begun is answered."
    )


def _what_one_refuses_nobody_begins(make: Make) -> None:
    scene = _Scene(make).begun()
    scene.asked.command("configure", topology=_OTHER)
    _proposed("boundary 1", scene.arrive(1, 2), 2)
    answer = scene.prepared(1, refusal="no room")
    _expect(answer, Verdict.ABANDON, "one member refused epoch 2")
    assert "no room" in answer.reason, (
        f"an epoch was refused for 'no room', and members hear {answer.reason!r}; tell "
        f"them why."
    )
    _expect(scene.arrive(2, 2), Verdict.GO, "a switch was refused, and all go on")


def _a_pause_holds_all_until_it_is_over(make: Make) -> None:
    scene = _Scene(make).begun()
    scene.asked.command("pause")
    _expect(scene.arrive(1, 2), Verdict.WAIT, "the training is paused")
    scene.asked.command("resume")
    _expect(scene.arrive(1, 2), Verdict.GO, "the pause is over")


def _the_end_is_one_for_all(make: Make) -> None:
    for step, stops in ((_STEPS, False), (2, True)):
        scene = _Scene(make).begun()
        if stops:
            scene.asked.command("stop")
        _expect(
            scene.arrive(1, step), Verdict.FINISH, "the training has come to an end"
        )
        scene.asked.fail(StepFailed("too late"), by=_SECOND)
        again = scene.arrive(1, step)
        _expect(again, Verdict.FINISH, "what is finished cannot fail any more")
        for member in _ALL:
            assert not scene.asked.see_off(0.0), (
                f"{_TASKS[member]} has not left, and see_off is True; who leads stays "
                f"until all have heard of the end."
            )
            scene.asked.leave(member)
        assert scene.asked.see_off(0.0), "all have left, and see_off is False."


def _the_first_failure_is_everybodys(make: Make) -> None:
    scene = _Scene(make).begun()
    scene.asked.arrive(0, 1, 2, 0.0)
    scene.asked.fail(StepFailed("the first"), by=_SECOND)
    scene.asked.fail(StepFailed("the second"), by=_THIRD)
    _all_hear(scene, "the first", "a member failed")


def _a_loss_that_cannot_be_spared_ends_all(make: Make) -> None:
    scene = _Scene(make).begun()
    scene.asked.gone(_THIRD, "its links closed")
    _all_hear(scene, str(_TASKS[_THIRD]), "a member is lost that a step needs")


def _who_is_silent_is_lost(make: Make) -> None:
    scene = _Scene(make).begun()
    limits = scene.job.settings
    for member in _ALL:
        scene.asked.beat(member)
    # In small steps: after a longer one it takes itself for the one that was asleep.
    while scene.now <= limits.dead_after_s + limits.suspect_after_s:
        scene.now += limits.suspect_after_s / 2
        for member in _ALL[:-1]:
            scene.asked.beat(member)
        scene.asked.watch()
    silence = f"{_TASKS[_THIRD]} was silent for longer than dead_after_s"
    _all_hear(scene, str(_TASKS[_THIRD]), silence, _ALL[:-1])


def _who_can_be_spared_is_waited_for_by_nobody(make: Make) -> None:
    scene = _Scene(make, aggregate=2).begun()
    scene.asked.gone(_THIRD, "its links closed")
    left = _ALL[:-1]
    _expect(scene.arrive(1, 2, left), Verdict.GO, "all but the lost member are there")
    late = _error_of(lambda: scene.asked.arrive(_THIRD, 1, 2, 0.0))
    assert late is not None, (
        "a lost member came to boundary 1 and was let in; without a new process it "
        "takes part no more."
    )


_CASES: tuple[Callable[[Make], None], ...] = (
    _nobody_goes_on_before_all_are_there,
    _a_switch_begins_at_one_step_for_all,
    _what_one_refuses_nobody_begins,
    _a_pause_holds_all_until_it_is_over,
    _the_end_is_one_for_all,
    _the_first_failure_is_everybodys,
    _a_loss_that_cannot_be_spared_ends_all,
    _who_is_silent_is_lost,
    _who_can_be_spared_is_waited_for_by_nobody,
)


def _one_answer(when: str, heard: list[BoundaryReply]) -> BoundaryReply:
    for reply in heard:
        assert reply == heard[0], (
            f"{when}, one member hears {heard[0]} and another {reply}; all have to "
            f"hear the same, however often they ask."
        )
    return heard[0]


def _expect(answer: BoundaryReply, wanted: Verdict, because: str) -> None:
    assert answer.verdict is wanted, (
        f"{because}, and a member hears {answer.verdict}; the answer is {wanted}."
    )


def _proposed(where: str, answer: BoundaryReply, step: int) -> Epoch:
    _expect(answer, Verdict.PREPARE, f"an epoch is due at {where}")
    epoch = answer.epoch
    assert epoch is not None, f"at {where} members hear PREPARE without an epoch."
    assert epoch.first_step == answer.step == step, (
        f"all stand before step {step}, and {epoch} is proposed at step {answer.step}."
    )
    return epoch


def _all_hear(
    scene: _Scene, text: str, because: str, who: Collection[int] = _ALL
) -> None:
    for member in who:
        answers = {
            "beat": scene.asked.beat(member),
            "arrive": _error_of(partial(scene.asked.arrive, member, 1, 2, 0.0)),
        }
        for what, error in answers.items():
            assert error is not None, (
                f"{because}, and {what} of {_TASKS[member]} says nothing of it; every "
                f"answer does, since nobody else tells a member."
            )
            assert text in str(error), (
                f"{because} ({text}), and {what} of {_TASKS[member]} says {error}; the "
                f"first cause counts for all."
            )


def _error_of(ask: Callable[[], object]) -> KitError | None:
    try:
        ask()
    except KitError as error:
        return error
    return None
