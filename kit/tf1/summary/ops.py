"""Operations that make summaries: one text, which a `FileWriter` writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kit.graph.dtypes import STRING
from kit.tf1 import logging
from kit.tf1.graph.collections import GraphKeys, add_to_collections, get_collection
from kit.tf1.tensor.convert import argument, create, graph_for

_NOT_IN_A_TAG = re.compile(r"[^-/\w\.]", re.ASCII)


def scalar(
    name: str, tensor: Any, collections: Any = None, family: str | None = None
) -> Any:
    """Return the summary of one number, and add it to `collections`.

    They are by default the summaries that `merge_all` merges. The tag is the name of
    the operation, with `family` before it. In a run: `InvalidArgumentError` if it is
    not one number.
    """
    return _summary("ScalarSummary", "tags", name, collections, family, values=tensor)


def histogram(
    name: str, values: Any, collections: Any = None, family: str | None = None
) -> Any:
    """Return the summary of how values are spread; see `scalar`.

    In a run: `InvalidArgumentError` if some are infinite or no numbers.
    """
    return _summary("HistogramSummary", "tag", name, collections, family, values=values)


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Any:
    """Return the summary of the first images of a batch; see `scalar`.

    The batch is [batch, height, width, channels] with 1, 3 or 4 channels. Bytes are
    shown as they are. Of other numbers, the largest is white; if some are negative, 0
    is the middle.
    """
    return _summary(
        "ImageSummary",
        "tag",
        name,
        collections,
        family,
        attrs={"max_outputs": int(max_outputs)},
        tensor=tensor,
    )


def text(name: str, tensor: Any, collections: Any = None) -> Any:
    """Return the summary of texts, which may be Markdown; see `scalar`.

    Raises `ValueError` for a tensor that is not of strings.
    """
    if isinstance(tensor, str | bytes | list | tuple | np.ndarray):
        dtype = None
    else:
        dtype = getattr(tensor, "dtype", None)
    if dtype is not None and dtype.base_dtype.name != "string":
        raise ValueError(
            f"Expected tensor {tensor.name} to have dtype string, got {dtype.name}; "
            f"use tf.summary.scalar for numbers."
        )
    return _summary("TensorSummaryV2", "tag", name, collections, None, tensor=tensor)


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Any:
    """Return one summary with the values of several, and add it to `collections`.

    In a run: `InvalidArgumentError` if two have the same tag.
    """
    summaries = list(inputs)
    if not summaries:
        raise ValueError(
            "there is no summary to merge; give at least one, or use merge_all."
        )
    graph = graph_for(summaries)
    with graph.as_default(), graph.name_scope(name or "Merge"):
        tensors = [
            argument("MergeSummary", f"inputs_{number}", summary)
            for number, summary in enumerate(summaries)
        ]
        made = create("MergeSummary", *tensors, name="MergeSummary")
    add_to_collections(collections or [], made)
    return made


def merge_all(
    key: Any = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Any:
    """Return one summary of all in a collection; None if there are none."""
    summaries = get_collection(key, scope=scope)
    return merge(summaries, name=name) if summaries else None


def _summary(
    op_type: str,
    tag_name: str,
    name: str,
    collections: Any,
    family: str | None,
    attrs: dict[str, Any] | None = None,
    **values: Any,
) -> Any:
    with _tag_scope(name, family, values.values()) as (tag, scope):
        return of_tag(op_type, tag_name, tag, collections, scope, attrs, **values)


def of_tag(
    op_type: str,
    tag_name: str,
    tag: Any,
    collections: Any,
    name: str | None,
    attrs: dict[str, Any] | None = None,
    **values: Any,
) -> Any:
    """Return the summary of a tag that is a tensor, or is taken as it is written."""
    inputs = [argument(op_type, tag_name, tag)]
    for key, value in values.items():
        dtype = None if op_type != "TensorSummaryV2" else STRING
        inputs.append(argument(op_type, key, value, dtype))
    _check_numbers(op_type, inputs[-1])
    made = create(op_type, *inputs, name=name or op_type, **(attrs or {}))
    wanted = [GraphKeys.SUMMARIES] if collections is None else collections
    add_to_collections(wanted, made)
    return made


def _check_numbers(op_type: str, tensor: Any) -> None:
    if op_type != "TensorSummaryV2" and tensor.dtype.base_dtype.name in _NO_NUMBERS:
        raise TypeError(
            f"{op_type} does not take {tensor.name!r} of {tensor.dtype.name}; use "
            f"tf.summary.text for strings, and tf.cast for other values."
        )


_NO_NUMBERS = frozenset({"string", "bool", "complex64", "complex128"})


@contextmanager
def _tag_scope(name: str, family: str | None, values: Any) -> Iterator[tuple[str, str]]:
    """Enter the scope of a summary; yields its tag, and its name with a slash."""
    clean, group = _cleaned(name), None if family is None else _cleaned(family)
    base = clean if group is None else f"{group}/{clean}"
    graph = graph_for(list(values))
    with graph.as_default(), graph.name_scope(base) as scope:
        tag = scope.rstrip("/")
        yield (tag if group is None else f"{group}/{tag}"), scope


def _cleaned(name: str) -> str:
    made = _NOT_IN_A_TAG.sub("_", name).lstrip("/")
    if made != name:
        logging.info("Summary name %s is illegal; using %s instead.", name, made)
    return made
