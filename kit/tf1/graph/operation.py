"""The original's `Operation`.

Pure. `kit.graph` does the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kit.graph.graph import Graph as NativeGraph
from kit.graph.op import Op, Tensor
from kit.graph.table import OpDef
from kit.tf1.graph.graph_def import NodeDef, node_def_of, tensor_proto
from kit.tf1.tensor.dtypes import as_dtype
from kit.tf1.tensor.shape import shape_proto

# Types that the original replaced by a numbered version.
_RENAMED = {"Add": "AddV2"}


class Operation(Op):
    """One node of a graph."""

    def __init__(
        self,
        graph: NativeGraph,
        name: str,
        op_def: OpDef,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        control_inputs: Sequence[Op],
        source_line: str,
    ) -> None:
        super().__init__(
            graph, name, op_def, inputs, attrs, control_inputs, source_line
        )
        # The original's programs compare them with lists, and modify them.
        self.outputs: Any = list(self.outputs)
        self.control_inputs: Any = list(self.control_inputs)

    @property
    def type(self) -> str:
        """The type of the operation: `MatMul`."""
        return _RENAMED.get(self.op_def.name, self.op_def.name)

    @property
    def node_def(self) -> NodeDef:
        """The node as a message: name, op, inputs, device, attributes."""
        return node_def_of(self)

    def values(self) -> tuple[Any, ...]:
        """Return the outputs."""
        return tuple(self.outputs)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it in `session` or the default one.

        Raises `ValueError` without a session, or with one of another graph.
        """
        from kit.tf1.session.running import session_for  # it needs this module first

        session_for(self, session, "run").run(self, feed_dict)

    def colocation_groups(self) -> list[bytes]:
        """Return the colocation groups that it belongs to, as `loc:@name`."""
        names = self.colocation or (self.name,)
        return [f"loc:@{name}".encode() for name in names]

    def get_attr(self, name: str) -> Any:
        """Return an attribute; raises `ValueError` for one that is not there."""
        if name == "_class" and self.colocation:
            return self.colocation_groups()
        if name == "T" and "T" not in self.attrs and (self.inputs or self.outputs):
            return as_dtype([*self.inputs, *self.outputs][0].static.dtype)
        if name == "dtype" and name not in self.attrs and self.outputs:
            return as_dtype(self.outputs[0].static.dtype)
        if name == "container" and self.op_def.stateful:
            return self.container.encode()
        if name == "shared_name" and self.op_def.stateful:
            return str(self.attrs.get(name) or "").encode()
        if name not in self.attrs:
            raise ValueError(f"Operation {self.name!r} has no attr named {name!r}.")
        return _public(name, self.attrs[name])

    def _set_device(self, device: Any) -> None:
        self.device = str(device)

    def __str__(self) -> str:
        return str(self.node_def)

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"


def _public(name: str, value: Any) -> Any:
    """Return an attribute as the original presents it."""
    if name == "shape":
        return shape_proto(value)
    if isinstance(value, np.dtype):
        return as_dtype(value)
    if isinstance(value, np.ndarray):
        return tensor_proto(value)
    return value.encode() if isinstance(value, str) else value
