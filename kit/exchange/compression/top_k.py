"""The few largest of all elements; the others wait until they are large enough.

Pure. All workers send the same elements, so that these can be added up: in each step
the largest of another worker, as in ScaleCom (Chen et al., "ScaleCom: Scalable
sparsified gradient compression for communication-efficient distributed training",
NeurIPS 2020; without its low-pass filter). What a worker did not send is added to its
next gradient, as in deep gradient compression (Lin et al., ICLR 2018; without its
momentum correction).

    stage 0   worker `step mod n` gives the places; all others give zeros
    stage 1   the sum of what all have in these places

A parameter of which this would not save half the bytes travels whole, in stage 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kit.errors import InvalidArgumentError
from kit.exchange.compression.compressor import (
    Arrays,
    Compressor,
    Exchange,
    Exchanged,
    Turn,
)
from kit.exchange.layout import Spec
from kit.exchange.ports.memory import Array
from kit.handles import handle

_MOST_SHARE = 0.25  # places and values take as many bytes again as half of float32


@handle
@dataclass(frozen=True)
class TopK(Compressor):
    """The largest elements of each parameter, a share of them.

    Parameters
    ----------
    share : float
        Which part of a parameter's elements travels in a step, more than 0 and at most
        1: 0.01 sends one in a hundred, at least one.

    Examples
    --------
    >>> import kit
    >>> kit.TopK(0.01)
    TopK(share=0.01)
    """

    share: float

    def __post_init__(self) -> None:
        """Check the share."""
        is_number = isinstance(self.share, int | float) and self.share is not True
        if not (is_number and 0 < self.share <= 1):
            raise InvalidArgumentError(
                f"TopK's share is {self.share!r}; give the part of the elements to "
                f"send, more than 0 and at most 1, such as 0.01."
            )

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: two stages, one if all parameters travel whole."""
        counts = {spec.name: self._count(spec.shape) for spec in specs}
        places = [
            Spec(spec.name, (counts[spec.name],), "int32")
            for spec in specs
            if counts[spec.name]
        ]
        values = [
            spec._replace(shape=(counts[spec.name],)) if counts[spec.name] else spec
            for spec in specs
        ]
        return [places, values] if places else [values]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`."""
        flat = {name: gradient.ravel() for name, gradient in gradients.items()}
        counts = {name: self._count(grad.shape) for name, grad in gradients.items()}
        places: Mapping[str, Array] = {}
        if any(counts.values()):
            leads = turn.step % turn.n_workers == turn.worker
            places = yield {
                name: largest(flat[name], k) if leads else np.zeros(k, np.int32)
                for name, k in counts.items()
                if k
            }
        chosen = {
            name: flat[name][places[name]] if name in places else gradient
            for name, gradient in gradients.items()
        }
        sums = yield chosen
        mean = {
            name: total * total.dtype.type(1 / turn.n_workers)
            for name, total in sums.items()
        }
        return Exchanged(
            _spread(mean, places, gradients), _spread(chosen, places, gradients)
        )

    def _count(self, shape: tuple[int, ...]) -> int:
        """Return how many elements travel; 0: the parameter travels whole."""
        size = math.prod(shape)
        count = math.ceil(self.share * size)
        return count if count <= _MOST_SHARE * size else 0


def largest(values: Array, k: int) -> Array:
    """Return the places of the k largest magnitudes, in their order.

    Among equal ones, those that come first: the places are the same on any processor.

    >>> largest(np.float32([1, -3, 2, 3]), 2).tolist()
    [1, 3]
    """
    # Not by argpartition: among equal elements, its choice may depend on the processor.
    sizes = np.abs(values)
    least = np.partition(sizes, sizes.size - k)[sizes.size - k]
    above = np.flatnonzero(sizes > least)
    equal = np.flatnonzero(sizes == least)[: k - above.size]
    return np.sort(np.concatenate([above, equal])).astype(np.int32)


def _spread(
    values: Mapping[str, Array], places: Mapping[str, Array], like: Arrays
) -> Arrays:
    """Return whole parameters: values in their places, and zeros elsewhere."""
    arrays = dict(values)
    for name, where in places.items():
        whole = np.zeros(like[name].size, like[name].dtype)
        whole[where] = values[name]
        arrays[name] = whole.reshape(like[name].shape)
    return arrays
