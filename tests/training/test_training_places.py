"""A step that writes its gradients or yields them: where they lie, when they travel."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import GradientMismatch, KitError, NotFinite, StepFailed
from kit.exchange.layout import Spec, lay_out
from kit.exchange.ports.memory import Memory
from kit.trace.traffic import TransferKind
from kit.training.core.part import Overlap
from kit.training.worker.gradient_views import GradientViews, Marks
from kit.training.worker.worker import requested
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    begin,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

TOPOLOGIES = ["ps", "ring", "ring-whole", "mesh", "hierarchical"]


def writing(params: Params, batch: Any, grads: Params) -> float:
    loss, gradients = fit(params, batch)
    for name, gradient in gradients.items():
        grads[name][...] = gradient
    return loss


def train(step: Any, n_ps: int = 0, **changes: Any) -> kit.Run:
    bucket = changes.pop("bucket_bytes", 0)
    options: dict[str, Any] = {"steps": 5, "topology": "ring"} | changes
    with quick_cluster(n_ps, 3, bucket_bytes=bucket) as cluster:
        return begin(cluster, step, **options).wait(20)


def test_asynchronous_training_takes_written_gradients_too() -> None:
    run = train(writing, 1, topology="ps", sync=False, steps=60)

    # Of the parameters, and not of the last update: a worker that a busy machine held
    # back may push then what it computed with the first ones.
    before, after = (fit(params, DATA)[0] for params in (initial(), run.params))
    assert after < before / 10


def failure(step: Any, **changes: Any) -> KitError:
    with pytest.raises(KitError) as caught:
        train(step, **changes)
    return caught.value


def test_gradient_that_was_not_written_is_named() -> None:
    def forgetful(params: Params, batch: Any, grads: Params) -> float:
        loss, gradients = fit(params, batch)
        grads["w"][...] = gradients["w"]
        return loss

    error = failure(forgetful)

    assert isinstance(error, GradientMismatch)
    assert "did not write grads['b']" in error.message


def test_name_that_was_never_yielded_is_named() -> None:
    def silent(
        params: Params, batch: Any, grads: Params
    ) -> Generator[str, None, float]:
        loss = writing(params, batch, grads)
        yield "w"
        return loss

    error = failure(silent)

    assert isinstance(error, GradientMismatch)
    assert "'scale'" in error.message


def refused(step: Any, topology: str, words: str) -> Params:
    """Train until a gradient is refused in these words; return the parameters."""
    with quick_cluster(0, 3, bucket_bytes=8) as cluster:
        run = begin(cluster, step, topology=topology, steps=5)
        with pytest.raises(NotFinite, match=words):
            run.wait(20)
        return run.params


def test_nan_in_a_written_gradient_is_refused_and_changes_nothing() -> None:
    def broken(params: Params, batch: Any, grads: Params) -> float:
        loss = writing(params, batch, grads)
        if not np.array_equal(params["b"], initial()["b"]):  # from the second step on
            grads["w"][0] = np.nan
        return loss

    params = refused(broken, "ring", "'w' holds 1 NaN")

    assert same_bits(params, replayed(1, 3, kit.GradientDescent(), bucket=8))


@pytest.mark.parametrize("in_parts", [False, True])
def test_gradients_beside_grads_are_refused(in_parts: bool) -> None:
    def both(params: Params, batch: Any, grads: Params) -> Any:
        return fit(params, batch)

    def parts(params: Params, batch: Any, grads: Params) -> Any:
        loss, gradients = fit(params, batch)
        yield from gradients.items()
        return loss

    error = failure(parts if in_parts else both)

    assert isinstance(error, GradientMismatch)
    assert "return the loss alone" in error.message


def test_unknown_name_in_grads_fails_at_the_user_s_line() -> None:
    def misspelt(params: Params, batch: Any, grads: Params) -> float:
        grads["v"] = np.zeros(3, np.float32)
        return 0.0

    error = failure(misspelt)

    assert isinstance(error, StepFailed)
    assert "'v'" in error.message


def test_last_gradient_refused_after_the_first_has_travelled_changes_nothing() -> None:
    def broken(
        params: Params, batch: Any, grads: Params
    ) -> Generator[str, None, float]:
        loss, gradients = fit(params, batch)
        for name in reversed(gradients):
            np.copyto(grads[name], gradients[name])
            if name == "w" and not np.array_equal(params["b"], initial()["b"]):
                grads["w"][0] = np.inf
            yield name
        return loss

    params = refused(broken, "mesh", "'w' holds 0 NaN and 1 infinite")

    assert same_bits(params, replayed(1, 3, kit.GradientDescent(), bucket=8))


class Derived(kit.GradientDescent):
    """A rule of the user's own: nobody knows in which order it reads and writes."""


