"""Graph: collections, their keys, and what adds itself to them."""

from __future__ import annotations

from typing import Any


def case_an_unknown_collection_is_empty(tf: Any) -> Any:
    return tf.get_collection("moon")


def case_a_collection_is_copied(tf: Any) -> Any:
    tf.add_to_collection("mine", 1)
    tf.get_collection("mine").append(2)
    return tf.get_collection("mine")


def case_a_collection_by_reference_is_the_collection(tf: Any) -> Any:
    tf.get_collection_ref("mine").append(2)
    return tf.get_collection("mine")


def case_a_collection_is_cleared(tf: Any) -> Any:
    tf.add_to_collection("mine", 1)
    tf.get_default_graph().clear_collection("mine")
    return tf.get_collection("mine")


def case_each_graph_has_its_own_collections(tf: Any) -> Any:
    tf.add_to_collection("mine", 1)
    with tf.Graph().as_default():
        return tf.get_collection("mine")
