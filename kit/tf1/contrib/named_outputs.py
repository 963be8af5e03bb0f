"""`tf.contrib.slim.utils`: outputs of layers by name, and sizes of shapes."""

from __future__ import annotations

from typing import Any

from kit.tf1.graph.collections import add_to_collections, get_collection
from kit.tf1.tensor.shape import as_shape


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """Give a tensor one more name in the dicts of `convert_collection_to_dict`."""
    tensor.aliases = [*getattr(tensor, "aliases", ()), alias.rstrip("/")]
    return tensor


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Add a tensor to collections under a name; return the tensor."""
    if collections:
        add_to_collections(collections, append_tensor_alias(outputs, alias))
    return outputs


def convert_collection_to_dict(
    collection: Any, clear_collection: bool = False
) -> dict[str, Any]:
    """Return the tensors of a collection by name, those of layers by their scopes."""
    kept = get_collection(collection)
    outputs = {
        alias: tensor
        for tensor in kept
        for alias in getattr(tensor, "aliases", None) or [tensor.op.name]
    }
    if clear_collection and kept:
        kept[0].graph.clear_collection(collection)
    return outputs


def last_dimension(shape: Any, min_rank: int = 1) -> int | None:
    """Return the size of the last axis; raises `ValueError` for too few axes."""
    sizes = as_shape(shape)
    if sizes.ndims is None:
        raise ValueError(f"dims of shape must be known but is {sizes}")
    if sizes.ndims < min_rank:
        raise ValueError(
            f"rank of shape must be at least {min_rank} not: {sizes.ndims}"
        )
    size: int | None = sizes.as_list()[-1]
    return size
