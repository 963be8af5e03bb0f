"""Float16 with a loss scale on which all workers agree, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError, NotFinite
from kit.testing import check_step
from tests.cases import for_each
from tests.training.toy import quick_cluster, rows, update

DICE = np.random.default_rng(3)
X = DICE.normal(size=(60, 4)).astype(np.float32)
Y = (X @ np.array([1, -2, 3, 0.5])).astype(np.float32)
START = {"w": np.zeros(4, np.float32), "b": np.zeros((), np.float32)}
BATCH, N = 10, 2


def step(params: Any, batch: Any, scale: float) -> Any:
    """Return loss and gradients of a line, computed in float16 from a scaled loss."""
    x, y = (part.astype(np.float16) for part in batch)
    with np.errstate(all="ignore"):
        error = x @ params["w"].astype(np.float16) + params["b"].astype(np.float16) - y
        # In one product, as a backward pass of a mean would: it overflows alone.
        slope = (error.astype(np.float32) * (2 * scale / len(y))).astype(np.float16)
        gradients = {"w": x.T @ slope, "b": slope.sum(dtype=np.float16)}
    loss = float((error.astype(np.float32) ** 2).mean())
    more = {"scale": scale}
    return loss, {k: v.astype(np.float32) for k, v in gradients.items()}, more


def alone(steps: int, scale: float, interval: int, optimizer: Any) -> Any:
    """Return parameters and the scale of each step, by the rule of PyTorch's scaler."""
    params, scales, in_a_row = dict(START), list[float](), 0
    slots: dict[str, dict[str, Any]] = {name: {} for name in params}
    for number in range(steps):
        scales.append(scale)
        total = {
            name: np.zeros_like(value, np.float16) for name, value in START.items()
        }
        finite = True
        for part in np.array_split(rows(number, BATCH), N):
            _, own, _ = step(params, (X[part], Y[part]), scale)
            with np.errstate(all="ignore"):
                halves = {
                    k: (v * np.float32(1 / N)).astype("f2") for k, v in own.items()
                }
            finite = finite and all(np.isfinite(v).all() for v in halves.values())
            with np.errstate(all="ignore"):
                total = {k: np.asarray(v + halves[k]) for k, v in total.items()}
        if not finite or not all(np.isfinite(v).all() for v in total.values()):
            scale, in_a_row = scale / 2, 0
            continue
        for name, value in total.items():
            mean = value.astype("f4") * np.float32(1 / scale)
            params[name] = update(optimizer, params[name], mean, slots[name], number)
        in_a_row += 1
        if in_a_row == interval:
            scale, in_a_row = scale * 2, 0
    return params, scales


def train(**changes: Any) -> Any:
    how: dict[str, Any] = {
        "optimizer": kit.GradientDescent(0.05),
        "topology": "ring",
        "steps": 30,
        "batch": BATCH,
        "compress": kit.LossScale(2.0**18, growth_interval=4),
    } | changes
    with quick_cluster(int(how["topology"] == "ps"), N) as cluster:
        return kit.train(step, START, (X, Y), cluster=cluster, **how).wait(30)


@pytest.mark.parametrize("topology", ["ring", "ps", "mesh"])
@pytest.mark.parametrize("optimizer", [kit.GradientDescent(0.05), kit.Adam(0.05)])
def test_steps_and_scales_are_those_of_numpy(topology: str, optimizer: Any) -> None:
    run = train(topology=topology, optimizer=optimizer)

    params, scales = alone(30, 2.0**18, 4, optimizer)
    assert run.frame()["scale"].tolist() == scales
    assert len({*scales}) > 3, "it was halved and doubled"
    for name, wanted in params.items():
        assert run.params[name].tobytes() == wanted.tobytes(), name
    assert run.loss < 0.8 * run.frame()["loss"].iloc[0]


def test_an_overflow_at_one_worker_leaves_all_as_they_were() -> None:
    def once(params: Any, batch: Any, rng: Any, state: Any, scale: float) -> Any:
        state["n"] = state.get("n", 0) + 1
        loss, gradients, more = step(params, batch, scale)
        is_mine = len(batch[0]) and float(batch[0][0, 0]) == float(first)
        if state["n"] == 3 and is_mine:
            gradients["w"] = np.full(4, np.inf, np.float32)
        return loss, gradients, more | {"w0": float(params["w"][0])}

    first = X[rows(2, BATCH)[0], 0]  # the first example of the third step
    how: dict[str, Any] = {"topology": "ring", "steps": 6, "batch": BATCH}
    with quick_cluster(0, N) as cluster:
        run = kit.train(
            *(once, START, (X, Y)),
            compress=kit.LossScale(1024.0),
            optimizer=kit.GradientDescent(0.05),
            cluster=cluster,
            **how,
        ).wait(30)

    frame = run.frame()
    w0 = frame["w0"].tolist()
    assert w0[2] == w0[3], "the third step has changed nothing"
    assert len({*w0}) == 5
    assert frame["scale"].tolist() == [1024.0] * 3 + [512.0] * 3


def test_two_bytes_an_element_travel_and_four_that_tell_of_overflows() -> None:
    run = train(steps=5)

    moved = sum(row.sent for row in run.traffic)
    assert all("as by formula" in str(row) for row in run.traffic)
    assert moved == 5 * 2 * (N - 1) * (2 * 5 + 4)


def test_gradients_that_are_never_finite_end_the_training() -> None:
    def bad(params: Any, batch: Any, scale: float) -> Any:
        return 1.0, {k: np.full_like(v, np.nan) for k, v in params.items()}

    with quick_cluster(0, N) as cluster:
        run = kit.train(
            *(bad, START, (X, Y)),
            compress=kit.LossScale(8.0),
            topology="ring",
            batch=BATCH,
            cluster=cluster,
        )
        with pytest.raises(NotFinite, match="at a loss scale of 1"):
            run.wait(30)


@for_each(
    ("changes", "said"),
    [
        ({"compress": None}, r"compress=kit\.LossScale\(\)"),
        ({"compress": "float16"}, r"compress=kit\.LossScale\(\)"),
        ({"local_steps": 2}, "local_steps"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        train(**changes)


def test_a_step_that_does_not_scale_its_loss_is_refused() -> None:
    def plain(params: Any, batch: Any) -> Any:
        return step(params, batch, 1.0)

    with (
        quick_cluster(0, N) as cluster,
        pytest.raises(InvalidArgumentError, match="def step"),
    ):
        kit.train(plain, START, (X, Y), compress=kit.LossScale(), cluster=cluster)


def test_a_step_with_a_scale_can_be_checked() -> None:
    def exact(params: Any, batch: Any, scale: float) -> Any:
        x, y = batch
        error = x @ params["w"] + params["b"] - y
        slope = 2 * scale * error / len(y)
        return float((error**2).mean()), {"w": x.T @ slope, "b": slope.sum()}

    start = {name: value.astype(np.float64) for name, value in START.items()}
    check_step(exact, start, (X.astype(float), Y.astype(float)))
