"""The part of a graph that computes some outputs, as TensorFlow reads it from a file.

Variables are constants of it, with the values that a session has. What is an attribute
of an operation here and an input there becomes a constant too.

    _FORMS["Mean"] = "T=0 Tidx=int32 keep_dims:keepdims <axis"

is an operation whose T is the dtype of input 0 and Tidx always int32, whose keep_dims
is the attribute `keepdims`, and which has one more input, the attribute `axis`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from kit.errors import UnimplementedError
from kit.tf1.graph.graph_def import versions
from kit.tf1.summary.messages import message
from kit.tf1.tensor.dtypes import as_dtype

_IMAGES: Final = "T=0 ksize strides padding data_format"
_REDUCED: Final = "T=0 Tidx=int32 keep_dims:keepdims <axis"
_FORMS: Final[dict[str, str]] = {
    **dict.fromkeys(
        [
            *("Abs", "AddV2", "BiasAdd", "Elu", "Equal", "Exp", "Floor", "Greater"),
            *("GreaterEqual", "Identity", "Less", "LessEqual", "Log", "LogSoftmax"),
            *("Maximum", "Minimum", "Mul", "Neg", "NotEqual", "Pow", "RealDiv"),
            *("Relu", "Relu6", "Round", "Rsqrt", "Sigmoid", "Sign", "Softmax"),
            *("Softplus", "Softsign", "Sqrt", "Square", "SquaredDifference", "Sub"),
            *("Tanh", "ZerosLike"),
        ],
        "T=0",
    ),
    **dict.fromkeys(["LogicalAnd", "LogicalNot", "LogicalOr"], ""),
    **dict.fromkeys(["Max", "Mean", "Min", "Prod", "Sum"], _REDUCED),
    **dict.fromkeys(["AvgPool", "MaxPool"], _IMAGES),
    **dict.fromkeys(
        ["ArgMax", "ArgMin"], "T=0 Tidx=int32 output_type=out <axis !keepdims"
    ),
    "Cast": "SrcT=0 DstT=out",
    "ConcatV2": "T=0 N=n Tidx=int32 <axis",
    "Conv2D": "T=0 strides padding dilations data_format",
    "ExpandDims": "T=0 Tdim=int32 <axis",
    "GatherV2": "Tparams=0 Tindices=1 Taxis=int32 <axis",
    "MatMul": "T=0 transpose_a transpose_b",
    "Pack": "T=0 N=n axis",
    "Placeholder": "dtype=out shape",
    "Reshape": "T=0 Tshape=int32 <shape",
    "Select": "T=1 !rows",
    "Shape": "T=0 out_type=out",
    "Squeeze": "T=0 squeeze_dims:axis",
    "Tile": "T=0 Tmultiples=int32 <multiples",
    "TopKV2": "T=0 <k",
    "Transpose": "T=0 Tperm=int32 <perm",
}
_CALLED: Final = {"AddV2": "Add"}  # older releases have no AddV2


def inference_graph(session: Any, outputs: Iterable[Any]) -> Any:
    """Return a `GraphDef` that TensorFlow reads and that computes `outputs`.

    It is TensorBoard's class. Raises `UnimplementedError` for an operation that has no
    form there, `NotFoundError` where TensorBoard is not installed.
    """
    ops = _needed(outputs)
    variables = [op for op in ops if op.op_def.gives_ref]
    values = session.run([op.outputs[0] for op in variables])
    held = {op.name: item for op, item in zip(variables, values, strict=True)}
    made = message("GraphDef")()
    made.versions.producer = versions().producer
    for op in ops:
        if op.name in held or op.type == "Const":
            value = held[op.name] if op.name in held else op.attrs["value"]
            _add_constant(made, op.name, value)
        else:
            _add(made, op)
    return made


def _needed(outputs: Iterable[Any]) -> list[Any]:
    """Return the operations that compute outputs, each after those it takes from."""
    ops_needed, waiting = set(), [output.op for output in outputs]
    while waiting:
        op = waiting.pop()
        if op not in ops_needed:
            ops_needed.add(op)
            is_variable = op.op_def.gives_ref
            waiting += [] if is_variable else [tensor.op for tensor in op.inputs]
    return sorted(ops_needed, key=lambda op: int(op.number))


def _add(made: Any, op: Any) -> None:
    if op.type == "StridedSlice":
        inputs, attrs = _slice(made, op)
    elif op.type in _FORMS:
        inputs, attrs = _formed(made, op)
    else:
        raise UnimplementedError(
            f"operation {op.name!r} is a {op.type}, which has no form in a SavedModel "
            f"here. Give outputs that do without it, or keep the variables: "
            f"tf.train.Saver().save(session, path)."
        )
    own = [
        tensor.op.name + f":{tensor.index}" * (tensor.index > 0) for tensor in op.inputs
    ]
    node = made.node.add(name=op.name, op=_CALLED.get(op.type, op.type))
    node.input.extend([*own, *inputs])
    for name, (field, value) in attrs.items():
        if field == "list":
            node.attr[name].list.i.extend(value)
        elif field == "shape":
            _fill_shape(node.attr[name].shape, value)
        else:
            setattr(node.attr[name], field, value)


def _formed(made: Any, op: Any) -> tuple[list[str], dict[str, tuple[str, Any]]]:
    inputs: list[str] = []
    attrs: dict[str, tuple[str, Any]] = {}
    for word in _FORMS[op.type].split():
        if word[0] == "!":
            if op.attrs.get(word[1:]):
                raise UnimplementedError(
                    f"{op.type} with {word[1:]} has no form in a SavedModel: {op.name}."
                )
        elif word[0] == "<":
            value = op.attrs.get(word[1:])
            if value is None and word == "<axis":
                value = range(len(op.inputs[0].static.shape))
            if value is not None:
                name = f"{op.name}/{word[1:]}"
                value = np.asarray(value, np.int32)
                is_one = op.type in ("ExpandDims", "TopKV2") and value.size == 1
                _add_constant(made, name, value.reshape(()) if is_one else value)
                inputs.append(name)
        elif "=" in word:
            name, _, source = word.partition("=")
            attrs[name] = ("i", len(op.inputs)) if source == "n" else _dtype(op, source)
        else:
            name, _, here = word.partition(":")
            value = op.attrs.get(here or name)
            if value is not None or name == "shape":
                attrs[name] = _copied(name, value)
    return inputs, attrs


def _dtype(op: Any, source: str) -> tuple[str, int]:
    if source.isdigit():
        dtype = op.inputs[int(source)].static.dtype
    else:
        dtype = op.outputs[0].static.dtype if source == "out" else np.dtype(source)
    return "type", int(as_dtype(dtype).as_datatype_enum)


def _copied(name: str, value: Any) -> tuple[str, Any]:
    if name == "shape":
        return "shape", value
    if isinstance(value, bool):
        return "b", value
    if isinstance(value, int):
        return "i", value
    return ("s", value.encode()) if isinstance(value, str) else ("list", list(value))


def _slice(made: Any, op: Any) -> tuple[list[str], dict[str, tuple[str, Any]]]:
    """Return begin, end and strides as inputs; a mask has a bit for each place."""
    rows: list[list[int]] = []
    masks = dict.fromkeys(
        [
            "begin_mask",
            "end_mask",
            "shrink_axis_mask",
            "ellipsis_mask",
            "new_axis_mask",
        ],
        0,
    )
    for position, (kind, *values) in enumerate(op.attrs["spec"]):
        if kind == "i" and isinstance(values[0], int):
            rows.append([values[0], values[0] + 1, 1])
            masks["shrink_axis_mask"] |= 1 << position
        elif kind == "s":
            begin, end, stride = values
            rows.append([begin or 0, end or 0, 1 if stride is None else stride])
            masks["begin_mask"] |= (begin is None) << position
            masks["end_mask"] |= (end is None) << position
        else:
            raise UnimplementedError(
                f"slice {op.name!r} has no form in a SavedModel here; take numbers."
            )
    inputs = []
    for name, values in zip(
        ("begin", "end", "strides"), np.array(rows, np.int32).T, strict=True
    ):
        _add_constant(made, f"{op.name}/{name}", values)
        inputs.append(f"{op.name}/{name}")
    types = {"T": _dtype(op, "0"), "Index": _dtype(op, "int32")}
    return inputs, {**types, **{name: ("i", mask) for name, mask in masks.items()}}


def _add_constant(made: Any, name: str, value: Any) -> None:
    array = np.asarray(value)
    node = made.node.add(name=name, op="Const")
    node.attr["dtype"].type = int(as_dtype(array.dtype).as_datatype_enum)
    tensor = node.attr["value"].tensor
    tensor.dtype = node.attr["dtype"].type
    _fill_shape(tensor.tensor_shape, array.shape)
    if array.dtype == object:
        tensor.string_val.extend(array.reshape(-1).tolist())
    else:
        tensor.tensor_content = np.ascontiguousarray(array).tobytes()


def _fill_shape(proto: Any, sizes: Sequence[int | None] | None) -> None:
    if sizes is None:
        proto.unknown_rank = True
        return
    for size in sizes:
        proto.dim.add(size=-1 if size is None else size)
