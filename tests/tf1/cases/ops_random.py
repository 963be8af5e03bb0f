"""Random tensors: what holds for every draw, never a drawn value."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import Case, initialized, makes_case, run, static, tf

DRAWS: dict[str, Case] = {
    "random_uniform": lambda: tf.random_uniform([200], seed=1),
    "random_normal": lambda: tf.random_normal([200], seed=1),
    "truncated_normal": lambda: tf.truncated_normal([200], seed=1),
    "random_uniform_initializer": lambda: tf.random_uniform_initializer(seed=1)([200]),
    "random_normal_initializer": lambda: tf.random_normal_initializer(seed=1)([200]),
    "truncated_normal_initializer": lambda: tf.truncated_normal_initializer(seed=1)(
        [200]
    ),
}


@makes_case
def drawn_twice_in_a_session(session: Any, draw: Case) -> Any:
    tensor = draw()
    first, second = session.run(tensor), session.run(tensor)
    return bool(np.array_equal(first, second))


@makes_case
def drawn_in_two_sessions(draw: Case) -> Any:
    tensor = draw()
    return bool(np.array_equal(run(tensor), run(tensor)))


@makes_case
def drawn_at_two_nodes(draw: Case) -> Any:
    first, other = run([draw(), draw()])
    return bool(np.array_equal(first, other))


@makes_case
def facts(draw: Case) -> Any:
    tensor = draw()
    return [static(tensor), len(set(run(tensor).tolist())) > 150]


def bounds(tensor: Any, low: float, high: float) -> Any:
    values = run(tensor)
    return bool((values >= low).all() and (values < high).all())


def case_set_random_seed_makes_graphs_alike_and_nodes_differ() -> Any:
    seen = []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            seen.append(run([tf.random_normal([4]), tf.random_normal([4])]))
    same = [np.array_equal(seen[0][k], seen[1][k]) for k in (0, 1)]
    return [*same, np.array_equal(seen[0][0], seen[0][1])]


def case_random_normal_without_a_seed_differs_between_sessions() -> Any:
    tensor = tf.random_normal([8])
    return bool(np.array_equal(run(tensor), run(tensor)))


def case_set_random_seed_changes_what_a_nodes_seed_gives() -> Any:
    seen = []
    for seed in (7, 8):
        with tf.Graph().as_default():
            tf.set_random_seed(seed)
            seen.append(run(tf.random_uniform([8], seed=1)))
    return bool(np.array_equal(seen[0], seen[1]))


def case_random_normal_has_the_moments_asked_for() -> Any:
    values = run(tf.random_normal([20000], mean=3.0, stddev=2.0, seed=4))
    return [abs(values.mean() - 3.0) < 0.1, abs(values.std() - 2.0) < 0.1]


def case_variables_from_one_seeded_initializer_are_alike() -> Any:
    start = tf.random_normal_initializer(seed=3)
    first = tf.get_variable("one", [3], initializer=start)
    other = tf.get_variable("other", [3], initializer=start)
    with initialized() as session:
        left, right = session.run([first, other])
    return bool(np.array_equal(left, right))


CASES: dict[str, Case] = {
    **{
        f"{name}_{reply}": about(draw)
        for name, draw in DRAWS.items()
        for reply, about in {
            "has_shape_dtype_and_name": facts,
            "differs_from_run_to_run": drawn_twice_in_a_session,
            "with_a_seed_begins_alike_in_each_session": drawn_in_two_sessions,
            "with_a_seed_is_alike_at_two_nodes": drawn_at_two_nodes,
        }.items()
    },
    "random_uniform_of_integers_lies_below_its_limit": lambda: bounds(
        tf.random_uniform([500], maxval=5, dtype=tf.int32), 0, 5
    ),
    "random_uniform_refuses_bool": lambda: tf.random_uniform([2], dtype=tf.bool),
    "random_uniform_of_float64": lambda: static(
        tf.random_uniform([2, 3], dtype=tf.float64, name="chance")
    ),
    "truncated_normal_stays_within_two_deviations": lambda: bounds(
        tf.truncated_normal([2000], mean=1.0, stddev=0.5), 0.0, 2.0
    ),
    "truncated_normal_initializer_stays_within_two_deviations": lambda: bounds(
        tf.truncated_normal_initializer(stddev=0.5)([2000]), -1.0, 1.0
    ),
    "random_normal_refuses_integers": lambda: tf.random_normal([2], dtype=tf.int32),
}
