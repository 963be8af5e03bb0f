"""Graph: collections, their keys, and what adds itself to them."""

from __future__ import annotations

from typing import Any


def names(things: Any) -> list[str]:
    return [thing.name for thing in things]


def case_keys_have_these_values(tf: Any) -> Any:
    keys = (
        *("GLOBAL_VARIABLES", "LOCAL_VARIABLES", "TRAINABLE_VARIABLES", "GLOBAL_STEP"),
        *("TRAIN_OP", "SAVERS", "INIT_OP", "READY_OP", "LOCAL_INIT_OP", "SUMMARY_OP"),
        *("QUEUE_RUNNERS", "MODEL_VARIABLES", "SUMMARIES", "LOSSES"),
        *("REGULARIZATION_LOSSES", "MOVING_AVERAGE_VARIABLES", "WEIGHTS", "BIASES"),
        *("ACTIVATIONS", "UPDATE_OPS", "TABLE_INITIALIZERS", "READY_FOR_LOCAL_INIT_OP"),
    )
    return {key: getattr(tf.GraphKeys, key) for key in keys}


def case_a_collection_keeps_what_was_added_in_order(tf: Any) -> Any:
    for thing in (3, "a", 3):
        tf.add_to_collection("mine", thing)
    return tf.get_collection("mine")


def case_an_unknown_collection_is_empty(tf: Any) -> Any:
    return tf.get_collection("moon")


def case_a_collection_is_copied(tf: Any) -> Any:
    tf.add_to_collection("mine", 1)
    tf.get_collection("mine").append(2)
    return tf.get_collection("mine")


def case_a_collection_by_reference_is_the_collection(tf: Any) -> Any:
    tf.get_collection_ref("mine").append(2)
    return tf.get_collection("mine")


def case_one_value_goes_to_several_collections(tf: Any) -> Any:
    graph = tf.get_default_graph()
    graph.add_to_collections(["one", "two", "one"], 5)
    graph.add_to_collection("three", 6)
    found = [graph.get_collection(key) for key in ("one", "two", "three")]
    return found, sorted(graph.get_all_collection_keys())


def case_a_collection_is_cleared(tf: Any) -> Any:
    tf.add_to_collection("mine", 1)
    tf.get_default_graph().clear_collection("mine")
    return tf.get_collection("mine")


def case_a_scope_chooses_by_the_start_of_names(tf: Any) -> Any:
    with tf.name_scope("x"):
        tf.Variable(1, name="a")
    tf.Variable(1, name="xb")
    tf.Variable(1, name="b")
    tf.add_to_collection(tf.GraphKeys.GLOBAL_VARIABLES, 7)
    key = tf.GraphKeys.GLOBAL_VARIABLES
    return [names(tf.get_collection(key, scope=one)) for one in ("x", "x/", "moon")]


def case_each_graph_has_its_own_collections(tf: Any) -> Any:
    tf.add_to_collection("mine", 1)
    with tf.Graph().as_default():
        return tf.get_collection("mine")


def case_a_variable_joins_the_global_and_the_trainable(tf: Any) -> Any:
    tf.Variable(1.0, name="a")
    tf.Variable(1.0, name="b", trainable=False)
    tf.Variable(1, name="c")
    return names(tf.global_variables()), names(tf.trainable_variables())


def case_a_local_variable_joins_the_local_only(tf: Any) -> Any:
    key = tf.GraphKeys.LOCAL_VARIABLES
    tf.Variable(1.0, name="a", trainable=False, collections=[key])
    found = (tf.global_variables(), tf.local_variables(), tf.trainable_variables())
    return [names(one) for one in found]


def case_a_trainable_variable_joins_the_trainable_in_any_case(tf: Any) -> Any:
    tf.Variable(1.0, name="a", collections=["mine"])
    found = (tf.get_collection("mine"), tf.global_variables(), tf.trainable_variables())
    return [names(one) for one in found]


def case_variables_stand_in_the_order_of_their_making(tf: Any) -> Any:
    for name in ("b", "a", "c"):
        tf.Variable(1.0, name=name)
    return names(tf.global_variables())


def case_a_global_step_joins_its_collection(tf: Any) -> Any:
    tf.train.create_global_step()
    keys = (tf.GraphKeys.GLOBAL_STEP, tf.GraphKeys.GLOBAL_VARIABLES)
    found = [names(tf.get_collection(key)) for key in keys]
    return found, names(tf.trainable_variables())
