"""A compressed training that resumes on other workers than those that saved it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.exchange import Compressor, Exchanged
from tests.training import compressed
from tests.training.compressed import DATA, fit, initial
from tests.training.toy import BATCH, quick_cluster

pytestmark = pytest.mark.slow
RATE = 0.01


class Late(Compressor):
    """Sends nothing before step 5, and then all that it had kept back."""

    def stages(self, specs: Sequence[Any], n_workers: int) -> Any:
        return [list(specs)]

    def exchange(self, gradients: Any, state: Any, turn: Any) -> Any:
        sent = gradients
        if turn.step < 5:
            sent = {name: np.zeros_like(g) for name, g in gradients.items()}
        state["step"], state["worker"] = np.array(turn.step), np.array(turn.worker)
        sums = yield sent
        n = turn.n_workers
        return Exchanged({k: s / s.dtype.type(n) for k, s in sums.items()}, sent)


def trained(n_workers: int, folder: Path, steps: int, **options: Any) -> kit.Run:
    how = {"optimizer": kit.GradientDescent(RATE), "compress": Late()} | options
    with quick_cluster(0, n_workers) as cluster:
        run = kit.train(
            fit,
            initial(),
            DATA,
            steps=steps,
            batch=BATCH,
            topology="ring",
            checkpoint=folder,
            cluster=cluster,
            **how,
        ).wait(30)
        assert run.params
    return run


def mean_gradients(step: int, n_workers: int) -> dict[str, Any]:
    own = compressed.gradients(initial(), step, n_workers)
    return {name: sum(g[name] for g in own) / n_workers for name in own[0]}


@pytest.mark.parametrize("n_workers", [2, 4])
def test_what_was_still_to_be_sent_comes_in_full_from_other_workers(
    tmp_path: Path, n_workers: int
) -> None:
    trained(3, tmp_path, steps=5)

    with pytest.warns(UserWarning, match="what 3 workers had yet to send was shared"):
        run = trained(n_workers, tmp_path, steps=6)

    steps = [mean_gradients(step, 3) for step in range(5)]
    steps.append(mean_gradients(5, n_workers))
    for name, value in initial().items():
        expected = value - RATE * sum(step[name] for step in steps)
        assert np.allclose(run.params[name], expected, rtol=1e-5, atol=1e-7), name
    assert not np.allclose(run.params["w"], initial()["w"])


def test_what_a_compressor_kept_and_workers_had_unlike_is_named_as_lost(
    tmp_path: Path,
) -> None:
    trained(3, tmp_path, steps=2)

    with pytest.warns(UserWarning, match="'state/worker' differed and is lost") as said:
        trained(2, tmp_path, steps=3)

    assert "state/step" not in str(said[0].message)


def test_what_a_step_function_keeps_still_needs_the_same_workers(
    tmp_path: Path,
) -> None:
    def counting(params: Any, batch: Any, state: dict[str, Any]) -> Any:
        state["n"] = state.get("n", 0) + 1
        return fit(params, batch)

    with quick_cluster(0, 3) as cluster:
        options: dict[str, Any] = {"batch": BATCH, "checkpoint": tmp_path}
        options |= {"compress": "int8", "topology": "ring"}
        what = counting, initial(), DATA
        kit.train(*what, steps=2, cluster=cluster, **options).wait(30)
    with (
        quick_cluster(0, 2) as cluster,
        pytest.raises(InvalidArgumentError, match="Train with the same workers"),
    ):
        kit.train(*what, steps=3, cluster=cluster, **options)
