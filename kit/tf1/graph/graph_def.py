"""A graph as the original's messages: `GraphDef`, `NodeDef`, `AttrValue`.

Pure. They are for reading; a graph travels in another form (`kit.graph.node`). A
program that inspects a graph finds the names and the fields that it knows:

    node.attr["dtype"].type                      the number of a dtype
    node.attr["shape"].shape.dim[0].size         a shape, -1 for an unknown size
    node.attr["value"].tensor.tensor_shape       a constant
    node.attr["_class"].list.s                   the groups of colocation
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from kit.graph.node import Node, node_of
from kit.graph.op import Op
from kit.tf1.graph.message import CheckedMessage, Choice, Repeated
from kit.tf1.tensor.dtypes import as_dtype, numpy_of
from kit.tf1.tensor.shape import TensorShapeProto, shape_proto


class DataType(Choice):
    """The number of a dtype."""

    @classmethod
    def text(cls, number: int) -> str:
        """Return the name: `DT_FLOAT`."""
        dtype = as_dtype(number) if number else None
        name = "INVALID" if dtype is None else dtype.base_dtype.name.upper()
        suffix = "_REF" if dtype is not None and dtype._is_ref_dtype else ""
        return f"DT_{_NUMBERED.get(name, name)}{suffix}"


_NUMBERED = {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE", "FLOAT16": "HALF"}


class TensorProto(CheckedMessage):
    """A constant: the bytes of its elements in order; texts and one number as such."""

    dtype: Annotated[int, DataType]
    tensor_shape: TensorShapeProto
    tensor_content: bytes
    float_val: list[float]
    double_val: list[float]
    int_val: list[int]
    string_val: list[bytes]
    int64_val: list[int]
    bool_val: list[bool]
    half_val: list[int]
    scomplex_val: list[float]
    dcomplex_val: list[float]
    uint32_val: list[int]
    uint64_val: list[int]


# The field for single values of a dtype, by the dtype's name.
VALUES = {
    **{"float32": "float_val", "float64": "double_val", "int64": "int64_val"},
    **dict.fromkeys(["int32", "int16", "int8", "uint16", "uint8"], "int_val"),
    **{"bool": "bool_val", "string": "string_val"},
    **dict.fromkeys(["float16", "bfloat16"], "half_val"),
    **{"complex64": "scomplex_val", "complex128": "dcomplex_val"},
    **{"uint32": "uint32_val", "uint64": "uint64_val"},
}


class ListValue(CheckedMessage):
    """Several values of one type."""

    s: list[bytes]
    i: list[int]
    f: list[float]
    b: list[bool]
    type: list[Annotated[int, DataType]]
    shape: Repeated[TensorShapeProto]


class AttrValue(CheckedMessage):
    """One attribute, in one of the fields."""

    IS_ONE_OF = True
    list: ListValue
    s: bytes
    i: int
    f: float
    b: bool
    type: Annotated[int, DataType]
    shape: TensorShapeProto
    tensor: TensorProto


def attrs_of(op: Op) -> dict[str, AttrValue]:
    """Return the attributes of an operation by name, including implied ones.

    Values for which the original's messages have no field are left out.
    """
    attrs: dict[str, Any] = dict(op.attrs)
    if op.op_def.name in _TYPED:
        attrs["dtype"] = op.outputs[0].static.dtype
    elif op.inputs:
        attrs["T"] = op.inputs[0].static.dtype
    if op.op_def.gives_ref or "shared_name" in attrs:
        attrs = {"shared_name": "", **attrs, "container": op.container}
    if "capacity" in attrs:
        attrs["component_types"] = attrs.pop("dtypes")
        attrs["shapes"] = attrs["shapes"] or ()
    if op.op_def.refs:
        attrs.setdefault("use_locking", op.op_def.name == "Assign")
    if op.colocation:
        attrs["_class"] = [f"loc:@{name}".encode() for name in op.colocation]
    pairs = ((name, _attr_value(name, value)) for name, value in sorted(attrs.items()))
    return {name: value for name, value in pairs if value is not None}


_TYPED = ("Const", "Placeholder", "TemporaryVariable", "VariableV2")


def _attr_value(name: str, value: Any) -> AttrValue | None:
    if name == "shape":
        return AttrValue(shape=shape_proto(value))
    if name == "shapes" and value:
        return AttrValue(list=ListValue(shape=[shape_proto(shape) for shape in value]))
    make = _KINDS.get(type(value))
    if make is None and isinstance(value, np.dtype):
        make = _of_dtype
    return None if make is None else make(value)


_AS_BYTES = ("float_val", "double_val", "int_val", "int64_val")


def tensor_proto(array: Any, shape: Any = None) -> TensorProto:
    """Return an array as a message, or fewer elements than its `shape` has."""
    dtype = as_dtype(array.dtype)
    sizes = array.shape if shape is None else tuple(shape)
    made = TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape_proto(sizes))
    field = VALUES[dtype.name]
    if shape is not None or array.size < 2 or field not in _AS_BYTES:
        flat = np.ascontiguousarray(array).reshape(-1)
        flat = flat.view(numpy_of(dtype.real_dtype)) if dtype.is_complex else flat
        flat = flat.view(np.uint16) if field == "half_val" else flat
        getattr(made, field).extend(flat.tolist())
    else:
        made.tensor_content = np.ascontiguousarray(array).tobytes()
    return made


def _of_dtype(dtype: Any) -> AttrValue:
    return AttrValue(type=as_dtype(dtype).as_datatype_enum)


def _of_list(values: Any) -> AttrValue | None:
    if values and all(isinstance(item, np.dtype) for item in values):
        numbers = [as_dtype(item).as_datatype_enum for item in values]
        return AttrValue(list=ListValue(type=numbers))
    kinds = {type(item) for item in values}
    fields = {bytes: "s", str: "s", int: "i", float: "f", bool: "b"}
    if len(kinds) != 1 or not kinds <= fields.keys():
        return None if values else AttrValue(list=ListValue())
    field = fields[kinds.pop()]
    encoded = [item.encode() if isinstance(item, str) else item for item in values]
    return AttrValue(list=ListValue(**{field: encoded}))


_KINDS: dict[type, Callable[[Any], AttrValue | None]] = {
    bool: lambda value: AttrValue(b=value),
    int: lambda value: AttrValue(i=value),
    float: lambda value: AttrValue(f=value),
    str: lambda value: AttrValue(s=value.encode()),
    bytes: lambda value: AttrValue(s=value),
    np.ndarray: lambda value: AttrValue(tensor=tensor_proto(value)),
    tuple: _of_list,
    list: _of_list,
}


# What the last release of the original writes into its graphs.
_PRODUCER = 134


@dataclass
class NodeDef:
    """One operation: `input` holds `a`, `a:1` for a second output, `^a` for control."""

    name: str = ""
    op: str = ""
    input: list[str] = field(default_factory=list)
    device: str = ""
    attr: dict[str, AttrValue] = field(default_factory=dict)
    # What it was made of, whose attributes are more than the messages can say.
    made_of: Node | None = field(default=None, repr=False, compare=False)

    def CopyFrom(self, other: NodeDef) -> None:
        """Take over all fields of another message."""
        self.__dict__.update(copy.deepcopy(other.__dict__))

    def __str__(self) -> str:
        lines = [f'name: "{self.name}"', f'op: "{self.op}"']
        lines += [f'input: "{name}"' for name in self.input]
        if self.device:
            lines.append(f'device: "{self.device}"')
        for key, value in sorted(self.attr.items()):
            body = "".join(f"    {line}\n" for line in str(value).splitlines())
            lines.append(f'attr {{\n  key: "{key}"\n  value {{\n{body}  }}\n}}')
        return "\n".join(lines) + "\n"


@dataclass
class VersionDef:
    """Which release wrote a graph."""

    producer: int = 0
    min_consumer: int = 0


@dataclass
class GraphDef:
    """All operations of a graph, in the order in which they were made."""

    node: list[NodeDef] = field(default_factory=lambda: Repeated(NodeDef))
    versions: VersionDef = field(default_factory=VersionDef)

    def __str__(self) -> str:
        parts = []
        for node in self.node:
            body = "".join(f"  {line}\n" for line in str(node).splitlines())
            parts.append(f"node {{\n{body}}}\n")
        if self.versions.producer:
            parts.append(f"versions {{\n  producer: {self.versions.producer}\n}}\n")
        return "".join(parts)


def node_def_of(op: Op) -> NodeDef:
    """Return an operation as a message."""
    inputs = [
        tensor.op.name if tensor.index == 0 else f"{tensor.op.name}:{tensor.index}"
        for tensor in op.inputs
    ]
    inputs += [f"^{control_input.name}" for control_input in op.control_inputs]
    return NodeDef(op.name, op.type, inputs, op.device, attrs_of(op), node_of(op))


def graph_def_of(ops: Iterable[Op], add_shapes: bool = False) -> GraphDef:
    """Return operations as a message, if wanted with the shapes of their outputs."""
    made = GraphDef(versions=versions())
    for op in ops:
        node = node_def_of(op)
        if add_shapes and op.outputs:
            shapes = [shape_proto(output.static.shape) for output in op.outputs]
            node.attr["_output_shapes"] = AttrValue(list=ListValue(shape=shapes))
        made.node.append(node)
    return made


def versions() -> VersionDef:
    """Return what a graph says about who wrote it."""
    return VersionDef(producer=_PRODUCER)
