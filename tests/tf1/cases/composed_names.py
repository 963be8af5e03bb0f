"""Functions that are put together of others: of numbers, of networks, of variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import Case, initialized, makes_case, run, static, tf

X = np.array([[1.5, 0.0, -2.0], [0.5, 3.0, 0.0]], np.float32)
Y = np.array([[2.0, 0.0, 0.5], [4.0, 0.0, 2.0]], np.float32)


@makes_case
def pair(path: str, x: Any = X, y: Any = Y) -> Any:
    """Tell a function of two numbers, with its gradients if they are fractions."""
    left, right = tf.constant(x), tf.constant(y)
    made = named(path)(left, right)
    slopes = tf.gradients(made, [left, right]) if x.dtype.kind == "f" else []
    return [static(made)["shape"], run([made, *slopes])]


@makes_case
def unary(path: str, *more: Any, x: Any = X, **how: Any) -> Any:
    tensor = tf.constant(x)
    made = named(path)(tensor, *more, **how)
    slopes = tf.gradients(made, tensor) if x.dtype.kind == "f" else []
    return [static(made)["shape"], run([made, *slopes])]


def named(path: str) -> Any:
    result = tf
    for part in path.split("."):
        result = getattr(result, part)
    return result


@makes_case
def rate(session: Any, name: str, **how: Any) -> Any:
    step = tf.placeholder(tf.int32, [])
    made = getattr(tf.train, name)(0.5, step, 10, **how)
    return [session.run(made, {step: n}) for n in (0, 3, 10, 17, 40)]


@makes_case
def cut(shape: Any, slicing: Any) -> Any:
    value = tf.constant(np.arange(np.prod(shape), dtype=np.int32).reshape(shape))
    parts = tf.create_partitioned_variables(shape, slicing, value)
    with initialized() as session:
        return [[part.name, session.run(part)] for part in parts]


def initial(name: str, shape: Any, **how: Any) -> Case:
    return lambda: run(getattr(tf.initializers, name)(**how)(shape))


def settings(name: str) -> Case:
    return lambda: sorted(getattr(tf.initializers, name)(seed=3).get_config().items())


def case_orthogonal_rows_are_orthogonal() -> Any:
    made = run(tf.orthogonal_initializer()([2, 5]))
    return [made.shape, np.round(made @ made.T, 3) + 0.0]


def case_second_derivatives() -> Any:
    x = tf.constant([1.0, 2.0])
    return run(tf.hessians(tf.reduce_sum(x * x * x) + x[0] * x[1], x))


def case_second_derivatives_of_what_has_none() -> Any:
    x = tf.constant([1.0, 2.0])
    return tf.hessians(x, x)


def case_rows_made_longer() -> Any:
    x, w = tf.constant(X.reshape(1, 3, 2)), tf.ones([2, 3, 2])
    return run(tf.nn.conv_transpose(x, w, [1, 6, 3], 2))


def case_images_made_larger() -> Any:
    x, w = tf.constant(X.reshape(1, 3, 2, 1)), tf.ones([2, 2, 1, 1])
    return run(tf.nn.conv_transpose(x, w, [1, 6, 4, 1], 2))


def case_windows_of_rows() -> Any:
    x = X.reshape(1, 3, 2)
    return run(
        [
            tf.nn.max_pool1d(x, 2, 1, "VALID"),
            tf.nn.avg_pool1d(x, 2, 2, "SAME"),
            tf.nn.max_pool_v2(x, 2, 1, "SAME"),
        ],
    )


def case_weights_of_another_shape_than_the_result() -> Any:
    x = tf.constant(X)
    return run(tf.gradients(tf.reduce_sum(x * x), x, tf.constant([2.0])))


def case_sums_are_of_one_dtype() -> Any:
    return tf.accumulate_n([tf.constant(1.0)], tensor_dtype=tf.int32)


def case_lists_are_cast_to_the_dtype_that_is_asked_for() -> Any:
    parts = [tf.constant(1.0), tf.constant(2)]
    return run(tf.convert_to_tensor(parts, dtype=tf.float64))


def case_sparse_tensors_by_element() -> Any:
    sparse = tf.SparseTensor([[0], [2]], [-1.5, 2.0], [3])
    made = [tf.cast(sparse, tf.int32), abs(tf.abs(sparse).values), tf.square(sparse)]
    return run(made)


def case_shapes_are_in_the_message_of_a_session() -> Any:
    tf.zeros([2, 3], name="x")
    options = tf.GraphOptions(infer_shapes=True)
    with tf.Session(config=tf.ConfigProto(graph_options=options)) as session:
        attr = session.graph_def.node[0].attr
    return [d.size for d in attr["_output_shapes"].list.shape[0].dim]


def case_shapes_of_what_is_sparse() -> Any:
    sparse = tf.SparseTensor([[0, 1]], [2.0], [3, 4])
    return run([tf.shape(sparse), tf.size(sparse), tf.rank(sparse)])


def case_a_sparse_placeholder_whose_shape_is_known() -> Any:
    sparse = tf.sparse_placeholder(tf.float32, [3, 2])
    feed = {sparse: (np.array([[1, 0]]), np.array([2.0]))}
    return run([sparse.indices, sparse.values, sparse.dense_shape], feed)


def case_a_saver_whose_file_is_named_in_bytes() -> Any:
    saver = tf.train.Saver([tf.Variable(1.0)], filename=b"model.ckpt")
    return run(saver.saver_def.filename_tensor_name)


def case_a_gradient_of_ones_own() -> Any:
    def doubled(x: Any, y: Any) -> Any:
        return x * y, lambda slope: (2.0 * slope, slope + 1.0)

    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    made = tf.custom_gradient(doubled)(x, y)
    return run([made, *tf.gradients(made * 3.0, [x, y])])


def case_a_gradient_of_ones_own_for_several_results() -> Any:
    def parts(x: Any) -> Any:
        return [x + 1.0, x * 2.0], lambda first, second: first * 10.0 + second

    x = tf.constant([1.0, 2.0])
    first, second = tf.custom_gradient(parts)(x)
    return run([first, second, *tf.gradients(second, x)])


def case_a_gradient_of_ones_own_takes_no_keywords() -> Any:
    return tf.custom_gradient(lambda x: (x, lambda slope: slope))(x=1.0)


def case_shapes_of_outputs_in_a_message() -> Any:
    tf.zeros([2, 3], name="x")
    nodes = tf.get_default_graph().as_graph_def(add_shapes=True).node
    shapes = nodes[0].attr["_output_shapes"].list.shape
    return [[d.size for d in s.dim] for s in shapes]


def case_a_regularizer_that_is_none() -> Any:
    with tf.variable_scope("x", regularizer=tf.no_regularizer):
        tf.get_variable("w", [])
    return len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))


def case_rows_of_unequal_number_are_refused() -> Any:
    queue = tf.FIFOQueue(10, [tf.int32, tf.int32], [[], []])
    return queue.enqueue_many([[1, 2, 3], [1, 2]])


def case_scopes_are_left_in_their_order() -> Any:
    scope = tf.variable_scope("outer")
    scope.__enter__()
    with tf.variable_scope("inner"):
        left = attempt(scope.__exit__, None, None, None)
    scope.__exit__(None, None, None)
    return left


def case_a_scope_within_itself_changes_no_numbers() -> Any:
    names = []
    with tf.variable_scope("model") as scope:
        for _ in range(3):
            with tf.variable_scope(None, "layer"):
                names.append(tf.get_variable("w", []).name)
            with tf.variable_scope(scope):
                pass
    return names


def case_the_seeds_of_an_operation() -> Any:
    result = [tf.get_seed(None), tf.get_seed(1)]
    for seed in (0, 5, 2**31 - 1):
        tf.set_random_seed(seed)
        result += [tf.get_seed(0), tf.get_seed(7)]
    return [list(item) for item in result]


WHOLE = np.array([-7, 7, -7, 7], np.int32)
SIGNS = np.array([2, 2, -2, -2], np.int32)


CASES: dict[str, Case] = {
    "x_log_y": pair("math.xlogy", X, np.abs(Y) + 0.0),
    "x_over_y": pair("math.xdivy", X, Y + 1.0),
    "quotients_towards_0": pair("truncatediv", WHOLE, SIGNS),
    "rests_of_quotients_towards_0": pair("truncatemod", WHOLE, SIGNS),
    "variance": unary("math.reduce_variance", 1),
    "deviation_of_all": unary("math.reduce_std"),
    "euclidean_norm": unary("math.reduce_euclidean_norm", [0], keepdims=True),
    "norm": unary("norm"),
    "norm_of_absolute_values": unary("norm", 1, 1, x=X + 0.1),
    "norm_of_the_greatest": unary("norm", np.inf, 1, x=X + 0.1),
    "norm_that_is_none": unary("norm", "moon"),
    "crelu": unary("nn.crelu", x=X + 0.1),
    "selu": unary("nn.selu", x=X + 0.1),
    "swish": unary("nn.swish"),
    "poisson": pair("nn.log_poisson_loss", np.abs(X) + 0.1, Y),
    "rate_with_restarts": rate("cosine_decay_restarts"),
    "rate_with_equal_restarts": rate(
        "cosine_decay_restarts", t_mul=1.0, m_mul=0.5, alpha=0.1
    ),
    "rate_with_a_wave": rate("linear_cosine_decay", num_periods=2.0, beta=0.1),
    "parts_by_rows": cut([5, 2], [2, 1]),
    "parts_by_columns": cut([2, 4], [1, 2]),
    "parts_by_both": cut([2, 4], [2, 2]),
    "parts_that_are_too_many": cut([2, 4], [3, 1]),
    "parts_of_too_few_axes": cut([2, 4], [2]),
    "identity": initial("identity", [2, 3], gain=2.0),
    "identity_of_rows": initial("identity", [3]),
    **{
        name: settings(name)
        for name in ("he_normal", "he_uniform", "lecun_normal", "lecun_uniform")
    },
    "orthogonal_rows_only": initial("orthogonal", [3]),
    "orthogonal_whole_numbers": initial("orthogonal", [2, 2], dtype="int32"),
    "normal_whole_numbers": initial("random_normal", [2, 2], dtype="int32"),
    "sums_along_a_table_of_axes": lambda: tf.reduce_sum(X, [[0], [1]]),
    "borders_below_nothing": lambda: tf.pad(X, [[-1, 0], [0, 0]]),
    "a_dropout_by_a_list": lambda: tf.nn.dropout(X, [0.0, 1.0]),
    "axes_in_a_table": lambda: tf.transpose(X, [[0, 1]]),
    "whole_numbers_between_lists": lambda: tf.random_uniform([3], [1, 2], 3, tf.int32),
    "a_scope_that_is_no_choice": lambda: tf.variable_scope(
        "x", auxiliary_name_scope="no"
    ),
    "a_getter_that_cannot_be_called": lambda: tf.get_variable("x", [], custom_getter=3),
    "sizes_that_are_too_large": lambda: tf.convert_to_tensor(
        tf.TensorShape([2**31]), tf.int32
    ),
    "two_new_axes": lambda: tf.expand_dims(1, axis=[0, 1]),
    "a_name_in_bytes": lambda: tf.constant(1.0, name=b"text").name,
    "sums_are_of_one_shape": lambda: tf.accumulate_n([tf.constant([1.0])], shape=[2]),
}

RUNS = {
    "parts_side_by_side": lambda: tf.parallel_stack([tf.constant(X), tf.constant(Y)]),
    "a_function_that_gives_no_numbers": lambda: tf.py_func(
        lambda: {"a": 1}, [], tf.int64
    ),
    "a_constant_that_is_guaranteed": lambda: tf.guarantee_const(tf.constant(2.0)),
    "x_over_nothing": lambda: tf.math.xdivy([0.0, 1.0], [0.0, 2.0]),
    "product_without_nan": lambda: tf.math.multiply_no_nan([np.inf, 2.0], [0.0, 3.0]),
    "inverse_without_nan": lambda: tf.math.reciprocal_no_nan([0.0, 2.0]),
    "rests_of_fractions": lambda: tf.truncatemod([-7.5, 7.5], [2.0, -2.0]),
    "polynomial": lambda: tf.math.polyval([1.0, 2.0, 3.0], 2.0),
    "polynomial_of_nothing": lambda: tf.math.polyval([], 2.0),
    "poisson_in_full": lambda: tf.nn.log_poisson_loss(
        np.abs(X) + 0.1, Y, compute_full_loss=True
    ),
    "no_elements_in_another_shape": lambda: tf.reshape(
        np.zeros([0, 6], np.float32), [0, -1, 3]
    ),
    "sums_along_one_axis_twice": lambda: tf.reduce_sum(X, [0, 0]),
    "all_of_nothing": lambda: tf.reduce_all([]),
    "count_of_texts": lambda: tf.count_nonzero(["", "a", "b"]),
    "many_parts": lambda: ([x[:1] for x in tf.split(np.arange(200), [2] * 100)[98:]]),
    "whole_numbers_between_nothing": lambda: tf.random_uniform([0], 0, 0, tf.int32),
    "shapes_of_several": lambda: tf.shape_n([X, Y[0]]),
}
