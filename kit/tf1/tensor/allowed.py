"""Which element types an op accepts, where the original accepts fewer than numpy.

Pure. They stand in the table of ops (`OpDef.takes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.bfloat16 import kind_of
from kit.graph.dtypes import name_of
from kit.graph.table import lookup


def check_allowed(
    op_type: str, inputs: Iterable[Any], takes: str | None = None
) -> None:
    """Raise `TypeError` if the op does not take an input's element type.

    `takes` is for what is several operations here.
    """
    kinds = lookup(op_type).takes if takes is None else takes
    for tensor in inputs:
        dtype = tensor.static.dtype
        if kinds and kind_of(dtype) not in kinds:
            raise TypeError(
                f"{op_type} does not take {tensor.name!r} of {name_of(dtype)}; cast it "
                f"with tf.cast first."
            )
