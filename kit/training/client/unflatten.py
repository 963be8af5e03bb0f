"""From the flat bytes of all parameters back to a dict of arrays."""

from __future__ import annotations

import numpy as np

from kit.exchange.layout import Layout
from kit.exchange.ports.memory import Array


def unflatten(layout: Layout, flat: bytes | bytearray) -> dict[str, Array]:
    """Return the parameters by name, in their order, as copies.

    >>> from kit.exchange.layout import Spec, lay_out
    >>> layout = lay_out([Spec("w", (2,), "float32")], n_workers=1)
    >>> unflatten(layout, np.float32([1, 2]).tobytes())["w"].tolist()
    [1.0, 2.0]
    """
    whole = np.frombuffer(flat, np.uint8, layout.n_bytes)
    return {
        leaf.spec.name: whole[leaf.range.lo : leaf.range.hi]
        .view(leaf.spec.dtype)
        .reshape(leaf.spec.shape)
        .copy()
        for leaf in layout.leaves
    }
