"""What adding, copying and waking up cost on this machine, measured in a moment.

For rehearsals that were given no `Rates`. These are rough: the fit of real exchanges
(`kit.exchange.topologies.cost.fit`) is better, where there are measurements to fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from kit.exchange.topologies.cost import CACHE_BYTES, Rates

_ROUNDS, _NAPS = 7, 100
_NAP_S = 0.0002
_SMALL, _LARGE = CACHE_BYTES // 8, CACHE_BYTES * 8


@cache
def machine_rates() -> Rates:
    """Return the rates of this machine as it is now; measured once, in some 50 ms.

    A byte added in the cache and outside of it, a byte copied, and how much later than
    asked a process wakes up, which is what waiting for a message costs. Of several
    times the shortest counts: other work on the machine only adds to them.
    """
    near, far = (_seconds_a_byte(np.add, size) for size in (_SMALL, _LARGE))
    moved = _seconds_a_byte(np.copyto, _LARGE)
    late = min(_seconds(partial(time.sleep, _NAP_S)) for _ in range(_NAPS))
    return Rates(0.0, max(0.0, late - _NAP_S), moved, near, max(0.0, far - near))


def _seconds_a_byte(do: Callable[..., object], n_bytes: int) -> float:
    own, other = (np.ones(n_bytes // 4, np.float32) for _ in range(2))
    arrays = (own, other, own) if do is np.add else (own, other)
    return min(_seconds(partial(do, *arrays)) for _ in range(_ROUNDS)) / n_bytes


def _seconds(do: Callable[[], object]) -> float:
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun
