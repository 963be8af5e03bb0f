"""Compressors by themselves: their contract, their promises, and PyTorch's numbers."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

import kit
from kit.exchange import Compressor, Exchanged, Spec, Turn
from kit.exchange.compression.compressor import Arrays
from kit.exchange.compression.feedback import Feedback
from kit.exchange.compression.power_sgd import orthonormal
from kit.exchange.compression.quantization import Float16, Int8
from kit.exchange.compression.stages import checked_specs
from kit.exchange.compression.top_k import largest
from kit.testing import check_compressor
from tests.cases import for_each

OWN: list[Compressor] = [Float16(), Int8(), kit.TopK(0.1), kit.PowerSGD(2)]
Array = np.ndarray[Any, np.dtype[Any]]


class Group:
    """Some workers with a compressor each, whose sums are made here."""

    def __init__(self, compressor: Compressor, like: Arrays, n: int) -> None:
        self.specs = [Spec(k, v.shape, str(v.dtype)) for k, v in like.items()]
        self.stages = checked_specs(compressor.stages(self.specs, n), str(compressor))
        self.kept: list[dict[str, Any]] = [{} for _ in range(n)]
        self.sums: list[Arrays] = []  # of the last step, stage by stage
        self.messages: list[list[Arrays]] = []
        self._compressors, self.n = [copy.deepcopy(compressor) for _ in range(n)], n

    def mean(self, gradients: Sequence[Arrays], step: int) -> Arrays:
        """Return the mean gradient of a step, as worker 0 has it."""
        running = [
            Feedback(item, self.specs, self.stages, kept, "worker").exchange(
                own, Turn(step, rank, self.n)
            )
            for rank, (item, kept, own) in enumerate(
                zip(self._compressors, self.kept, gradients, strict=True)
            )
        ]
        sent, self.sums, self.messages = [next(item) for item in running], [], []
        for number in range(len(self.stages)):
            self.messages.append(sent)
            self.sums.append(total(sent))
            is_last = number == len(self.stages) - 1
            results = [self._result(item, is_last=is_last) for item in running]
            sent = results
        return sent[0]

    def _result(self, running: Any, *, is_last: bool) -> Arrays:
        try:
            result: Arrays = running.send(self.sums[-1])
        except StopIteration as end:
            assert is_last
            result = end.value
        return result


def total(sent: Sequence[Arrays]) -> Arrays:
    result = {name: np.array(value) for name, value in sent[0].items()}
    for text in sent[1:]:
        for name, value in text.items():
            np.add(result[name], value, out=result[name])
    return result


@pytest.mark.slow
@for_each("compressor", [*OWN, kit.TopK(1), kit.TopK(1e-9), kit.PowerSGD(1)])
def test_ours_keep_the_contract(compressor: Compressor) -> None:
    check_compressor(compressor)


class Wrong(Compressor):
    """Does all as float16 does, but for one thing."""

    def __init__(self, fault: str) -> None:
        self._of, self._fault, self._count = Float16(), fault, 0

    def stages(self, specs: Any, n_workers: int) -> Any:
        self._count += 1
        more = [Spec("more", (self._count,), "int8")] * (self._fault == "stages")
        return [*self._of.stages(specs, n_workers), [*specs, *more]]

    def exchange(self, gradients: Any, state: Any, turn: Turn) -> Any:
        self._count += 1
        if self._fault == "writes":
            for value in gradients.values():
                value[...] = 0
        result = yield from self._of.exchange(gradients, state, turn)
        yield gradients
        mean, own = dict(result.mean or {}), dict(result.own or {})
        match self._fault:
            case "own":
                own = {name: value / turn.n_workers for name, value in own.items()}
            case "differs":
                mean = own
            case "memory":
                mean = {name: value * self._count for name, value in mean.items()}
                return Exchanged(mean)
        return Exchanged(mean, own)


@for_each(
    ("fault", "words"),
    [
        ("stages", "it may depend on its arguments alone"),
        ("writes", "read-only"),
        ("own", "return `own` in the units of the gradient"),
        ("differs", "make it of the sums alone"),
        ("memory", "keep nothing but in `state`"),
    ],
)
def test_the_contract_names_what_is_wrong(fault: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_compressor(Wrong(fault))


numbers = st.floats(-100, 100, width=32)
matrices = some.arrays(np.float32, (6, 5), elements=numbers)


@given(st.lists(matrices, min_size=1, max_size=7))
def test_no_sum_of_8_bits_overflows_and_each_is_within_half_a_step(
    given_arrays: list[Any],
) -> None:
    n = len(given_arrays)
    group = Group(Int8(), {"w": given_arrays[0]}, n)

    mean = group.mean([{"w": given_array} for given_array in given_arrays], 0)["w"]

    exact = np.sum([row["w"].astype(int) for row in group.messages[1]], axis=0)
    assert np.array_equal(group.sums[1]["w"], exact)
    most = sum(float(np.abs(given_array).max()) for given_array in given_arrays)
    step = most / (126 - n / 2)
    wanted = np.mean(
        [given_array.astype(float) for given_array in given_arrays], axis=0
    )
    assert np.all(np.abs(mean - wanted) <= step * 0.501)


@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=40).flatmap(
        lambda values: st.tuples(st.just(values), st.integers(1, len(values)))
    )
)
def test_the_largest_are_chosen_and_of_equal_ones_the_first(case: Any) -> None:
    values, k = case
    order = sorted(range(len(values)), key=lambda at: (-abs(values[at]), at))

    result = largest(np.array(values, np.float32), k)

    assert result.tolist() == sorted(order[:k])


@given(some.arrays(np.float64, (7, 3), elements=numbers))
def test_columns_are_orthonormal_or_zero_and_span_the_same(matrix: Any) -> None:
    basis = orthonormal(matrix)

    lengths = np.sqrt((basis**2).sum(axis=0))
    assert all(abs(length - 1) < 1e-12 or length == 0 for length in lengths)
    inner = basis.T @ basis
    assert np.allclose(inner, np.diag(np.diag(inner)), atol=1e-12)
    scale = np.abs(matrix).max(initial=0)
    assert np.allclose(basis @ (basis.T @ matrix), matrix, atol=1e-12 * scale)


@for_each("compressor", OWN)
def test_nothing_is_lost_but_late(compressor: Compressor) -> None:
    """What was taken for the gradients, and what is kept back, is all of them."""
    dice, n = np.random.default_rng(3), 3
    like = {"w": np.zeros((12, 10)), "b": np.zeros(4)}
    group, whole, taken = Group(compressor, like, n), total([like]), total([like])
    for step in range(20):
        gradients = [
            {name: dice.normal(size=tensor.shape) for name, tensor in like.items()}
            for _ in range(n)
        ]
        mean = group.mean(gradients, step)
        taken = total([taken, mean])
        whole = total([whole, *gradients])

    for name in like:
        late = sum(kept["residual/" + name] for kept in group.kept)
        rounding = 1e-2 if str(compressor) == "float16" else 1e-9
        assert np.allclose(n * taken[name] + late, whole[name], atol=rounding)


class Plain(Compressor):
    """A compressor without its error feedback."""

    def __init__(self, of: Compressor) -> None:
        self._of = of

    def stages(self, specs: Any, n_workers: int) -> Any:
        return self._of.stages(specs, n_workers)

    def exchange(self, gradients: Any, state: Any, turn: Turn) -> Any:
        result = yield from self._of.exchange(gradients, state, turn)
        return Exchanged(result.mean)


def descended(compressor: Compressor, distance: float) -> float:
    """Return how far two workers with a parabola each stay from the common minimum.

    There, their gradients are opposite: in the first of four places, and `distance`.
    """
    centre, away = np.array([0.0, 1, -2, 3]), np.array([distance, 0, 0, 0])
    x = np.zeros(4)
    group = Group(compressor, {"x": x}, 2)
    for step in range(700):
        gradients = [{"x": x - centre - away}, {"x": x - centre + away}]
        x = x - 0.02 * group.mean(gradients, step)["x"]
    return float(np.abs(x - centre).max())


@pytest.mark.slow
@for_each(("compressor", "distance"), [(Int8(), 300.0), (kit.TopK(0.25), 30.0)])
def test_only_error_feedback_reaches_the_minimum(
    compressor: Compressor, distance: float
) -> None:
    assert descended(compressor, distance) < 0.5
    assert descended(Plain(compressor), distance) > 0.9


def test_a_direction_that_was_zero_comes_back() -> None:
    group = Group(kit.PowerSGD(1), {"w": np.zeros((8, 8))}, 2)
    group.mean([{"w": np.zeros((8, 8))}] * 2, 0)
    gradient = np.outer(np.arange(8.0), np.arange(8.0))

    mean = group.mean([{"w": gradient}] * 2, 1)["w"]

    assert np.allclose(mean, gradient)


# --------------------------------------------------------------------------------------
# The same gradients given to PyTorch's hooks, by two of its workers.

TORCH = """
import os, sys
import numpy as np, torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
given = np.load(f"{folder}/given.npy")[:, rank]

