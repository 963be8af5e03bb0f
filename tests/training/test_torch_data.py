"""Datasets and loaders of torch: sharded alike by all workers, and resumed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kit
import kit.data
from kit.errors import InvalidArgumentError
from kit.testing.cluster import local_cluster
from tests.cases import for_each

torch = pytest.importorskip("torch")
N, BATCH = 24, 6


class Numbers:
    """A dataset, to torch, by its two methods."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, number: int) -> Any:
        noise = torch.rand(()) + float(np.random.random() + random.random())
        return np.float32(number), noise


Streamed: Any = torch.utils.data.IterableDataset


class Stream(Streamed):  # type: ignore[misc]  # where torch is missing it is Any
    def __iter__(self) -> Iterator[Any]:
        for number in torch.randperm(N):
            yield np.float32(number), torch.rand(())


def read(data: Any, n_workers: int, steps: range, part: int = 0) -> list[list[float]]:
    """The values of each step, over all workers in their order."""
    sources = [data.source(BATCH, 3, item, n_workers) for item in range(n_workers)]
    return [
        [v for source in sources for v in source.batch(step)[part].tolist()]
        for step in steps
    ]


@for_each("data", [kit.data.torch(Numbers()), kit.data.torch(Stream())])
def test_each_example_is_used_once_a_pass_whoever_shares_it(data: Any) -> None:
    per_pass = N // BATCH

    many = read(data, 3, range(2 * per_pass))

    for begin in (0, per_pass):
        used = np.concatenate(many[begin : begin + per_pass])
        assert sorted(used) == list(range(N))
    assert many[:per_pass] != many[per_pass:]


def test_mini_batches_and_augmentations_do_not_depend_on_the_workers() -> None:
    data = kit.data.torch(Numbers())

    for part in (0, 1):
        assert read(data, 3, range(6), part) == read(data, 1, range(6), part)


@for_each("make", [Numbers, Stream])
def test_a_training_that_resumes_reads_on_in_mid_pass(make: Any) -> None:
    for part in (0, 1):
        whole = read(kit.data.torch(make()), 2, range(7), part)
        assert read(kit.data.torch(make()), 2, range(2, 7), part) == whole[2:]


def test_processes_that_load_give_the_same() -> None:
    loader = torch.utils.data.DataLoader(
        Numbers(), batch_size=BATCH, shuffle=True, num_workers=1
    )

    assert read(kit.data.torch(loader), 1, range(5), 1) == read(
        *(kit.data.torch(loader, workers=0), 1, range(5), 1)
    )


def test_reading_draws_nothing_from_the_generators_of_the_process() -> None:
    def drawn(data: Any) -> Any:
        torch.manual_seed(1)
        np.random.seed(1)
        random.seed(1)
        if data is not None:
            read(data, 2, range(5))
        return float(torch.rand(())), np.random.random(), random.random()

    for make in (Numbers, Stream):
        assert drawn(kit.data.torch(make())) == drawn(None)


def test_a_loader_trains_on_each_example_once() -> None:
    seen: list[float] = []

    def step(params: Any, batch: Any) -> Any:
        seen.extend(batch[0].tolist())
        return 0.0, {"w": np.zeros(1)}

    loader = torch.utils.data.DataLoader(Numbers(), batch_size=BATCH, shuffle=True)
    how: dict[str, Any] = {"topology": "ring", "steps": N // BATCH, "batch": BATCH}
    with local_cluster(ps=0, worker=3) as cluster:
        data = kit.data.torch(loader)
        kit.train(step, {"w": np.zeros(1)}, data, cluster=cluster, **how).wait(20)

    assert sorted(seen) == list(range(N))


def loader(**options: Any) -> Any:
    return torch.utils.data.DataLoader(Numbers(), **options)


@for_each(
    ("dataset", "said"),
    [
        (lambda: 3, "int is not a torch dataset"),
        (lambda: loader(batch_size=None), "batch sampler"),
        (
            lambda: loader(
                sampler=torch.utils.data.WeightedRandomSampler(np.ones(N), N)
            ),
            "WeightedRandomSampler",
        ),
    ],
)
def test_what_cannot_be_sharded_is_refused(dataset: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        kit.data.torch(dataset())


def test_another_size_of_mini_batch_and_dicts_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"write kit\.train\(.*batch=4\)"):
        kit.data.torch(loader(batch_size=4)).source(64, 0, 0, 2)
    named = kit.data.torch(Numbers(), collate=lambda examples: {"x": examples})
    with pytest.raises(InvalidArgumentError, match=r"return \(batch\['x'\],\)"):
        named.source(BATCH, 0, 0, 1).batch(0)