def places_of(**changes: Any) -> list[list[tuple[int, int]]]:
    """Return of each worker where parameters and gradients lay, step by step."""
    steps: dict[int, list[tuple[int, int]]] = {}

    def step(params: Params, batch: Any, grads: Params) -> float:
        places = params["w"].ctypes.data, grads["w"].ctypes.data
        steps.setdefault(threading.get_ident(), []).append(places)
        return writing(params, batch, grads)

    run = train(step, 1, **changes)
    assert run.step == changes.get("steps", 5)
    return list(steps.values())


@pytest.mark.parametrize("rule", [kit.GradientDescent, kit.Adam])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_next_parameters_lie_where_the_gradients_were(topology: str, rule: Any) -> None:
    result = places_of(topology=topology, optimizer=rule(0.01))

    assert len(result) == 3
    for places in result:
        assert len(places) == 5
        assert len({item for pair in places for item in pair}) == 2
        followed = [now for now, _ in places[1:]]
        assert followed == [gradient for _, gradient in places[:-1]]


@pytest.mark.parametrize(
    "changes",
    [
        *({"topology": name, "optimizer": Derived(0.01)} for name in TOPOLOGIES),
        {"topology": "ps", "aggregate": 2, "steps": 40},
        {"topology": "ps", "sync": False, "steps": 40},
    ],
)
def test_gradients_have_a_region_of_their_own_where_they_must(
    changes: dict[str, Any],
) -> None:
    for places in places_of(**changes):
        parameters, gradients = map(set, zip(*places, strict=True))
        assert len(gradients) == 1
        assert not gradients & parameters


@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_rows_that_a_step_does_not_write_count_as_zero(topology: str) -> None:
    def step(params: Params, batch: Any, grads: Params) -> float:
        rows = 6 if (params["e"] == 0).all() else 1  # all of them in the first step
        grads["e"][:rows] = 1.0
        return 0.0

    with quick_cluster(1, 2) as cluster:
        chosen: dict[str, Any] = {"topology": topology, "steps": 5, "batch": 6}
        start = {"e": np.zeros((6, 2))}
        descent = kit.GradientDescent(1.0)
        run = kit.train(
            step, start, np.zeros((20, 3)), cluster=cluster, optimizer=descent, **chosen
        ).wait(20)

        assert run.params["e"][:, 0].tolist() == [-5, -1, -1, -1, -1, -1]


# -- gradients that are yielded --------------------------------------------------------

NAMES = ["c", "b", "a"]  # the last parameter comes first in the buffer
FOUR = 4
#: What gradients are sent as, and parameters handed out, if that can be early.
KINDS: dict[str, tuple[TransferKind, TransferKind | None]] = {
    "ps": (TransferKind.PUSH, TransferKind.PULL),
    "ring": (TransferKind.REDUCE, TransferKind.GATHER),
    "ring-whole": (TransferKind.REDUCE, None),
    "mesh": (TransferKind.REDUCE, TransferKind.GATHER),
}


def one_by_one(params: Params, batch: Any) -> Generator[Any, None, float]:
    loss, gradients = fit(params, batch)
    yield from reversed(gradients.items())
    return float(loss)


class Slow:
    """A step whose last gradient takes its time; `ready` has when, by worker."""

    def __init__(self) -> None:
        self.ready = defaultdict[int, list[int]](list)

    def __call__(self, params: Params, batch: Any) -> Generator[Any, None, float]:
        yield "a", np.ones(64, np.float32)
        yield "b", np.ones(64, np.float32)
        total = 0.0
        for _ in range(80):  # some milliseconds, in which the interpreter is let go
            total += float(np.sort(np.arange(40_000.0)[::-1]).sum())
        self.ready[threading.get_ident()].append(time.monotonic_ns())
        yield "c", np.ones(64, np.float32)
        return total


@pytest.mark.slow
@pytest.mark.parametrize("topology", KINDS)
@pytest.mark.parametrize("slots", [False, True])
def test_first_bucket_is_sent_early_and_handed_out_early_without_slots(
    topology: str, slots: bool
) -> None:
    params = {name: np.zeros(64, np.float32) for name in NAMES}
    slow = Slow()
    with quick_cluster(1, 2, bucket_bytes=256) as cluster:
        run = kit.train(
            slow,
            params,
            DATA,
            optimizer=kit.Adagrad(0.1) if slots else kit.GradientDescent(0.1),
            topology=topology,
            steps=FOUR,
            batch=BATCH,
            cluster=cluster,
        ).wait(20)

    # When the workers had the last gradient, in each step.
    lasts = [*zip(*slow.ready.values(), strict=True)]
    assert (len(slow.ready), len(lasts)) == (2, FOUR)

    def n_early(kind: TransferKind, limits: list[int]) -> int:
        moved = run.trace.transfers[run.trace.transfers["kind"] == kind]
        firsts = [moved[moved["step"] == step]["start"].min() for step in range(FOUR)]
        return sum(first < limit for first, limit in zip(firsts, limits, strict=True))

    sent, handed_out = KINDS[topology]
    # A busy machine may let the other thread wait for once.
    assert n_early(sent, [min(times) for times in lasts]) >= 2
    if handed_out is not None:
        assert (n_early(handed_out, [max(times) for times in lasts]) > 0) != slots


