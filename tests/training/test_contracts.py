"""The contracts of `kit.testing`: what is ours keeps them, what is broken is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from kit.errors import KitError, from_plain, to_plain
from kit.testing import check_coordinator, check_optimizer
from kit.training.core.agreement import BoundaryReply, Verdict
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.job import Job
from kit.training.core.log import Epoch
from kit.training.optimizers.rule import Flat, Rule, Slot
from tests.cases import for_each
from tests.training.jobs import Asked


class AcrossLinks:
    """A coordinator that is asked as the other tasks ask it: by questions of a link."""

    def __init__(self, job: Job, clock: Callable[[], float]) -> None:
        self._job, self._coordinator = job, TrainingCoordinator(job, clock)
        self._asked = Asked(self._coordinator, job)

    def _ask(self, op: str, member: int, **values: Any) -> Any:
        answer, _ = self._asked.ask(op, member, **values)
        return json.loads(json.dumps(answer))

    def arrive(
        self, member: int, number: int, step: int, patience_s: float
    ) -> BoundaryReply:
        values = {"number": number, "step": step, "patience_s": patience_s}
        return _answer(self._ask("run.arrive", member, **values))

    def prepared(
        self, member: int, number: int, refusal: str | None, patience_s: float
    ) -> BoundaryReply:
        values = {"number": number, "refusal": refusal, "patience_s": patience_s}
        return _answer(self._ask("run.prepared", member, **values))

    def beat(self, member: int) -> KitError | None:
        return _error(self._ask("run.beat", member, digests=[]))

    def fail(self, error: KitError, *, by: int | None = None) -> KitError | None:
        assert by is not None
        return _error(self._ask("run.fail", by, error=to_plain(error)))

    def gone(self, member: int, reason: str) -> None:
        self._coordinator.gone(member, reason)

    def leave(self, member: int) -> None:
        self._ask("run.leave", member)

    def see_off(self, timeout_s: float) -> bool:
        return self._coordinator.see_off(timeout_s)

    def watch(self) -> None:
        self._coordinator.watch()

    def wants_halt(self, step: int) -> bool:
        return self._coordinator.wants_halt(step)

    def command(self, what: str, /, **values: Any) -> None:
        self._ask("run.command", self._job.coordinator, what=what, values=values)


def _answer(plain: Any) -> BoundaryReply:
    epoch = Epoch(**plain["epoch"]) if plain["epoch"] else None
    return BoundaryReply(
        Verdict(plain["verdict"]), epoch, plain["reason"], plain["step"]
    )


def _error(plain: Any) -> KitError | None:
    return from_plain(plain["error"]) if plain["error"] else None


@pytest.mark.parametrize("make", [TrainingCoordinator, AcrossLinks])
def test_coordinator_keeps_what_members_rely_on(make: Any) -> None:
    check_coordinator(make)


class Hasty(TrainingCoordinator):
    """Lets a member go on before the others have come."""

    def arrive(
        self, member: int, number: int, step: int, patience_s: float, *more: Any
    ) -> BoundaryReply:
        result = super().arrive(member, number, step, patience_s)
        return result._replace(verdict=Verdict.GO)


class EveryTimeAnother(TrainingCoordinator):
    """Takes a question that is heard again for another one."""

    _n_asked = 0

    def arrive(
        self, member: int, number: int, step: int, patience_s: float, *more: Any
    ) -> BoundaryReply:
        self._n_asked += 1
        result = super().arrive(member, number, step, patience_s)
        return result._replace(reason=f"answer {self._n_asked}")


class Halfway(TrainingCoordinator):
    """Begins what a member has refused."""

    def prepared(
        self,
        member: int,
        number: int,
        refusal: str | None,
        patience_s: float,
        *more: Any,
    ) -> BoundaryReply:
        return super().prepared(member, number, None, patience_s)


class Deaf(TrainingCoordinator):
    """Tells a member that beats nothing of a failure."""

    def beat(self, member: int) -> KitError | None:
        super().beat(member)
        return None


class Sleepy(TrainingCoordinator):
    """Never finds out that a member is silent."""

    def watch(self) -> None:
        return


@for_each(
    ("make", "text"),
    [
        (Hasty, "not all members have come to boundary 0, and a member hears .*GO"),
        (EveryTimeAnother, "all have to hear the same, however often they ask"),
        (Halfway, "one member refused epoch 2, and a member hears .*COMMIT"),
        (Deaf, "a member failed, and beat of /job:ps/task:0 says nothing of it"),
        (Sleepy, "worker/task:2 was silent for longer than dead_after_s, and beat"),
    ],
)
def test_broken_coordinator_is_told_what_is_wrong(make: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_coordinator(make)


# --------------------------------------------------------------------------------------
# Optimizers. Those of the package are checked in `test_optimizers`.


@dataclass(frozen=True)
class Descent(Rule):
    """What the broken ones are made from."""

    learning_rate: float = 0.1
    name: ClassVar[str] = "descent"

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("mean", 0.0),)

    def _update(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Any,
        out: Flat,
        work: Flat,
        rate: Any,
    ) -> None:
        slots[0][:] = gradient
        np.multiply(gradient, rate, out=work)
        np.subtract(parameter, work, out=out)


class KeepsItsHandsOn(Descent):
    """Writes into the gradient."""

    def _update(self, parameter: Flat, gradient: Flat, *rest: Any) -> None:
        gradient *= gradient.dtype.type(0.5)
        super()._update(parameter, gradient, *rest)


class ByTheNorm(Descent):
    """Divides by a norm of all elements."""

    def _update(
        self, parameter: Flat, gradient: Flat, slots: Any, out: Flat, *rest: Any
    ) -> None:
        norm = np.sqrt(np.square(gradient).sum()) + gradient.dtype.type(1)
        super()._update(parameter, gradient / norm, slots, out, *rest)


class WritesTooEarly(Descent):
    """Reads the parameter after it has written to `out`."""

    def _update(
        self, parameter: Flat, gradient: Flat, slots: Any, out: Flat, *rest: Any
    ) -> None:
        out[:] = 0
        super()._update(parameter, gradient, slots, out, *rest)


class DividesByNothing(Descent):
    """Divides by a gradient that may be zero."""

    def _update(
        self, parameter: Flat, gradient: Flat, slots: Any, out: Flat, *rest: Any
    ) -> None:
        with np.errstate(all="ignore"):
            np.divide(parameter, gradient, out=out)


@dataclass(frozen=True)
class Remembers(Descent):
    """Keeps the number of its calls beside its slots."""

    calls: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        return

    def rate_at(self, dtype: Any, step: int) -> Any:
        self.calls["n"] = n = self.calls.get("n", 0) + 1
        return dtype.type(self.learning_rate / n)


class Spends(Descent):
    """Reads its gradient after the last word, and says that it spends it."""

    spends = True

    def _update(
        self, parameter: Flat, gradient: Flat, slots: Any, out: Flat, *rest: Any
    ) -> None:
        super()._update(parameter, gradient, slots, out, *rest)
        slots[0][:] = gradient


class WiderSlots(Descent):
    """Has one name for two slots."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("mean", 0.0), Slot("mean", 1.0))


@for_each(
    ("rule", "text"),
    [
        (KeepsItsHandsOn(), "float32, step 0: the gradient was changed"),
        (ByTheNorm(), "cut into slices, the parameter is .* depend on that element"),
        (WritesTooEarly(), "with `out` being the parameter itself, the parameter is"),
        (DividesByNothing(), "out is .*inf at element 0, from gradient 0; .* zero"),
        (Remembers(), "applied to the same arrays again, .* nothing but its slots"),
        (Spends(), "written over its gradient, slot 'mean' is .* reads it too late"),
        (WiderSlots(), r"slots are called \['mean', 'mean'\]"),
    ],
)
def test_broken_optimizer_is_told_what_is_wrong(rule: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_optimizer(rule)


def test_optimizer_of_two_members_alone_is_one_too() -> None:
    class Plain:
        slots = ()

        def apply(
            self, parameter: Flat, gradient: Flat, slots: Any, out: Flat, step: int
        ) -> None:
            out[:] = parameter - parameter.dtype.type(0.1) * gradient

    check_optimizer(Plain())
