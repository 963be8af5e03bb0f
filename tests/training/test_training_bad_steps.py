"""A step function that fails, or returns what cannot be used, ends the training.

It ends on all members, with an error that names worker, step and parameter, and the
parameters are those of the step before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import GradientMismatch, KitError, NotFinite, PeerLost, StepFailed
from kit.exchange.ports import endpoint
from kit.exchange.ports.endpoint import Endpoint
from kit.testing.cluster import LocalCluster, local_cluster
from tests.training.backups import Marked
from tests.training.toy import Params, begin, fit, initial, replayed, same_bits

Step = Callable[[Params, Any], Any]


def failure(run: kit.Run) -> KitError:
    with pytest.raises(KitError) as caught:
        run.wait(10)
    return caught.value


def returning(**changes: Any) -> Step:
    """Return a step whose gradients are changed; None leaves one out."""

    def step(params: Params, batch: Any) -> Any:
        loss, gradients = fit(params, batch)
        options: dict[str, Any] = {**gradients, **changes}
        return loss, {
            name: value for name, value in options.items() if value is not None
        }

    return step


class Once:
    """A step that does something else in one step of one of the workers."""

    def __init__(self, at: int, instead: Step) -> None:
        self._calls, self._at, self._instead = 0, at, instead
        self._guard = threading.Lock()

    def __call__(self, params: Params, batch: Any) -> Any:
        with self._guard:  # both workers of the test are in this process
            number, self._calls = self._calls, self._calls + 1
        return (
            self._instead(params, batch) if number == self._at else fit(params, batch)
        )


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (returning(w=None), ["no gradient for 'w'"]),
        (returning(extra=np.zeros(3)), ["a gradient for 'extra', unknown here"]),
        (returning(w=np.zeros(4, np.float32)), ["'w'", "float32[4]", "float32[3]"]),
        (returning(w=np.zeros(3)), ["'w'", "float64[3]", ".astype('float32')"]),
        (returning(w=object()), ["'w'", "builtins.object"]),
        (lambda params, batch: (0.0, params["w"]), ["ndarray as gradients", "dict"]),
        (lambda params, batch: (0.0, [params["w"]]), ["list as gradients", "4 arrays"]),
        (lambda p, batch: fit(p, batch)[::-1], ["write return loss, gradients"]),
        (lambda params, batch: None, ["returned NoneType", "(loss, gradients)"]),
        (lambda params, batch: (1, 2, 3), ["returned tuple", "(loss, gradients)"]),
    ],
)
def test_gradient_that_does_not_fit_is_named(
    cluster: LocalCluster, step: Step, words: list[str]
) -> None:
    run = begin(cluster, step)

    error = failure(run)

    assert isinstance(error, GradientMismatch)
    assert str(error.task) in str(error)
    assert error.step == 0
    assert "step 0" in str(error)
    assert all(word in str(error) for word in words), error
    assert same_bits(run.params, initial())


@pytest.mark.parametrize("topology", ["ps", "ring", "ring-whole", "mesh"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_gradient_that_is_not_finite_changes_nothing_anywhere(
    cluster: LocalCluster, topology: str, bad: float
) -> None:
    poison = returning(w=np.array([0, bad, 0], np.float32))
    run = begin(cluster, Once(7, poison), topology=topology)

    error = failure(run)

    assert isinstance(error, NotFinite)
    assert error.step == 3  # two calls a step, so the eighth is in step 3
    assert str(error.task) in str(error)
    assert "step 3" in str(error)
    assert "'w'" in str(error)
    before = replayed(3, 2, kit.GradientDescent())
    assert same_bits(run.params, before)
    for server in cluster.servers[1:]:
        member = server.trainings.find(run.job.run)
        assert member.step == 3
        assert member.state == "failed"


def test_exception_of_the_user_comes_with_its_traceback(cluster: LocalCluster) -> None:
    def stumble(params: Params, batch: Any) -> Any:
        raise ZeroDivisionError("a mistake of mine")

    run = begin(cluster, Once(5, stumble))

    error = failure(run)

    assert isinstance(error, StepFailed)
    assert error.step == 2
    assert "ZeroDivisionError: a mistake of mine" in error.message
    assert str(error.task) in error.message
    assert "in stumble" in str(error.remote_traceback)
    assert run.state == "failed"
    assert run.error is error
    assert same_bits(run.params, replayed(2, 2, kit.GradientDescent()))


@pytest.mark.parametrize("instead", [SystemExit, KeyboardInterrupt])
def test_step_that_ends_the_program_ends_the_training_only(
    cluster: LocalCluster, instead: type[BaseException]
) -> None:
    def leave(params: Params, batch: Any) -> Any:
        raise instead

    assert isinstance(failure(begin(cluster, leave)), StepFailed)
    assert begin(cluster, fit).wait(10).step == 6


def test_other_members_are_stopped_with_the_same_error(cluster: LocalCluster) -> None:
    def stumble(params: Params, batch: Any) -> Any:
        raise ValueError("here")

    run = begin(cluster, Once(4, stumble))

    first = failure(run)

    for server in cluster.servers:
        member = server.trainings.find(run.job.run)
        assert member.join(5)
        assert member.state == "failed"
        assert "here" in str(member.error)
        assert str(first.task) in str(member.error)


@pytest.mark.parametrize("loss", ["much", None, [1.0, 2.0]])
def test_loss_that_is_no_number_is_shown(cluster: LocalCluster, loss: Any) -> None:
    run = begin(cluster, lambda params, batch: (loss, fit(params, batch)[1]))

    error = failure(run)

    assert isinstance(error, StepFailed)
    assert repr(loss) in str(error)
    assert "one number" in str(error)


def test_parameters_cannot_be_written_by_the_step(cluster: LocalCluster) -> None:
    def meddle(params: Params, batch: Any) -> Any:
        params["w"] += 1
        return fit(params, batch)

    run = begin(cluster, meddle)

    error = failure(run)

    assert isinstance(error, StepFailed)
    assert "read-only" in error.message
    assert "return gradients" in error.message
    assert same_bits(run.params, initial())


def test_dict_of_parameters_is_the_steps_own(cluster: LocalCluster) -> None:
    def shadow(params: Params, batch: Any) -> Any:
        result = fit(params, batch)
        params.clear()
        return result

    run = begin(cluster, shadow).wait(10)

    assert same_bits(run.params, replayed(6, 2, kit.GradientDescent()))


def twice(params: Params, batch: Any) -> Iterator[Any]:
    yield "w", fit(params, batch)[1]["w"]
    yield "w", fit(params, batch)[1]["w"]


def half(params: Params, batch: Any) -> Iterator[Any]:
    yield "w", fit(params, batch)[1]["w"]


def nameless(params: Params, batch: Any) -> Iterator[Any]:
    yield fit(params, batch)[1]["w"]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (twice, "'w' was handed over twice"),
        (half, "no gradient for 'none', 'b', 'scale'"),
        (nameless, "yield (name, gradient)"),
    ],
)
def test_generator_that_hands_over_wrongly_is_told(
    cluster: LocalCluster, step: Step, words: str
) -> None:
    error = failure(begin(cluster, step))

    assert isinstance(error, GradientMismatch)
    assert words in str(error)


def test_generator_that_raises_midway_changes_nothing(cluster: LocalCluster) -> None:
    def late(params: Params, batch: Any) -> Iterator[Any]:
        _, gradients = fit(params, batch)
        yield from list(reversed(gradients.items()))[:2]
        raise ValueError("too late")

    run = begin(cluster, late)

    assert isinstance(failure(run), StepFailed)
    assert same_bits(run.params, initial())


def test_failure_in_an_asynchronous_training_ends_it_for_all(
    cluster: LocalCluster,
) -> None:
    def stumble(params: Params, batch: Any) -> Any:
        sys.exit("enough")

    run = begin(cluster, Once(3, stumble), sync=False, steps=100_000)

    assert "enough" in str(failure(run))
    assert run.step < 100_000


def test_a_loss_that_is_nan_ends_the_training_unless_it_is_allowed(
    cluster: LocalCluster,
) -> None:
    def diverged(params: Any, batch: Any) -> Any:
        return float("nan"), fit(params, batch)[1]

    with pytest.raises(NotFinite, match=r"step 0: .*NaN as the loss.*nan_loss=True"):
        begin(cluster, diverged).wait(10)
    with kit.settings(nan_loss=True):
        assert begin(cluster, diverged).wait(10).state == "done"


# -- the cause before its effect -------------------------------------------------------


class Deaf:
    """In the place of what an endpoint calls when a link ends: nothing happens."""

    def __get__(self, *_: object) -> Callable[[], None]:
        return lambda: None

    def __set__(self, *_: object) -> None:
        """Keep nothing."""


def test_closed_link_does_not_hide_the_error_of_the_step_that_closed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met = []

    def noted(message: str, **where: Any) -> PeerLost:
        met.append(message)
        return PeerLost(message, **where)

    def stumble(params: Params, batch: Any) -> Any:
        (worker, step), *examples = batch
        if (worker, step) == (1, 3):
            raise ZeroDivisionError("a mistake of mine")
        return fit(params, examples)

    # No news comes before the closed link is noticed.
    monkeypatch.setattr(endpoint, "GRACE_S", 0.0)
    monkeypatch.setattr(Endpoint, "on_loss", Deaf(), raising=False)
    monkeypatch.setattr(endpoint, "PeerLost", noted)
    chosen = kit.settings(heartbeat_s=20, suspect_after_s=30, dead_after_s=400)
    with chosen as settings, local_cluster(0, 3, settings=settings) as cluster:
        run = begin(cluster, stumble, data=Marked(), steps=9, topology="ring")
        with pytest.raises(StepFailed, match="a mistake of mine") as caught:
            run.wait(10)

    # The coordinator, worker 0, knows the cause.
    assert any("closed its link to /job:worker/task:2" in text for text in met)
    assert "in stumble" in str(caught.value.remote_traceback)