def wait_for(event: threading.Event) -> None:
    assert event.wait(20)


def test_exchange_beside_the_computation_has_no_deadline_but_those_of_its_waits() -> (
    None
):
    go, ended = threading.Event(), threading.Event()
    exchange = Overlap(lambda _: wait_for(go), 1, "kit-exchange-test")
    exchange.ready(0)

    def finish() -> None:
        exchange.finish()
        ended.set()

    waiting = threading.Thread(target=finish)
    waiting.start()
    assert not ended.wait(0.05)
    go.set()
    wait_for(ended)
    waiting.join()
    exchange.close()


def test_step_may_yield_in_some_steps_only() -> None:
    def mixed(params: Params, batch: Any) -> Any:
        early = float(params["scale"]) == 1.0
        return one_by_one(params, batch) if early else fit(params, batch)

    with quick_cluster() as cluster:
        run = begin(cluster, mixed, steps=4).wait(10)

    assert same_bits(run.params, replayed(4, 2, kit.GradientDescent()))


# -- the arrays to write to ------------------------------------------------------------

SPECS = [Spec("w", (2, 3), "float32"), Spec("b", (3,), "float64")]


def memory() -> Memory:
    return Memory(lay_out(SPECS, n_workers=2))


def test_only_a_parameter_called_grads_asks_for_places() -> None:
    class Step:
        def __call__(self, params: Any, batch: Any, *, grads: Any) -> float:
            return 0.0

    def rest(params: Any, batch: Any, **grads: Any) -> float:
        return 0.0

    assert requested(Step()) == {"grads"}
    assert not requested(rest)
    assert not requested(max)


def test_assignment_copies_into_the_place() -> None:
    regions = memory()
    places = GradientViews(regions.gradients())

    places["w"] = np.arange(6, dtype=np.float32).reshape(2, 3)
    places["b"] += 2.0
    places.update(b=np.array([1.0, 2.0, 3.0]))

    assert regions.gradients()["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert regions.gradients()["b"].tolist() == [1, 2, 3]


def test_assignment_of_another_shape_or_dtype_names_the_gradient() -> None:
    places = GradientViews(memory().gradients())

    with pytest.raises(GradientMismatch, match=r"the gradient of 'w'.*\[3, 2\]"):
        places["w"] = np.zeros((3, 2), np.float32)
    with pytest.raises(GradientMismatch, match="float64"):
        places["w"] = np.zeros((2, 3))


def test_place_cannot_be_taken_away() -> None:
    places = GradientViews(memory().gradients())

    with pytest.raises(TypeError, match="write into them"):
        del places["w"]
    with pytest.raises(TypeError, match="write into them"):
        places.pop("w")
    with pytest.raises(TypeError, match="write into them"):
        places.clear()
    with pytest.raises(TypeError, match="write into them"):
        places.setdefault("v", np.zeros(3, np.float32))
    assert list(places) == ["w", "b"]


def test_union_with_gradients_copies_them_in() -> None:
    regions = memory()
    places = GradientViews(regions.gradients())
    same = places

    places |= {"b": np.array([1.0, 2.0, 3.0])}

    assert places is same
    assert regions.gradients()["b"].tolist() == [1, 2, 3]


def test_only_a_gradient_into_which_nothing_was_written_counts_as_left_out() -> None:
    regions = memory()
    marks, places = Marks(regions), regions.gradients()

    marks.set()
    places["w"][1] = np.nan  # a row other than the first

    assert marks.unset() == ["b"]
    assert places["w"][0].tolist() == [0, 0, 0]


def test_what_a_step_does_not_write_or_adds_to_begins_at_zero() -> None:
    regions = memory()
    marks, places = Marks(regions), regions.gradients()
    places["w"][...] = 7.0  # of the step before
    places["b"][...] = 7.0

    marks.set()
    places["w"][0] = 1.0
    np.add.at(places["b"], [0, 2, 0], 1.5)

    assert marks.unset() == []
    assert places["w"].tolist() == [[1, 1, 1], [0, 0, 0]]
    assert places["b"].tolist() == [3, 0, 1.5]
