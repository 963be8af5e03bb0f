"""The training that the tests of recordings record."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kit
from kit.testing.cluster import LocalCluster
from tests.training import toy
from tests.training.toy import BATCH, same_bits


def begin(
    cluster: LocalCluster,
    record: str | Path | kit.Recording | None = None,
    *,
    model: Any = toy,
    **options: Any,
) -> kit.Run:
    """Begin to train a model of the tests; `options` are those of `kit.train`."""
    arguments = {"step": model.fit, "params": model.initial(), "data": model.DATA}
    arguments |= {"batch": BATCH} | options
    return kit.train(record=record, cluster=cluster, **arguments)


def train(
    cluster: LocalCluster, record: str | Path | kit.Recording | None, **options: Any
) -> kit.Run:
    """Train it to its end, and fetch the parameters while the tasks are there."""
    run = begin(cluster, record, **options).wait(30)
    assert run.params
    return run


def try_numbers(check: Callable[[int], str], words: str) -> None:
    """Check FIRST and the COUNT - 1 numbers after it; the status says how many fail."""
    first, count = (int(number) for number in sys.argv[1:3])
    warnings.simplefilter("error")
    wrong = [text for n in range(first, first + count) if (text := check(n))]
    print(f"{count - len(wrong)} of {count} {words}")
    for text in wrong:
        print(text)
    sys.exit(min(len(wrong), 100))


def assert_replayed(
    folder: str | Path, run: kit.Run, step: Any = toy.fit, data: Any = toy.DATA
) -> Any:
    """Replay a recording to the bits of its training; return the replay."""
    result = kit.replay(folder, step=step, data=data)
    assert result.step == run.step
    assert same_bits(result.params, run.params)
    return result
