"""Which ops stay on the host of their task: those of texts, and Python functions.

Pure. A node does not carry its dtypes, so the rules of the table find them once more,
without shapes. That costs some microseconds a node, once a plan, and only in a cluster
that has a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kit.graph.dtypes import STRING, DType
from kit.graph.node import Edge, Node
from kit.graph.static import Static
from kit.graph.table import lookup

_UNKNOWN = np.dtype("float32")


def hosted_nodes(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return the names of these nodes, with the reason: "holds texts".

    `nodes` are in an order in which inputs come first.
    """
    dtypes: dict[Edge, DType] = {}
    found: dict[str, str] = {}
    for name, node in nodes.items():
        own = _dtypes(node, dtypes)
        dtypes.update(((name, i), dtype) for i, dtype in enumerate(own))
        if lookup(node.type).hosted:
            found[name] = "is computed by Python"
        elif STRING in own or any(dtypes.get(one) == STRING for one in node.inputs):
            found[name] = "works with texts"
    return found


def _dtypes(node: Node, known: Mapping[Edge, DType]) -> list[DType]:
    given = [Static(None, known.get(edge, _UNKNOWN)) for edge in node.inputs]
    try:
        return [one.dtype for one in lookup(node.type).infer(given, node.attrs)]
    except (TypeError, ValueError, LookupError, AttributeError):
        return []  # its rule needs a shape; then it is not one of texts
