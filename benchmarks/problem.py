"""What a benchmark trains: parameters, examples and how a step is computed.

It is written to a file once, and every process, ours or a peer's, reads that: all start
from the same bits and take the same examples in the same order. Reading needs nothing
but numpy, so a peer's own environment can do it.

    small, large    perceptrons of `mlp.SIZES`
    text            the demo's model of Python source, 2.3 million parameters
    6-5-4-3         a perceptron of these widths
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import mlp

Array = npt.NDArray[Any]
Batch = tuple[Array, ...]
NAMES = (*mlp.SIZES, "text")
CONTEXT = 32  # bytes that the model of text sees
_PARAM = "param "


@dataclass(frozen=True)
class Problem:
    """A model and its data.

    Attributes:
        params: initial values by name, in the order of the layers.
        examples: `x` and classes; of a text: positions in it, and the bytes there.
        text: what the positions are of; None for a perceptron.
    """

    params: dict[str, mlp.Floats]
    examples: Batch
    text: Array | None = None

    @property
    def n_bytes(self) -> int:
        """Bytes of all parameters."""
        return sum(value.nbytes for value in self.params.values())

    def part(self, step: int, worker: int, n_workers: int) -> Batch:
        """Return a worker's examples: the parts of a mini-batch are side by side.

        >>> one = make("4-3-2")
        >>> x, y = one.part(7, worker=1, n_workers=2)
        >>> bool((x == one.examples[0][(7 * 2 + 1) * 64 :][:64]).all()), len(y)
        (True, 64)
        """
        n_places = len(self.examples[0]) // (n_workers * mlp.BATCH)
        lo = (step % n_places * n_workers + worker) * mlp.BATCH
        return tuple(part[lo : lo + mlp.BATCH] for part in self.examples)

    def inputs(self, batch: Batch) -> Batch:
        """Return what a peer's network takes of a batch: inputs, and classes."""
        starts, classes = batch
        if self.text is None:
            return batch
        seen = self.text[starts[:, None] + np.arange(CONTEXT)]
        return seen.astype(np.int64), classes

    def source(self, batch: int, seed: int, worker: int, n_workers: int) -> Source:
        """Return one worker's source for `kit.train`; nothing is shuffled."""
        return Source(self, worker, n_workers)

    def step(self) -> Callable[..., Any]:
        """Return the step that hands its gradients over."""
        if self.text is None:
            return mlp.step
        from kit.demo.text import TextStep

        return _Starts(TextStep(self.text))

    def write(self) -> Callable[..., Any]:
        """Return the step that writes its gradients into arrays that it is given."""
        if self.text is None:
            return mlp.write
        step = self.step()

        def write(params: Any, batch: Batch, grads: dict[str, mlp.Floats]) -> float:
            handed = step(params, batch)
            while True:
                try:
                    name, gradient = next(handed)
                except StopIteration as end:
                    return float(end.value)
                np.copyto(grads[name], gradient)

        return write


@dataclass(frozen=True)
class Source:
    """One worker's examples, as `kit.train` asks for them."""

    problem: Problem
    worker: int
    n_workers: int

    def batch(self, step: int) -> Batch:
        """Return the worker's part of a mini-batch."""
        return self.problem.part(step, self.worker, self.n_workers)

    def examples(self, step: int) -> int:
        """Return how many rows that is."""
        return mlp.BATCH


@dataclass(frozen=True)
class _Starts:
    """The demo's step, which reads the classes in the text by itself."""

    inner: Any

    def __call__(self, params: Any, batch: Batch) -> Generator[Any, None, float]:
        loss: float = yield from self.inner(params, batch[:1])
        return loss


def make(name: str) -> Problem:
    """Return the problem of a name.

    >>> list(make("6-5-3").params), make("6-5-3").n_bytes
    (['w0', 'b0', 'w1', 'b1'], 212)
    """
    if name == "text":
        return _text()
    widths = mlp.SIZES.get(name) or tuple(map(int, name.split("-")))
    return Problem(mlp.parameters(widths), mlp.examples(widths))


def _text() -> Problem:
    from kit.demo.text import text_model

    model = text_model(max_bytes=100_000)
    starts = model.train[0][: len(model.train[0]) // mlp.BATCH * mlp.BATCH]
    mixed = np.random.default_rng(1).permutation(starts)
    text = model.step.text
    return Problem(model.params, (mixed, text[mixed + CONTEXT].astype(np.int64)), text)


@contextmanager
def stored(name: str) -> Iterator[Path]:
    """Give the file of a problem, for as long as the block lasts."""
    problem = make(name)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "problem.npz"
        arrays: dict[str, Any] = dict(zip("xy", problem.examples, strict=True))
        for key, value in problem.params.items():
            arrays[_PARAM + key] = value
        if problem.text is not None:
            arrays["text"] = problem.text
        np.savez(path, **arrays)
        yield path


def load(path: str | Path) -> Problem:
    """Read a problem.

    >>> with stored("6-5-3") as path:
    ...     again = load(path)
    >>> bool((again.params["w1"] == make("6-5-3").params["w1"]).all())
    True
    """
    with np.load(path, allow_pickle=False) as result:
        params = {
            key.removeprefix(_PARAM): result[key]
            for key in result.files
            if key.startswith(_PARAM)
        }
        text = result["text"] if "text" in result.files else None
        return Problem(params, (result["x"], result["y"]), text)


def replay(problem: Problem, steps: int, n_workers: int) -> list[list[float]]:
    """Return each worker's loss in each step, computed here, in one process."""
    params = {name: value.copy() for name, value in problem.params.items()}
    losses: list[list[float]] = []
    write = problem.write()
    for number in range(steps):
        total = {name: np.zeros_like(value) for name, value in params.items()}
        losses.append([])
        for worker in range(n_workers):
            own = {name: np.empty_like(value) for name, value in params.items()}
            batch = problem.part(number, worker, n_workers)
            losses[-1].append(write(params, batch, own))
            for name, gradient in own.items():
                total[name] += gradient
        for name, gradient in total.items():
            params[name] -= gradient * np.float32(mlp.RATE / n_workers)
    return [list(item) for item in zip(*losses, strict=True)]
