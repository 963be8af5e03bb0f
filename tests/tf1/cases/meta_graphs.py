"""Meta graphs: a graph written by one program and read by another, and its copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.folders import in_folder
from tests.tf1.look import initialized, names_of, tf


def build() -> None:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.name_scope("layer"):
        w = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
        b = tf.Variable([1.0, 1.0], name="b", trainable=False)
        y = tf.nn.bias_add(tf.matmul(x, w), b, name="y")
    positive = tf.cond(tf.reduce_sum(y) > 0, lambda: y + 1, lambda: y - 1)
    tf.identity(positive, name="chosen")
    counted = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
    tf.identity(counted, name="counted")
    tf.train.MomentumOptimizer(0.1, 0.5).minimize(tf.reduce_sum(y), name="train")
    tf.add_to_collection("outputs", y)
    for number in (3, 4):
        tf.add_to_collection("numbers", number)
    tf.add_to_collection("texts", "one")


def written(folder: Path) -> str:
    prefix = str(folder / "m")
    with tf.Graph().as_default():
        build()
        with initialized() as session:
            session.run("train", {"x:0": [[1.0, 1.0]]})
            tf.train.Saver().save(session, prefix)
    return prefix


def names(items: Any) -> list[str]:
    return sorted(item.name for item in items)


def case_goes_on(folder: Path) -> Any:
    """What a file holds is run, trained and differentiated as the graph was."""
    prefix = written(folder)
    fed = {"x:0": [[1.0, 2.0]]}
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(prefix + ".meta")
        with tf.Session() as session:
            saver.restore(session, prefix)
            before = session.run(["layer/y:0", "chosen:0", "counted:0"], fed)
            session.run("train", fed)
            after = session.run(tf.global_variables())
            chosen = graph.get_tensor_by_name("chosen:0")
            (slope,) = tf.gradients(chosen, tf.trainable_variables())
            return [before, after, session.run(slope, fed)]


def case_collections(folder: Path) -> Any:
    prefix = written(folder)
    with tf.Graph().as_default():
        tf.train.import_meta_graph(prefix + ".meta")
        return [
            names(tf.global_variables()),
            names(tf.trainable_variables()),
            names(tf.get_collection("outputs")),
            tf.get_collection("numbers"),
            len(tf.get_collection("texts")),
            names_of(tf.get_collection("train_op")),
        ]


def case_scope(folder: Path) -> Any:
    prefix = written(folder)
    with tf.Graph().as_default():
        saver = tf.train.import_meta_graph(prefix + ".meta", import_scope="old")
        again = tf.train.import_meta_graph(prefix + ".meta", import_scope="old")
        with tf.Session() as session:
            saver.restore(session, prefix)
            value = session.run("old/layer/w:0")
            again.restore(session, prefix)
            return [
                names(tf.trainable_variables()),
                value,
                session.run("old_1/layer/b:0"),
            ]


def case_part(folder: Path) -> Any:
    """What is below a scope, with another input."""
    path = str(folder / "part")
    with tf.Graph().as_default():
        build()
        made = tf.train.export_meta_graph(path, export_scope="layer")
        kept = sorted(item.name for item in made.graph_def.node)
    with tf.Graph().as_default():
        x = tf.constant([[1.0, 1.0]])
        tf.train.import_meta_graph(
            path, import_scope="new", input_map={"$unbound_inputs_x": x}
        )
        with initialized() as session:
            wanted = [text for text in kept if "/" not in text]
            return [wanted, names(tf.global_variables()), session.run("new/y:0")]


def case_no_variables() -> Any:
    with tf.Graph().as_default():
        tf.constant(1, name="c")
        made = tf.train.export_meta_graph()
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(made, import_scope="a")
        return [saver, names_of(graph.get_operations())]


def case_devices() -> Any:
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:3"):
            tf.constant(1, name="c")
        made = tf.train.export_meta_graph()
    result = []
    for clear in (False, True):
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(made, clear_devices=clear)
            result.append(graph.get_operation_by_name("c").device)
    return result


def case_queue_runners() -> Any:
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(3, tf.int32, name="queue")
        runner = tf.train.QueueRunner(queue, [queue.enqueue(7)] * 2)
        tf.train.add_queue_runner(runner)
        tf.identity(queue.dequeue(), name="taken")
        made = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(made)
        coordinator = tf.train.Coordinator()
        with tf.Session() as session:
            threads = tf.train.start_queue_runners(session, coordinator)
            taken = [session.run("taken:0") for _ in range(3)]
            coordinator.request_stop()
            coordinator.join(threads)
            return [len(threads), taken]


def imported(*args: Any, **options: Any) -> Any:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        tf.add(x, x, name="sum")
        made = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default() as graph:
        other = tf.constant([3.0, 4.0], name="other")
        mapped = {name: other for name in options.pop("mapped", ())}
        result = tf.import_graph_def(made, mapped or None, *args, **options)
        all_names = names_of(graph.get_operations())
        shown = result and [getattr(item, "name", None) for item in result]
        if mapped and result:
            return [all_names, shown, tf.Session().run(result[0])]
        return [all_names, shown]


def case_in_parts(folder: Path) -> Any:
    prefix = str(folder / "m")
    with tf.Graph().as_default():
        with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
            w = tf.get_variable("w", [4], initializer=tf.ones_initializer())
        tf.add_to_collection("kept", w)
        with initialized() as session:
            tf.train.Saver().save(session, prefix)
    with tf.Graph().as_default():
        saver = tf.train.import_meta_graph(prefix + ".meta")
        with tf.Session() as session:
            saver.restore(session, prefix)
            return [names(tf.global_variables()), session.run("a/w:0")]


CASES = {
    "no_file": in_folder(
        lambda folder: attempt(tf.train.import_meta_graph, str(folder / "none"))
    ),
    "graph_def": imported,
    "graph_def_under_its_own_names": lambda: imported(name=""),
    "graph_def_with_results": lambda: imported(["sum:0", "x"], name="a"),
    "graph_def_with_another_input": lambda: imported(["sum:0"], mapped=["x"]),
    "graph_def_of_unknown_results": lambda: imported(["none"]),
    "graph_def_of_unknown_inputs": lambda: imported(mapped=["none:0"]),
    "graph_def_that_is_none": lambda: tf.import_graph_def(3),
}
