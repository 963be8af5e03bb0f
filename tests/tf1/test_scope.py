"""What `kit.tf1` does not offer says so, and what to use in its place."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kit import tf1 as tf
from kit.errors import UnimplementedError
from kit.graph.table import TABLE
from kit.tf1 import older
from kit.tf1.not_offered import OutsideScopeError, names_of
from tests.cases import for_each

OUTSIDE = [
    *(
        "keras.layers",
        "keras.datasets.cifar10",
        "layers.conv3d",
        "data.experimental.CsvDataset",
        "estimator",
    ),
    *("scan", "map_fn", "train.SequenceExample"),
    *("train.maybe_batch", "train.warm_start"),
    *("contrib.layers.bow_encoder", "contrib.seq2seq.AttentionWrapper", "distribute"),
    *(
        "parse_tensor",
        "losses.mean_pairwise_squared_error",
        "metrics.precision_at_thresholds",
    ),
    *(
        "image.extract_glimpse",
        "PriorityQueue",
        "nn.conv3d",
        "math.lgamma",
        "math.digamma",
    ),
    "train.AdagradDAOptimizer",
]


def attribute(path: str) -> object:
    value: object = tf
    for name in path.split("."):
        value = getattr(value, name)
    return value


@for_each("path", OUTSIDE)
def test_name_of_the_original_that_is_not_offered_names_a_way(path: str) -> None:
    with pytest.raises(OutsideScopeError, match=r"outside the scope.*Instead: \w+"):
        attribute(path)


@pytest.mark.parametrize("path", ["moon", "train.moon", "app.flags.moon"])
def test_name_that_the_original_does_not_have_is_a_plain_attribute_error(
    path: str,
) -> None:
    with pytest.raises(AttributeError, match="has no 'moon'") as caught:
        attribute(path)

    assert not isinstance(caught.value, OutsideScopeError)


def test_refusal_is_both_an_attribute_error_and_unimplemented() -> None:
    assert issubclass(OutsideScopeError, AttributeError)
    assert issubclass(OutsideScopeError, UnimplementedError)
    assert not hasattr(tf.keras, "layers")


def test_every_public_name_of_the_module_is_there_when_it_is_imported() -> None:
    names = [text for text in dir(tf) if not text.startswith("_")]

    assert {"Session", "constant", "Variable", "train", "nn"} <= set(names)
    assert all(getattr(tf, name) is not None for name in names if name != "newaxis")


# Names that are offered though the original has them elsewhere, or had them before 1.0.
NOT_OF_1_15 = {
    *("IndexedSlicesValue", "train.CheckpointReader", "train.CheckpointState"),
    *("nn.seq2seq", "train.QueueRunnerDef", "train.SummaryWriter"),
    *("train.SummaryWriterCache", "train.SyncReplicasOptimizerV2"),
}
PLUMBING = {
    *("kit.tf1.not_offered", "kit.tf1.public", "kit.tf1.python.submodules"),
    "kit.tf1.summary.messages",
}


def test_no_helper_becomes_a_name_of_tf_because_its_module_is_offered() -> None:
    extra = []
    for part in ("", "data", "layers", "math", "nn", "saved_model", "train"):
        module: Any = attribute(part) if part else tf
        for name, value in vars(module).items():
            home = getattr(value, "__module__", "") or ""
            is_plumbing = home in PLUMBING
            if not home.startswith("kit") or name.startswith("_") or is_plumbing:
                continue
            path = f"{part}.{name}" if part else name
            is_known = name in names_of(part) or name in vars(older)
            if not is_known and path not in NOT_OF_1_15:
                extra.append(f"{path} of {home}")

    assert not extra, f"underline or leave out in offer(without=...): {extra}"


def test_a_function_that_is_one_op_has_the_arguments_that_the_table_says() -> None:
    calls = [entry for entry in TABLE.values() if entry.call]

    for op in calls:
        path, _, arguments = op.call.rstrip(")").partition("(")
        function: Any = attribute(path)
        assert [*inspect.signature(function).parameters] == [
            *arguments.split(", "),
            "name",
        ], path
        assert function.__doc__ == f"Return {op.doc}.", path

    assert {"Exp", "Relu", "Atan2", "Less"} <= {op.name for op in calls}
