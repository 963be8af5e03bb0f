"""Learning rates that are functions of the step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.testing.cluster import local_cluster
from kit.training.optimizers.rules import from_plain, named, to_plain
from tests.cases import for_each


def test_cosine_follows_its_formula() -> None:
    result = [kit.Cosine(0.4, steps=50, warmup=10, end=0.1)(step) for step in range(60)]

    for step, rate in enumerate(result):
        wanted = 0.4 * (step + 1) / 10
        if step >= 10:
            angle = math.pi * min(1.0, (step - 10) / 40)
            wanted = 0.1 + (0.4 - 0.1) * (1 + math.cos(angle)) / 2
        assert rate == pytest.approx(wanted, abs=1e-15)


def test_one_cycle_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    weights = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weights], 0.1)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.4, total_steps=70)
    ours = kit.OneCycle(0.4, steps=70)

    for step in range(70):
        assert ours(step) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        if step < 69:
            theirs.step()


def step(params: Any, batch: Any) -> Any:
    return 0.0, {"w": np.ones(1)}


@pytest.mark.slow
@for_each("rate", [kit.WarmUp(0.5, 4), lambda step: 0.5 * min(1, (step + 1) / 4)])
@for_each("rule", [kit.GradientDescent, kit.AdamW])
def test_a_training_takes_the_rate_of_each_step_also_when_it_resumes(
    rule: Any, rate: Any, tmp_path: Path
) -> None:
    options = (step, {"w": np.zeros(1)}, np.zeros((4, 1)))
    how: dict[str, Any] = {"batch": 4, "optimizer": rule(rate)}

    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    with local_cluster(ps=1, worker=2) as cluster:
        for steps in (2, 6):
            run = kit.train(
                *options, steps=steps, checkpoint=folder, cluster=cluster, **how
            ).wait(20)

    # All gradients are 1, so Adam's corrected mean and root are 1 as well.
    value = 0.0
    for rate_now in (0.125, 0.25, 0.375, 0.5, 0.5, 0.5):
        decay = 0.01 if rule is kit.AdamW else 0.0
        value = value * (1 - rate_now * decay) - rate_now
    assert run.params["w"][0] == pytest.approx(value, abs=1e-7)


def test_a_function_of_the_users_own_has_a_name_and_no_plain_form() -> None:
    optimizer = kit.Adam(lambda step: 0.1)

    with pytest.raises(InvalidArgumentError, match=r"schedule such as kit\.Cosine"):
        to_plain(optimizer)
    assert from_plain(named(optimizer), optimizer) is optimizer
