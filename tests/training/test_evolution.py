"""What a worker estimates in a step of an evolution strategy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit.training.data.sources import Divided, Source, make_source
from kit.training.features.evolve import (
    EvolutionShare,
    EvolutionStep,
    Population,
    noise,
    shifted,
)
from tests.training.toy import DATA, N, Params, initial, same_bits

SIGMA = 0.5


def slope(params: Params) -> float:
    """Return a linear loss: its gradient is 3 for `a` and -2 for each of `b`."""
    return float(3 * params["a"] - 2 * params["b"].sum())


START: Params = {"a": np.array(0.5), "b": np.array([1.0, -1.0], np.float32)}


def estimate(pairs: range, step: int = 0) -> tuple[float, Params]:
    return EvolutionStep(slope, SIGMA, seed=3)(START, (EvolutionShare(step, pairs),))


def test_noise_depends_on_seed_step_and_pair_and_on_nothing_else() -> None:
    drawn = [
        noise(initial(), seed, step, pair)
        for seed in (0, 1)
        for step in (0, 1)
        for pair in (0, 1)
    ]

    again = noise(initial(), 0, 1, 1)
    assert same_bits(drawn[3], again)
    assert len({row["w"].tobytes() for row in drawn}) == len(drawn)


def test_noise_has_the_form_of_the_parameters_and_is_standard_normal() -> None:
    params: Params = {"w": np.zeros((200, 100), np.float32), "s": np.zeros(())}

    drawn = noise(params, seed=5, step=7, pair=11)

    assert {n: (v.shape, v.dtype) for n, v in drawn.items()} == {
        n: (v.shape, v.dtype) for n, v in params.items()
    }
    # 20,000 values: these are six standard errors.
    assert abs(drawn["w"].mean()) < 0.043
    assert abs(drawn["w"].std() - 1) < 0.03


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
def test_every_seed_that_shuffles_examples_draws_noise(seed: int) -> None:
    assert np.isfinite(noise(START, seed, 0, 0)["b"]).all()


def test_networks_of_a_pair_lie_opposite_each_other() -> None:
    seen: list[Params] = []

    def loss(params: Params) -> float:
        seen.append(params)
        return 0.0

    EvolutionStep(loss, SIGMA, 3)(START, (EvolutionShare(2, range(4, 5)),))

    direction = noise(START, 3, 2, 4)
    for network, by in zip(seen, (SIGMA, -SIGMA), strict=True):
        for name, value in START.items():
            np.testing.assert_allclose(network[name], value + by * direction[name])
            assert network[name].dtype == value.dtype


def test_estimate_for_a_linear_loss_is_its_gradient_seen_through_the_noise() -> None:
    loss, result = estimate(range(5))

    wanted = {name: np.zeros_like(value) for name, value in START.items()}
    for pair in range(5):
        direction = noise(START, 3, 0, pair)
        # Linear: half the difference over sigma is the slope along the direction.
        for name, value in direction.items():
            wanted[name] += value.dtype.type(slope(direction) / 5) * value
    for name, value in wanted.items():
        np.testing.assert_allclose(result[name], value, rtol=1e-5)
        assert result[name].dtype == START[name].dtype
    assert loss == pytest.approx(slope(START))  # the pairs cancel


def test_constant_added_to_the_loss_changes_no_estimate() -> None:
    _, plain = estimate(range(3))

    def raised(params: Params) -> float:
        return slope(params) + 1024.0

    _, result = EvolutionStep(raised, SIGMA, 3)(START, (EvolutionShare(0, range(3)),))

    for name, value in plain.items():
        np.testing.assert_allclose(result[name], value, rtol=1e-5)


def test_workers_have_all_pairs_once_and_all_examples_each() -> None:
    population = Population(10, DATA, batch=6)
    sources = [make_source(population, 10, 0, worker, 3) for worker in range(3)]

    batches = [source.batch(4) for source in sources]

    assert isinstance(population, Divided)
    assert not isinstance(population, Source)
    shares: list[Any] = [share for share, _ in batches]
    assert [list(share.pairs) for share in shares] == [[0, 1], [2, 3], [4]]
    assert [source.examples(4) for source in sources] == [4, 4, 2]
    alone = make_source(DATA, 6, 0, 0, 1).batch(4)
    for _, judges in batches:
        assert all((a == b).all() for a, b in zip(judges, alone, strict=True))
        assert len(judges[0]) == 6 < N


def test_population_without_data_is_judged_without_examples() -> None:
    (share,) = make_source(Population(4), 4, 0, 0, 2).batch(9)

    assert share == EvolutionShare(9, range(0, 1))


def test_moving_keeps_the_parameters_and_their_dtypes() -> None:
    direction = noise(START, 0, 0, 0)

    moved = shifted(START, direction, 0.25)

    assert START["a"] == 0.5
    assert {n: (v.shape, v.dtype) for n, v in moved.items()} == {
        n: (v.shape, v.dtype) for n, v in START.items()
    }
