"""A step that takes `grads` writes its gradients where the neighbours read them."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import GradientMismatch, KitError, NotFinite, StepFailed
from tests.training.toy import (
    DATA,
    Params,
    begin,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.slow

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
