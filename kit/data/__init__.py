"""Data of a training: sources of one's own, torch datasets, and uneven splits.

`kit.train` reads arrays, dask arrays and iterables by itself. Whatever else gives each
worker its rows is `Divided`: it has a method `source(batch, seed, worker, n_workers)`,
which is called in each worker's task and returns what that worker reads, a `Source`.

    class Squares:
        def source(self, batch, seed, worker, n_workers):
            return SquaresOfOneWorker(seed, worker, batch // n_workers)

Steps are numbered from 0 through the whole training, and a training that resumes asks
for the step it goes on with: what a source gives must depend on the step and not on
what was read before, and then it has no state to save.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.training.data.sources import Divided as Divided
from kit.training.data.sources import Source as Source
from kit.training.data.uneven import by_label as by_label
from kit.training.data.uneven import dirichlet as dirichlet

if TYPE_CHECKING:
    from kit.torch.data import sharded as torch

__all__ = ["Divided", "Source", "by_label", "dirichlet", "torch"]


def __getattr__(name: str) -> Any:
    if name == "torch":  # it needs PyTorch
        from kit.torch.data import sharded

        return sharded
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
