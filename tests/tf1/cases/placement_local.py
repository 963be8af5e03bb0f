"""Placement in a local session: what devices there are, and what is refused."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import makes_case, run

OWN = "/job:localhost/replica:0/task:0/device:CPU:0"

REQUESTS: dict[str, str] = {
    "nothing": "",
    "cpu": "/cpu:0",
    "any_cpu": "/device:CPU:*",
    "its_own_name": OWN,
    "job_localhost": "/job:localhost",
    "task_0": "/task:0",
    "another_job": "/job:ps",
    "another_task": "/task:1",
    "another_replica": "/replica:1",
    "a_gpu_that_is_not_there": "/gpu:0",
    "a_second_cpu_that_is_not_there": "/cpu:1",
    "a_type_that_is_not_there": "/device:XPU:0",
    "another_job_and_cpu": "/job:ps/cpu:0",
}


@makes_case
def placed(tf: Any, request: str, soft: bool) -> Any:
    x = tf.placeholder(tf.float32, [])
    with tf.device(request):
        y = tf.multiply(x, 2.0, name="y")
    config = tf.ConfigProto(allow_soft_placement=soft)
    with tf.Session(config=config) as session:
        return session.run(y, {x: 3.0})


def case_nonsense_from_a_function_fails_when_run(tf: Any) -> Any:
    with tf.device(lambda op: "/zzz:0"):
        value = tf.constant(1.0)
    return run(tf, value)


@makes_case
def variable_on_no_gpu(tf: Any, soft: bool) -> Any:
    with tf.device("/gpu:0"):
        variable = tf.Variable([1.0, 2.0])
    config = tf.ConfigProto(allow_soft_placement=soft)
    with tf.Session(config=config) as session:
        session.run(variable.initializer)
        return [variable.device, session.run(variable + 1.0)]


CASES = {
    **{f"strict_{name}": placed(item, soft=False) for name, item in REQUESTS.items()},
    **{f"soft_{name}": placed(item, soft=True) for name, item in REQUESTS.items()},
    "strict_variable_on_no_gpu": variable_on_no_gpu(soft=False),
    "soft_variable_on_no_gpu": variable_on_no_gpu(soft=True),
}
