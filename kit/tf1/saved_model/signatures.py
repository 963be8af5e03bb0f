"""What a SavedModel takes and gives: tensors by name, under a method's name.

The messages are TensorBoard's classes; without TensorBoard making one raises
`NotFoundError` with the line that installs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.tf1.saved_model import signature_constants as names
from kit.tf1.summary.messages import message


def build_tensor_info(tensor: Any) -> Any:
    """Return name, dtype and shape of a tensor as a `TensorInfo`."""
    info = message("TensorInfo")(name=tensor.name)
    info.dtype = int(tensor.dtype.base_dtype.as_datatype_enum)
    if tensor.shape.ndims is None:
        info.tensor_shape.unknown_rank = True
    else:
        for size in tensor.shape.as_list():
            info.tensor_shape.dim.add(size=-1 if size is None else size)
    return info


def get_tensor_from_tensor_info(tensor_info: Any, graph: Any) -> Any:
    """Return the tensor of a graph that a `TensorInfo` names."""
    return graph.get_tensor_by_name(tensor_info.name)


def build_signature_def(
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    method_name: str | None = None,
) -> Any:
    """Return a `SignatureDef` of `TensorInfo`s by name."""
    made = message("SignatureDef")()
    for held, tensors in ((made.inputs, inputs), (made.outputs, outputs)):
        for name, info in (tensors or {}).items():
            held[name].CopyFrom(info)
    if method_name is not None:
        made.method_name = method_name
    return made


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    """Return the signature of a method that predicts outputs from inputs."""
    if not inputs or not outputs:
        raise ValueError("Prediction inputs and outputs cannot be None or empty.")
    return build_signature_def(
        {name: build_tensor_info(tensor) for name, tensor in inputs.items()},
        {name: build_tensor_info(tensor) for name, tensor in outputs.items()},
        names.PREDICT_METHOD_NAME,
    )


def regression_signature_def(examples: Any, predictions: Any) -> Any:
    """Return the signature of a method that gives a number for each example."""
    return build_signature_def(
        {names.REGRESS_INPUTS: build_tensor_info(examples)},
        {names.REGRESS_OUTPUTS: build_tensor_info(predictions)},
        names.REGRESS_METHOD_NAME,
    )


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> Any:
    """Return the signature of a method that gives classes, scores or both."""
    named = {
        names.CLASSIFY_OUTPUT_CLASSES: classes,
        names.CLASSIFY_OUTPUT_SCORES: scores,
    }
    outputs = {name: tensor for name, tensor in named.items() if tensor is not None}
    if not outputs:
        raise ValueError("Classification classes and scores cannot both be None.")
    return build_signature_def(
        {names.CLASSIFY_INPUTS: build_tensor_info(examples)},
        {name: build_tensor_info(tensor) for name, tensor in outputs.items()},
        names.CLASSIFY_METHOD_NAME,
    )