class Bucket:  # what DDP gives a hook: the gradients of some parameters, here of one
    def __init__(self, gradient):
        self.flat = torch.from_numpy(gradient.copy()).flatten()
    def buffer(self):
        return self.flat
    def gradients(self):
        return [self.flat.view(given.shape[1:])]
    def index(self):
        return 0
    def is_last(self):
        return True

def means(hook, state):
    found = [hook(state, Bucket(gradient)).wait() for gradient in given]
    return np.stack([mean.numpy().reshape(given.shape[1:]) for mean in found])

fp16 = means(default_hooks.fp16_compress_hook, None)
state = powerSGD_hook.PowerSGDState(None, 2, start_powerSGD_iter=2, random_seed=5)
torch.manual_seed(np.random.RandomState(5).randint(1_000_000_000))
start = torch.randn(given.shape[2], 2).numpy()  # as the hook draws it
for _ in range(2):  # which it leaves as they are
    powerSGD_hook.powerSGD_hook(state, Bucket(given[0])).wait()
power = means(powerSGD_hook.powerSGD_hook, state)
if rank == 0:
    np.savez(f"{folder}/said.npz", start=start, fp16=fp16, power=power)
dist.barrier()
os._exit(0)  # what is left of its threads cannot be ended in good order
"""

GRADIENTS = np.random.default_rng(2).normal(size=(5, 2, 20, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def pytorch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    """Return what PyTorch's hooks make of `GRADIENTS`, and the first Q of PowerSGD."""
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    folder = tmp_path_factory.mktemp("torch")
    np.save(folder / "given.npy", GRADIENTS)
    command = [sys.executable, "-c", TORCH]
    tasks = [subprocess.Popen([*command, str(n), str(folder)]) for n in range(2)]
    assert [task.wait(80) for task in tasks] == [0, 0]
    with np.load(folder / "said.npz") as said:
        return dict(said)


@pytest.mark.slow
def test_float16_gives_what_the_hook_of_pytorch_gives(pytorch: Any) -> None:
    for result, own in zip(pytorch["fp16"], GRADIENTS, strict=True):
        group = Group(Float16(), {"w": own[0]}, 2)  # the hook has no error feedback
        mean = group.mean([{"w": item} for item in own], 0)["w"]

        np.testing.assert_allclose(mean, result, rtol=2**-10, atol=2**-14)


@pytest.mark.slow
def test_power_sgd_gives_what_the_hook_of_pytorch_gives(pytorch: Any) -> None:
    group = Group(kit.PowerSGD(2), {"w": GRADIENTS[0, 0]}, 2)
    for kept in group.kept:
        kept["state/w"] = pytorch["start"]
    for step, (result, own) in enumerate(zip(pytorch["power"], GRADIENTS, strict=True)):
        mean = group.mean([{"w": item} for item in own], step)["w"]

        np.testing.assert_allclose(mean, result, atol=1e-5)
        assert np.abs(mean - own.mean(axis=0)).max() > 0.1  # it is no plain mean
