"""Layers, slim and steps of training that `tf.contrib` puts together."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each
from tests.tf1.look import initialized, op_names_of

slim = tf.contrib.slim
IMAGES = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)


def names(variables: Any = None) -> list[str]:
    listed = tf.global_variables() if variables is None else variables
    return op_names_of(listed)


def test_a_network_has_the_variables_and_shapes_of_the_original() -> None:
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        weights_regularizer=slim.l2_regularizer(0.5),
        normalizer_fn=slim.batch_norm,
        normalizer_params={"is_training": True},
    ):
        net = slim.conv2d(IMAGES, 4, [3, 3], scope="conv1")
        net = slim.max_pool2d(net, [2, 2])
        net = slim.repeat(net, 2, slim.conv2d, 5, 3, scope="conv2")
        net = slim.conv2d(net, 6, 2, stride=2, padding="VALID")
        net = slim.fully_connected(slim.flatten(net), 7)
    net = slim.dropout(net, 0.8, is_training=False)
    net = tf.contrib.layers.linear(net, 2, scope="out")

    below = ["weights", "BatchNorm/beta", "BatchNorm/moving_mean"]
    below += ["BatchNorm/moving_variance"]
    scopes = ["conv1", "conv2/conv2_1", "conv2/conv2_2", "Conv", "fully_connected"]
    expected = [f"{scope}/{name}" for scope in scopes for name in below]
    assert names() == [*expected, "out/weights", "out/biases"]
    assert names(slim.get_model_variables()) == names()
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 10
    assert len(tf.losses.get_regularization_losses()) == 5
    assert net.shape.as_list() == [2, 2]


def test_a_layer_is_its_formula_with_relu_by_default() -> None:
    rows = IMAGES[:, 0, 0]
    weights = np.arange(6, dtype=np.float32).reshape(3, 2) - 2
    y = tf.contrib.layers.fully_connected(
        rows, 2, weights_initializer=tf.constant_initializer(weights)
    )
    again = tf.contrib.layers.fully_connected(
        rows, 2, None, scope="fully_connected", reuse=True
    )
    with initialized() as session:
        result = session.run([y, again])

    np.testing.assert_allclose(result[0], np.maximum(rows @ weights, 0), rtol=1e-5)
    np.testing.assert_allclose(result[1], rows @ weights, rtol=1e-5)


def test_averages_are_updated_at_once_without_a_collection() -> None:
    y = slim.batch_norm(IMAGES, decay=0.5, updates_collections=None, scale=True)
    with initialized() as session:
        result = session.run(y)
        moving = session.run(tf.global_variables()[2:])
    mean, variance = IMAGES.mean((0, 1, 2)), IMAGES.var((0, 1, 2))

    assert names() == [
        f"BatchNorm/{name}"
        for name in ("gamma", "beta", "moving_mean", "moving_variance")
    ]
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    expected = (IMAGES - mean) / np.sqrt(variance + 0.001)
    np.testing.assert_allclose(result, expected, atol=1e-4)
    np.testing.assert_allclose(moving[0], 0.5 * mean, rtol=1e-4)


def test_defaults_of_a_block_end_with_it_also_by_an_error() -> None:
    @slim.add_arg_scope  # type: ignore[untyped-decorator]
    def layer(x: int, factor: int = 1, shift: int = 0) -> int:
        return x * factor + shift

    seen: list[int] = []

    with suppress(KeyError), slim.arg_scope([layer], factor=2) as outer:
        seen.append(layer(10))
        with slim.arg_scope([layer], shift=3):
            seen += [layer(10), layer(10, factor=5)]
        raise KeyError
    assert seen == [20, 23, 53]
    assert layer(10) == 10
    with slim.arg_scope(outer):
        assert layer(10) == 20
    with pytest.raises(ValueError, match="not decorated with @add_arg_scope"):
        slim.arg_scope([max], key=None).__enter__()


def test_regularizers_cost_what_their_formulas_say(session: Any) -> None:
    weights = tf.constant([[1.0, -2.0], [3.0, 0.0]])
    both: Any = tf.contrib.layers.l1_l2_regularizer(0.5, 0.1)
    costs = [
        tf.contrib.layers.l2_regularizer(0.1)(weights),
        tf.contrib.layers.l1_regularizer(0.5)(weights),
        both(weights),
    ]
    assert session.run(costs) == pytest.approx([0.7, 3.0, 3.7])
    assert tf.contrib.layers.l2_regularizer(0.0)(weights) is None
    with pytest.raises(ValueError, match="scale cannot be an integer"):
        tf.contrib.layers.l2_regularizer(1)


def test_initializers_have_the_spread_of_their_formulas(session: Any) -> None:
    uniform = tf.contrib.layers.xavier_initializer(seed=1)([300, 100])
    normal = tf.contrib.layers.variance_scaling_initializer(seed=1)([300, 100])
    flat, round_ = session.run([uniform, normal])

    assert np.abs(flat).max() <= np.sqrt(6 / 400)
    assert flat.std() == pytest.approx(np.sqrt(2 / 400), rel=0.02)
    # Cut at two deviations of sqrt(1.3 * 2 / 300), of which 0.8796 remain.
    assert np.abs(round_).max() <= 2 * np.sqrt(2.6 / 300)
    assert round_.std() == pytest.approx(0.8796 * np.sqrt(2.6 / 300), rel=0.02)


def test_local_variable_is_neither_global_nor_trained() -> None:
    made = tf.contrib.framework.local_variable(3.0, name="kept")

    assert tf.contrib.framework.get_local_variables() == [made]
    assert names() == names(tf.trainable_variables()) == []
    assert made.op.name == "kept"


def test_layers_and_arguments_are_found_under_the_longer_names() -> None:
    framework = tf.contrib.framework
    with framework.arg_scope([slim.layers.fully_connected], activation_fn=None):
        net = slim.layers.fully_connected(tf.constant([[-1.0, 2.0]]), 1)

    assert net.op.type == "BiasAdd"
    assert names(framework.get_trainable_variables("fully_connected")) == [
        "fully_connected/weights",
        "fully_connected/biases",
    ]


@for_each(
    "path",
    ["framework.init_from_checkpoint", "losses.sum_of_squares", "learn.Estimator"],
)
def test_other_name_of_contrib_says_what_there_is(path: str) -> None:
    module, _, name = path.partition(".")

    with pytest.raises(AttributeError, match="outside the scope"):
        getattr(getattr(tf.contrib, module), name)


def test_variables_go_to_the_parameter_servers_in_turn() -> None:
    chooser = tf.contrib.framework.VariableDeviceChooser(num_tasks=2, job_name="p")

    with slim.arg_scope([slim.variable], device=chooser):
        made = [slim.variable(name, shape=[]) for name in "abc"]

    assert [tensor.device for tensor in made] == [
        "/job:p/task:0/device:CPU:0",
        "/job:p/task:1/device:CPU:0",
        "/job:p/task:0/device:CPU:0",
    ]


def model() -> tuple[Any, Any]:
    """Return a loss of two variables, and the one that it does not depend on."""
    w = tf.Variable([3.0, 4.0], name="w")
    other = tf.Variable(1.0, name="other")
    return tf.reduce_sum(w * w) / 2.0, other


def test_a_step_gives_the_loss_before_it_and_runs_the_updates_first(
    session: Any,
) -> None:
    loss, other = model()
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, other.assign_add(1.0))
    train = tf.contrib.training.create_train_op(
        loss, tf.train.GradientDescentOptimizer(0.5), summarize_gradients=True
    )
    session.run(tf.global_variables_initializer())

    losses = [session.run(train) for _ in range(2)]
    written = tf.Summary.FromString(session.run(tf.summary.merge_all()))

    assert losses == [12.5, 3.125]
    assert session.run([other, tf.train.get_global_step()]) == [3.0, 2]
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP)[1:] == [train]
    assert [item.tag for item in written.value] == [
        *("summarize_grads/w_gradient", "summarize_grads/w_gradient_norm")
    ]


@for_each(
    ("named", "expected"),
    [
        ({"clip_gradient_norm": 1.0}, [2.4, 3.2]),
        ({"gradient_multipliers": {"w": 2.0}}, [-3.0, -4.0]),
        ({"gradient_multipliers": {"w": 2.0}, "clip_gradient_norm": 1}, [2.4, 3.2]),
        ({}, [0.0, 0.0]),
    ],
)
def test_gradients_are_multiplied_then_shortened(
    named: dict[str, Any], expected: list[float]
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        loss, _ = model()
        train = tf.contrib.slim.learning.create_train_op(
            loss, tf.train.GradientDescentOptimizer(1.0), global_step=None, **named
        )
        session.run(tf.global_variables_initializer())
        session.run(train)

        result = session.run("w:0")
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_rows_of_a_gradient_are_multiplied_and_shortened_as_rows(session: Any) -> None:
    table = tf.Variable([[3.0, 4.0], [0.0, 0.0]], name="table")
    row = tf.nn.embedding_lookup(table, [0])
    train = tf.contrib.slim.learning.create_train_op(
        tf.reduce_sum(row * row) / 2.0,
        tf.train.GradientDescentOptimizer(1.0),
        clip_gradient_norm=2.5,
        gradient_multipliers={table: 2.0},
        summarize_gradients=True,
    )
    session.run(tf.global_variables_initializer())
    session.run(train)

    assert session.run(table).tolist() == [[1.5, 2.0], [0.0, 0.0]]


def test_what_cannot_be_trained_is_said() -> None:
    loss, other = model()
    step = tf.Variable(0, trainable=False, name="step")
    descent = tf.train.GradientDescentOptimizer(1.0)
    create = tf.contrib.slim.learning.create_train_op

    with pytest.raises(ValueError, match=r"\['step'\] are not among"):
        create(loss, descent, variables_to_train=[step])
    with pytest.raises(ValueError, match="multiple of `None`"):
        create(loss, descent, gradient_multipliers={other: 2.0})
    with pytest.raises(ValueError, match="is empty"):
        tf.contrib.training.multiply_gradients([], {})


def test_a_loss_that_is_no_number_stops_the_step(session: Any) -> None:
    w = tf.Variable(0.0)
    train = tf.contrib.training.create_train_op(
        tf.log(w) * 0.0, tf.train.GradientDescentOptimizer(1.0)
    )
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor"):
        session.run(train)


def test_counts_of_contrib_take_the_predictions_first(session: Any) -> None:
    metrics = tf.contrib.metrics
    right = metrics.accuracy([1, 2, 3], [1, 2, 4])
    weighted = metrics.accuracy([1, 2, 3], [1, 2, 4], weights=[0.0, 1.0, 1.0])
    _, so_far = metrics.streaming_accuracy([1, 2, 3, 3], [1, 2, 4, 3])
    _, area = metrics.streaming_auc([0.9, 0.1, 0.2], [True, False, True])
    session.run(tf.local_variables_initializer())

    result = session.run([right, weighted, so_far, area])
    np.testing.assert_allclose(result, [2 / 3, 0.5, 0.75, 1.0], atol=1e-4)


def test_classes_are_drawn_as_often_as_they_are_likely_and_a_seed_repeats_them() -> (
    None
):
    with tf.Graph().as_default(), tf.Session() as session:
        drawn = tf.multinomial(tf.log([[0.1, 0.2, 0.7]]), 2000, seed=3)
        first = session.run(drawn)[0]
    with tf.Graph().as_default(), tf.Session() as session:
        again = session.run(
            tf.random.multinomial(tf.log([[0.1, 0.2, 0.7]]), 2000, seed=3)
        )[0]

    shares = np.bincount(first, minlength=3) / 2000
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.7], atol=0.04)
    assert (first == again).all()


def test_values_keep_the_scale_of_what_is_multiplied_with_them(session: Any) -> None:
    make = tf.uniform_unit_scaling_initializer(factor=2.0, seed=1)
    result = session.run(make([4, 3, 100]))

    limit = 2.0 * (3.0 / 12) ** 0.5
    assert result.dtype == np.float32
    assert 0.95 * limit < np.abs(result).max() <= limit


def test_a_machine_without_gpu_says_so() -> None:
    with_gpu = "/device:GPU:0" in tf.test.gpu_device_name()
    assert tf.test.is_gpu_available() == tf.test.is_built_with_cuda() == with_gpu
