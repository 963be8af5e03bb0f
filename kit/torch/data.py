"""Datasets and loaders of torch as data of `kit.train`: `kit.data.torch`.

Loading is torch's: a `DataLoader` with its processes and its prefetching. Which
examples it loads is psring's choice, so that workers never disagree on it, and a step
can be read again after a training was resumed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError
from kit.training.data.agreement import DataReport
from kit.training.data.dask_source import Batch
from kit.training.data.sources import ArraySource, IterableSource, Source


def sharded(
    data: Any,
    *,
    shuffle: bool | None = None,
    workers: int | None = None,
    prefetch: int = 2,
    collate: Any = None,
) -> TorchData:
    """Let a training read a dataset or DataLoader of torch, each worker its own rows.

    All workers agree on the order of the examples, which is drawn from the training's
    seed. It does not depend on their number, and a training that resumes goes on with
    the example at which it was saved. Each example is read once, by one worker, with
    the generators of torch, numpy and Python seeded for the example and the pass, so
    random augmentations are the same whoever makes them.

    Parameters
    ----------
    data : torch Dataset, IterableDataset or DataLoader
        Of a loader its dataset, `collate_fn`, `num_workers` and whether it shuffles are
        taken; its `batch_size` has to be `batch` of `kit.train`.
    shuffle : bool, optional
        Whether each pass has another order; by default True, or as the loader does. An
        iterable dataset has its own order.
    workers : int, optional
        How many processes each worker of the training loads with; by default 0, or as
        the loader does. 0 loads in the task itself, between two steps.
    prefetch : int, default 2
        How many mini-batches each of these processes reads ahead.
    collate : callable, optional
        Makes a mini-batch of a list of examples: a tensor, or a tuple of tensors.

    Returns
    -------
    TorchData
        Give it to `kit.train` as `data`. A step gets numpy arrays.

    Raises
    ------
    InvalidArgumentError
        A loader has a sampler of its own, or an argument is out of range.

    Notes
    -----
    Of an iterable dataset every worker reads all examples and keeps its rows, and a
    training that resumes reads on from the start of the stream.

    Examples
    --------
    ::

        data = kit.data.torch(torchvision.datasets.MNIST("data", transform=ToTensor()),
                              workers=2)
        run = kit.train(step, params, data, batch=256)
    """
    batch = None
    if isinstance(data, DataLoader):
        _check_order(data)
        batch = data.batch_size
        if shuffle is None:
            shuffle = isinstance(data.sampler, RandomSampler)
        workers = data.num_workers if workers is None else workers
        collate, data = collate or data.collate_fn, data.dataset
    is_iterable = isinstance(data, IterableDataset)
    if not is_iterable and not (
        hasattr(data, "__getitem__") and hasattr(data, "__len__")
    ):
        raise InvalidArgumentError(
            f"{type(data).__name__} is not a torch dataset; give one with __getitem__ "
            f"and __len__, an IterableDataset, or a DataLoader."
        )
    for name, value, least in (("workers", workers or 0, 0), ("prefetch", prefetch, 1)):
        if not (isinstance(value, int) and value >= least):
            raise InvalidArgumentError(
                f"{name} is {value!r}; give a whole number of at least {least}."
            )
    return TorchData(data, batch, shuffle is not False, workers or 0, prefetch, collate)


def _check_order(loader: DataLoader[Any]) -> None:
    own = type(loader.sampler).__name__
    is_plain = type(loader.sampler) in (RandomSampler, SequentialSampler)
    is_plain = is_plain and not getattr(loader.sampler, "replacement", False)
    if not (is_plain or isinstance(loader.dataset, IterableDataset)):
        raise InvalidArgumentError(
            f"the loader has a {own}, which each worker would draw from by itself; "
            f"give kit.data.torch(loader.dataset), which shards and shuffles alike in "
            f"all workers, or a dataset that holds what the sampler would choose."
        )
    if loader.batch_size is None:
        raise InvalidArgumentError(
            "the loader has a batch sampler of its own, or none; give "
            "kit.data.torch(loader.dataset) and kit.train(..., batch=...)."
        )


class TorchData:
    """What `kit.data.torch` returns: data that know how they are divided."""

    def __init__(
        self,
        dataset: Any,
        batch: int | None,
        shuffle: bool,
        workers: int,
        prefetch: int,
        collate: Any,
    ) -> None:
        self.dataset, self.batch, self.shuffle = dataset, batch, shuffle
        #: Of a DataLoader.
        self.options: dict[str, Any] = {"num_workers": workers, "collate_fn": collate}
        if workers:
            self.options["prefetch_factor"] = prefetch

    def source(self, batch: int, seed: int, worker: int, n_workers: int) -> Source:
        """Return one worker's source; see `kit.data.Divided`."""
        if self.batch not in (None, batch):
            raise InvalidArgumentError(
                f"the loader has mini-batches of {self.batch}, and the training of "
                f"{batch}, over all workers; write kit.train(..., batch={self.batch})."
            )
        if isinstance(self.dataset, IterableDataset):
            return IterableSource(_Passes(self, batch, seed), worker, n_workers)
        numbers = np.arange(len(self.dataset))
        rows = ArraySource(
            numbers, batch, seed, worker, n_workers, shuffle=self.shuffle
        )
        return MapSource(self, rows, len(numbers) // batch, seed)


class MapSource:
    """One worker's rows of a dataset with numbered examples, read ahead."""

    def __init__(
        self, data: TorchData, rows: ArraySource, per_pass: int, seed: int
    ) -> None:
        self._data, self._rows, self._per_pass, self._seed = data, rows, per_pass, seed
        self.examples = rows.examples
        self._step, self._parts = -1, tuple[Any, ...]()
        self._batches: Iterator[Any] = iter(())

    def batch(self, step: int) -> Batch:
        """Return this worker's rows of mini-batch `step`; any step, at any time."""
        if step != self._step:
            if step != self._step + 1 or self._step < 0:
                self._batches = self._from(step)
            self._parts, self._step = _parts(next(self._batches)), step
        return tuple(np.array(to_numpy(part)) for part in self._parts)

    def report(self, step: int) -> DataReport | None:
        """See `kit.training.data.sources.Reported`: the numbers of the examples."""
        return self._rows.report(step)

    def _from(self, step: int) -> Iterator[Any]:
        numbered = _Seeded(self._data.dataset, self._seed)
        return iter(
            DataLoader(
                numbered,
                batch_sampler=self._numbers(step),
                # Else it draws from the generator of this process.
                generator=torch.Generator().manual_seed(0),
                **self._data.options,
            )
        )

    def _numbers(self, step: int) -> Any:
        rows, per_pass = self._rows, self._per_pass

        class Numbers:
            def __iter__(self) -> Iterator[list[tuple[int, int]]]:
                at = step
                while True:
                    (rows_of_batch,) = rows.batch(at)
                    yield [(at // per_pass, int(row)) for row in rows_of_batch]
                    at += 1

        return Numbers()


class _Seeded:
    """A dataset whose examples are read with generators seeded for each of them."""

    def __init__(self, dataset: Any, seed: int) -> None:
        self._dataset, self._seed = dataset, seed

    def __getitems__(self, keys: list[tuple[int, int]]) -> list[Any]:
        """Read the examples of a mini-batch; torch calls this if it is there."""
        items = []
        with own_chance():
            for key in keys:
                _seed_all(self._seed, *key)
                items.append(self._dataset[key[1]])
        return items


class _Passes:
    """An iterable dataset as whole mini-batches, pass after pass."""

    def __init__(self, data: TorchData, batch: int, seed: int) -> None:
        self._data, self._batch, self._seed, self._pass = data, batch, seed, 0

    def __iter__(self) -> Iterator[Any]:
        number, self._pass = self._pass, self._pass + 1
        # More than one would each read the whole stream.
        options = self._data.options | {
            "num_workers": min(1, self._data.options["num_workers"])
        }
        words = np.random.SeedSequence([self._seed, number]).generate_state(
            1, np.uint64
        )
        chance = torch.Generator().manual_seed(int(words[0] >> np.uint64(1)))
        with own_chance():
            _seed_all(self._seed, number)
            states = _states()
        loader = DataLoader(
            self._data.dataset,
            batch_size=self._batch,
            drop_last=True,
            generator=chance,
            **options,
        )
        batches: Iterator[Any] | None = None
        while True:
            with own_chance():
                _restore(states)
                if batches is None:
                    batches = iter(loader)
                try:
                    item = next(batches)
                except StopIteration:
                    return
                finally:
                    states = _states()
            yield _parts(item)


def _parts(batch: Any) -> tuple[Any, ...]:
    """Return the arrays of a mini-batch.

    Raises `InvalidArgumentError` for a dict, whose order a step would have to guess.
    """
    if isinstance(batch, dict):
        names = ", ".join(f"batch[{name!r}]" for name in batch)
        raise InvalidArgumentError(
            f"the dataset's mini-batches are dicts, and a step gets a tuple of arrays; "
            f"give kit.data.torch(..., collate=f), where f ends with "
            f"batch = torch.utils.data.default_collate(examples); return ({names},)."
        )
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,)


# --------------------------------------------------------------------------------------
# The generators of this process, which a step may draw from too.


_chance = threading.RLock()


def _seed_all(*words: int) -> None:
    # SplitMix64 over the words: numpy's SeedSequence would take most of the time that
    # it takes to read a small example.
    seed = 0
    for word in words:
        seed = (seed ^ word) + 0x9E3779B97F4A7C15 & 2**64 - 1
        seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
        seed = (seed ^ seed >> 27) * 0x94D049BB133111EB & 2**64 - 1
        seed ^= seed >> 31
    torch.random.default_generator.manual_seed(seed >> 1)
    np.random.seed(seed & 2**32 - 1)
    random.seed(seed)


def _states() -> tuple[Any, ...]:
    return torch.get_rng_state(), np.random.get_state(), random.getstate()


def _restore(states: tuple[Any, ...]) -> None:
    torch.set_rng_state(states[0])
    np.random.set_state(states[1])
    random.setstate(states[2])


@contextmanager
def own_chance() -> Iterator[None]:
    """Give the generators back as they were, whatever is drawn in the block.

    One thread at a time: the workers of a cluster in one process share them.
    """
    with _chance:
        states = _states()
        try:
            yield
        finally:
            _restore(states)
