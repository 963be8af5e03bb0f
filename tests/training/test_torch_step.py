"""A torch module as a step function: gradients, chance, buffers, evaluation."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.hooks import ValidationHook
from kit.testing.cluster import local_cluster
from kit.training.data.splits import shuffled
from tests.cases import for_each
from tests.training.pretended_gpus import pretended_gpus

torch = pytest.importorskip("torch")
kit_torch = pytest.importorskip("kit.torch")
torch.set_num_threads(1)  # more would spin for cores that other tests have
nn = torch.nn

DICE = np.random.default_rng(5)
X = DICE.normal(size=(32, 6))
Y = DICE.integers(3, size=32)
DATA = X, Y
loss = nn.functional.cross_entropy


def mlp(*more: Any) -> Any:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), *more, nn.ReLU(), nn.Linear(8, 3)).double()


def accuracy(output: Any, target: Any) -> Any:
    return (output.argmax(1) == target).double().mean()


def train(step: Any, n_workers: int = 2, **changes: Any) -> kit.Run:
    how: dict[str, Any] = {
        "optimizer": kit.GradientDescent(0.5),
        "topology": "ring",
        "steps": 6,
        "batch": len(X),
    } | changes
    with local_cluster(ps=0, worker=n_workers) as cluster:
        run = kit.train(step, step.params, DATA, cluster=cluster, **how)
        return run.wait(30)


def by_torch(model: Any, steps: int = 6) -> dict[str, Any]:
    """What plain torch makes of the model, on all examples in each step."""
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model(torch.from_numpy(X)), torch.from_numpy(Y)).backward()
        optimizer.step()
    return {name: item.detach().numpy() for name, item in model.named_parameters()}


@pytest.mark.parametrize("overlap", [False, True])
def test_a_module_in_mixed_precision_trains_as_with_torch_alone(overlap: bool) -> None:
    model = mlp().float()
    data = X.astype(np.float32), Y
    step = kit_torch.step(model, loss, autocast=torch.bfloat16, overlap=overlap)

    with local_cluster(ps=0, worker=1) as cluster:
        how: dict[str, Any] = {"topology": "ring", "batch": len(X), "cluster": cluster}
        descent = kit.GradientDescent(0.5)
        what = step, step.params, data
        run = kit.train(*what, optimizer=descent, steps=6, **how).wait(30)

    alone = copy.deepcopy(model)
    optimizer = torch.optim.SGD(alone.parameters(), 0.5)
    for number in range(6):
        order = torch.from_numpy(shuffled(len(X), 0, number))
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(
                alone(torch.from_numpy(data[0])[order]), torch.from_numpy(Y)[order]
            )
        value.backward()
        optimizer.step()
    exact = train(kit_torch.step(mlp(), loss), 1).params
    for name, item in alone.named_parameters():
        assert run.params[name].dtype == np.float32
        assert np.allclose(run.params[name], item.detach().numpy(), atol=1e-6), name
        assert not np.allclose(run.params[name], exact[name], atol=1e-6), name


@pytest.mark.parametrize("overlap", [False, True])
def test_a_module_in_float16_trains_as_with_the_scaler_of_torch(overlap: bool) -> None:
    model, data = mlp().float(), (X.astype(np.float32), Y)
    step = kit_torch.step(model, loss, autocast=torch.float16, overlap=overlap)
    first = 2.0**20  # too large: it is halved before the first update

    with local_cluster(ps=0, worker=1) as cluster:
        run = kit.train(
            *(step, step.params, data),
            compress=kit.LossScale(first, growth_interval=3, dtype="float32"),
            optimizer=kit.GradientDescent(0.5),
            topology="ring",
            steps=12,
            batch=len(X),
            cluster=cluster,
        ).wait(30)

    alone, scales = copy.deepcopy(model), list[float]()
    optimizer = torch.optim.SGD(alone.parameters(), 0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=first, growth_interval=3)
    for number in range(12):
        order = torch.from_numpy(shuffled(len(X), 0, number))
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            value = loss(
                alone(torch.from_numpy(data[0])[order]), torch.from_numpy(Y)[order]
            )
        scales.append(scaler.get_scale())
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
    assert run.frame()["loss_scale"].tolist() == scales
    assert len({*scales}) > 2
    for name, item in alone.named_parameters():
        assert np.allclose(run.params[name], item.detach().numpy(), atol=1e-6), name


@pytest.mark.parametrize(
    ("how", "overlap"),
    [
        ({}, False),
        ({"n_workers": 3}, False),
        ({"accumulate": 3}, False),
        ({"n_workers": 3}, True),
        ({"accumulate": 2}, True),
    ],
)
def test_a_module_trains_as_with_torch_alone(how: Any, overlap: bool) -> None:
    model = mlp()
    step = kit_torch.step(model, loss, overlap=overlap, measures={"hits": accuracy})

    with kit.settings(bucket_bytes=256):
        run = train(step, **how)

    for name, wanted in by_torch(model).items():
        np.testing.assert_allclose(run.params[name], wanted, rtol=0, atol=1e-12)
    assert 0 <= run.frame()["hits"].iloc[-1] <= 1
    step.load(run)
    assert np.array_equal(model[0].weight.detach().numpy(), run.params["0.weight"])


@pytest.mark.parametrize("overlap", [False, True])
def test_dropout_depends_on_seed_step_and_worker_alone(overlap: bool) -> None:
    def trained(seed: int, topology: str) -> Any:
        step = kit_torch.step(mlp(nn.Dropout(0.5)), loss, overlap=overlap)
        torch.manual_seed(seed + len(topology))  # of no account
        return train(step, seed=seed, topology=topology).params["0.weight"]

    assert np.array_equal(trained(1, "ring"), trained(1, "mesh"))
    assert not np.array_equal(trained(1, "ring"), trained(2, "ring"))


def test_reading_the_chance_of_a_step_leaves_that_of_the_process() -> None:
    step = kit_torch.step(mlp(nn.Dropout(0.5)), loss)
    grads = {name: np.zeros_like(value) for name, value in step.params.items()}

    torch.manual_seed(7)
    step(step.params, DATA, grads, np.random.default_rng(0))
    drawn = float(torch.rand(()))
    torch.manual_seed(7)

    assert drawn == float(torch.rand(()))


def test_parameters_that_the_loss_does_not_need_have_no_gradient() -> None:
    module: Any = nn.Module

    class Partly(module):  # type: ignore[misc]  # where torch is missing it is Any
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(6, 3), nn.Linear(2, 2)
            self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

        def forward(self, x: Any) -> Any:
            return self.used(x) * self.frozen

    for overlap in (False, True):
        step = kit_torch.step(Partly().double(), loss, overlap=overlap)
        begin = step.params

        result = train(step).params

        assert set(begin) == {
            *(f"{item}.{kind}" for item in ("used", "unused") for kind in LINEAR)
        }
        assert np.array_equal(result["unused.weight"], begin["unused.weight"])
        assert not np.array_equal(result["used.weight"], begin["used.weight"])


LINEAR = ("weight", "bias")


def test_buffers_are_kept_evaluated_and_loaded(tmp_path: Path) -> None:
    model = mlp(nn.BatchNorm1d(8))
    step = kit_torch.step(model, loss, measures={"hits": accuracy})
    before = float(model[1].running_mean.abs().sum())
    hook = ValidationHook(step.evaluate, DATA, every=3)

    # With one worker the averages are those of the whole mini-batch.
    run = train(step, 1, hooks=[hook], checkpoint=tmp_path / "saved")

    model.eval()
    step.load(kit.load_checkpoint(tmp_path / "saved"))
    with torch.no_grad():
        output = model(torch.from_numpy(X))
        wanted = float(loss(output, torch.from_numpy(Y)))
    assert before == 0 < float(model[1].running_mean.abs().sum())
    assert int(model[1].num_batches_tracked) == 6
    frame = run.frame()
    assert frame["validation_loss"].iloc[-1] == pytest.approx(wanted, abs=1e-12)
    hits = accuracy(output, torch.from_numpy(Y))
    assert frame["validation_hits"].iloc[-1] == pytest.approx(float(hits))


def test_a_step_travels_as_others_do() -> None:
    step = pickle.loads(pickle.dumps(kit_torch.step(mlp(), loss)))

    assert set(step.params) == {f"{n}.{kind}" for n in (0, 2) for kind in LINEAR}


@for_each(
    ("model", "said"),
    [
        (3, "model is int; give a torch.nn.Module"),
        (nn.ReLU(), "there is none that needs a gradient"),
        (nn.Linear(2, 2).half(), r"float16 on cpu.*model\.float\(\)"),
    ],
)
def test_what_cannot_be_trained_is_refused(model: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        kit_torch.step(model, loss)


def test_another_dtype_of_mixed_precision_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"give torch\.bfloat16"):
        kit_torch.step(mlp(), loss, autocast=torch.float64)


def test_float16_without_a_scale_of_all_workers_is_refused() -> None:
    step = kit_torch.step(mlp(), loss, autocast=torch.float16)

    with pytest.raises(InvalidArgumentError, match=r"compress=kit\.LossScale\(\)"):
        train(step)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_module_trains_in_the_memory_of_a_gpu(overlap: bool) -> None:
    step = kit_torch.step(
        mlp(nn.BatchNorm1d(8), nn.Dropout(0.2)), loss, overlap=overlap
    )
    on_cpus = train(step, optimizer=kit.Adam(0.01))

    with pretended_gpus():
        run = train(step, optimizer=kit.Adam(0.01), device="gpu")

    assert run.loss == on_cpus.loss
    for name, value in on_cpus.params.items():
        assert value.tobytes() == run.params[name].tobytes()
