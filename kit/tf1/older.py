"""Names from before TensorFlow 1.0, as the programs of that time call them.

Pure. The summaries of then take the tag as it is written, where those of `tf.summary`
put the name scope before it.
"""

from __future__ import annotations

from typing import Any

from kit.tf1.graph.collections import GraphKeys
from kit.tf1.ops.arithmetic import matmul, multiply, negative, reciprocal, subtract
from kit.tf1.ops.index import where
from kit.tf1.ops.join import stack, unstack
from kit.tf1.summary.ops import merge, merge_all, of_tag
from kit.tf1.variables.scopes import name_scope

mul, neg, sub, inv = multiply, negative, subtract, reciprocal
pack, unpack, merge_summary = stack, unstack, merge


def op_scope(values: Any, name: Any, default_name: str | None = None) -> Any:
    """Return the scope of `tf.name_scope(name, default_name, values)`."""
    return name_scope(name, default_name, values)


def scalar_summary(
    tags: Any, values: Any, collections: Any = None, name: str | None = None
) -> Any:
    """Return the summary of one number for each tag; see `tf.summary.scalar`."""
    return of_tag("ScalarSummary", "tags", tags, collections, name, values=values)


def histogram_summary(
    tag: Any, values: Any, collections: Any = None, name: str | None = None
) -> Any:
    """Return the summary of how values are spread; see `tf.summary.histogram`."""
    return of_tag("HistogramSummary", "tag", tag, collections, name, values=values)


def image_summary(
    tag: Any,
    tensor: Any,
    max_images: int = 3,
    collections: Any = None,
    name: str | None = None,
) -> Any:
    """Return the summary of the first images of a batch; see `tf.summary.image`."""
    return of_tag(
        "ImageSummary",
        "tag",
        tag,
        collections,
        name,
        attrs={"max_outputs": int(max_images)},
        tensor=tensor,
    )


def merge_all_summaries(key: Any = GraphKeys.SUMMARIES) -> Any:
    """Return one summary of all in a collection; see `tf.summary.merge_all`."""
    return merge_all(key)


def batch_matmul(
    x: Any, y: Any, adj_x: bool = False, adj_y: bool = False, name: str | None = None
) -> Any:
    """Return the products of matrices; see `tf.matmul`."""
    return matmul(x, y, adjoint_a=adj_x, adjoint_b=adj_y, name=name)


def select(condition: Any, t: Any, e: Any, name: str | None = None) -> Any:
    """Return `t` where `condition` is true, else `e`; see `tf.where`."""
    return where(condition, t, e, name=name)
