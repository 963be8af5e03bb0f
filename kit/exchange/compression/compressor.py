"""What a compressor is: how a worker's gradients travel in fewer bytes.

Pure. Knows no worker, link or topology; `kit.exchange.compression.feedback` carries one
out at a worker, `kit.exchange.compression.stages` says what it costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from kit.exchange.layout import Spec
from kit.exchange.ports.memory import Array

Arrays: TypeAlias = dict[str, Array]


class Turn(NamedTuple):
    """The step and the worker of the gradients that a compressor is given.

    Parameters
    ----------
    step : int
        From 0.
    worker : int
        A place in the order of the workers, from 0.
    n_workers : int
        How many workers there are.
    """

    step: int
    worker: int
    n_workers: int


class Exchanged(NamedTuple):
    """The result of an exchange, by the parameters' names, shapes and dtypes.

    Attributes:
        mean: What the optimizer takes for the mean gradient. Made of sums alone, so
            that it has the same bits at every worker. None: no update is made in this
            step, at any worker.
        own: This worker's gradients as the others have received them: the mean of these
            over all workers is `mean`, up to rounding. What they lack is added to the
            next step's gradients (error feedback). None: nothing is added.
    """

    mean: Mapping[str, Array] | None
    own: Mapping[str, Array] | None = None


Exchange: TypeAlias = Generator[Mapping[str, Array], Arrays, Exchanged]


class Compressor(ABC):
    """Makes gradients small before they are sent; derive from it to make your own.

    In each stage every worker gives some arrays, and gets their sums over all workers,
    in the order in which gradients are added. How many stages there are, and of what
    arrays, `stages` says before anything is sent, so the bytes of a step are known.

    Each worker has its own copy of the object that was given. It must keep nothing from
    step to step except in `state`, which moves with its worker and is saved in
    checkpoints. What `exchange` does must depend on its arguments alone.
    `kit.testing.check_compressor` checks all this.

    Attributes
    ----------
    name : str
        What a run calls it; empty for the class's name and its settings.

    Examples
    --------
    Only the sign of each element, in one byte, for a step of fixed size: signSGD with
    error feedback (Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019).

    >>> import numpy as np
    >>> from kit.exchange import Compressor, Exchanged
    >>> class Signs(Compressor):
    ...     size = 0.01
    ...     def stages(self, specs, n_workers):
    ...         return [[spec._replace(dtype="int8") for spec in specs]]
    ...     def exchange(self, gradients, state, turn):
    ...         signs = {name: np.sign(g).astype("i1") for name, g in gradients.items()}
    ...         sums = yield signs
    ...         def sized(some, size):
    ...             dtype = {name: g.dtype.type for name, g in gradients.items()}
    ...             return {name: some[name] * dtype[name](size) for name in some}
    ...         mean = sized(sums, self.size / turn.n_workers)
    ...         return Exchanged(mean, own=sized(signs, self.size))
    >>> from kit.testing import check_compressor
    >>> check_compressor(Signs())
    """

    name: ClassVar[str] = ""

    @abstractmethod
    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """Return the arrays of each stage. It may depend on the arguments alone.

        Parameters
        ----------
        specs : sequence of Spec
            The parameters.
        n_workers : int
            How many workers add up. Sums are made in the dtype itself, so leave room
            for so many summands.

        Returns
        -------
        sequence of sequences of Spec
            At least one stage, and at least one array in each; names differ within a
            stage. Dtypes are float16, float32, float64, int8 and int32.

        Raises
        ------
        InvalidArgumentError
            These parameters cannot be compressed so.
        """

    @abstractmethod
    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """Yield the arrays of each stage and get their sums; return the result.

        Parameters
        ----------
        gradients : dict of str to array
            This worker's, plus what was not sent before. Read-only, like the sums,
            which stay valid until the step is over.
        state : dict of str to array
            What this worker keeps from step to step; empty before the first one.
        turn : Turn
            The step, the worker and the number of workers.

        Returns
        -------
        Exchanged
            The mean gradient, and this worker's gradients as they were sent.
        """

    def __str__(self) -> str:
        """Return what a run calls it."""
        plain = repr(self) if is_dataclass(self) else type(self).__name__
        return self.name or plain
