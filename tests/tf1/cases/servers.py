"""Servers and their clusters: how they are made, start and join; what is refused."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

from tests.tf1.look import Case, makes_case, names_of, run, tf
from tests.tf1.servers import addresses, cluster


def definition() -> Any:
    """A ClusterDef whose jobs stand in no order."""
    result = tf.train.ClusterDef()
    for name, task in (("worker", 3), ("ps", 0)):
        job = result.job.add()
        job.name = name
        job.tasks[task] = f"{name}:1"
    return result


FORMS: dict[str, Case] = {
    "a_dict_of_lists": lambda: {"ps": ["p:1"], "worker": ["a:1", "b:1"]},
    "a_dict_of_tuples": lambda: {"worker": ("a:1", "b:1")},
    "a_dict_of_dicts": lambda: {"worker": {0: "a:1", 1: "b:1"}},
    "a_sparse_job": lambda: {"worker": {3: "d:1", 1: "b:1"}},
    "one_task_that_is_not_the_first": lambda: {"worker": {7: "h:1"}},
    "a_dense_job_in_disorder": lambda: {"worker": {1: "b:1", 0: "a:1"}},
    "both_forms_mixed": lambda: {"ps": {2: "p:1"}, "worker": ["a:1"]},
    "a_cluster_def": definition,
    "an_empty_cluster_def": lambda: tf.train.ClusterDef(),
    "a_spec": lambda: tf.train.ClusterSpec({"w": {5: "f:1"}, "ps": ["p:1"]}),
    "an_empty_dict": lambda: {},
    "an_ordered_dict": lambda: collections.OrderedDict(
        [("z", ["a:1"]), ("b", ["b:1"])]
    ),
    "bytes": lambda: {b"worker": [b"a:1"]},
    "a_job_without_tasks": lambda: {"worker": [], "ps": ["p:1"]},
    "empty_and_equal_addresses": lambda: {"worker": ["", "x", "x"]},
    "an_address_without_a_port": lambda: {"worker": ["host"]},
    "names_with_spaces_and_none": lambda: {"a job": ["x"], "": ["y"]},
    "a_negative_task": lambda: {"worker": {-1: "a:1"}},
    "letters_beyond_ascii": lambda: {"worker": ["höst:1"]},
    "none": lambda: None,
    "a_list": lambda: ["a:1"],
    "a_text": lambda: "a:1",
    "an_int": lambda: 2222,
    "pairs": lambda: [("worker", ["a:1"])],
    "a_mapping_that_is_no_dict": lambda: types.MappingProxyType({"w": ["a:1"]}),
    "a_server_def": lambda: tf.train.ServerDef(),
    "tasks_that_are_text": lambda: {"worker": "a:1"},
    "tasks_that_are_a_set": lambda: {"worker": {"a:1"}},
    "tasks_that_are_none": lambda: {"worker": None},
    "tasks_that_are_an_int": lambda: {"worker": 1},
    "tasks_that_are_a_generator": lambda: {"worker": (item for item in ["a:1"])},
    "an_int_as_a_job": lambda: {1: ["a:1"]},
    "none_as_a_job": lambda: {None: ["a:1"]},
    "an_int_as_an_address": lambda: {"worker": [2222]},
    "none_as_an_address": lambda: {"worker": [None]},
    "none_as_an_address_in_a_dict": lambda: {"worker": {0: None}},
    "a_list_as_an_address": lambda: {"worker": [["a:1"]]},
    "digits_as_a_task": lambda: {"worker": {"1": "a:1"}},
    "a_word_as_a_task": lambda: {"worker": {"x": "a:1"}},
    "a_fraction_as_a_task": lambda: {"worker": {1.7: "a:1"}},
    "none_as_a_task": lambda: {"worker": {None: "a:1"}},
}


@makes_case
def made(form: Case) -> Any:
    spec = tf.train.ClusterSpec(form())
    return spec.as_dict(), bool(spec)


SPARSE = {"worker": {3: "d:1", 0: "a:1"}, "ps": ["p:1", "q:1"], "idle": []}


def spec_of() -> Any:
    return tf.train.ClusterSpec(SPARSE)


ASKED: dict[str, Callable[[Any], Any]] = {
    "jobs_stand_as_given": lambda spec: spec.jobs,
    "num_tasks_counts_the_defined": lambda spec: spec.num_tasks("worker"),
    "num_tasks_of_a_dense_job": lambda spec: spec.num_tasks("ps"),
    "num_tasks_of_a_job_without_tasks": lambda spec: spec.num_tasks("idle"),
    "num_tasks_of_an_unknown_job": lambda spec: spec.num_tasks("moon"),
    "task_indices_are_sorted": lambda spec: spec.task_indices("worker"),
    "task_indices_of_a_job_without_tasks": lambda spec: spec.task_indices("idle"),
    "task_indices_of_an_unknown_job": lambda spec: spec.task_indices("moon"),
    "task_address_of_a_sparse_task": lambda spec: spec.task_address("worker", 3),
    "task_address_of_a_dense_task": lambda spec: spec.task_address("ps", 1),
    "task_address_of_a_hole": lambda spec: spec.task_address("worker", 1),
    "task_address_of_a_text": lambda spec: spec.task_address("worker", "3"),
    "task_address_of_none": lambda spec: spec.task_address("worker", None),
    "task_address_from_the_end": lambda spec: spec.task_address("ps", -1),
    "task_address_of_an_unknown_job": lambda spec: spec.task_address("moon", 0),
    "job_tasks_of_a_dense_job": lambda spec: spec.job_tasks("ps"),
    "job_tasks_has_none_in_holes": lambda spec: spec.job_tasks("worker"),
    "job_tasks_of_a_job_without_tasks": lambda spec: spec.job_tasks("idle"),
    "job_tasks_of_an_unknown_job": lambda spec: spec.job_tasks("moon"),
    "as_dict_keeps_each_form": lambda spec: spec.as_dict(),
    "a_spec_prints_its_jobs_in_order": lambda spec: str(spec),
    "a_spec_differs_from_its_source": lambda spec: spec == SPARSE,
    "a_spec_differs_from_its_def": lambda spec: spec == spec.as_cluster_def(),
    "a_spec_differs_from_none": lambda spec: (spec is None, spec == None),  # noqa: E711
    "a_spec_is_not_unequal_to_itself": lambda spec: spec != spec,
    "a_spec_has_no_hash": lambda spec: hash(spec),
    "a_spec_is_true": lambda spec: bool(spec),
    "jobs_cannot_be_set": lambda spec: setattr(spec, "jobs", []),
}


def asked(question: Callable[[Any], Any]) -> Case:
    return lambda: question(spec_of())


def case_jobs_of_a_def_stand_as_in_the_def() -> Any:
    inputs = tf.train.ClusterDef()
    inputs.job.add(name="w")
    inputs.job.add(name="a")
    return tf.train.ClusterSpec(inputs).jobs


def case_job_tasks_with_a_negative_task() -> Any:
    return tf.train.ClusterSpec({"worker": {-1: "a:1"}}).job_tasks("worker")


SPECS: dict[str, dict[Any, Any]] = {
    "one_task": {"worker": ["a:1"]},
    "two_jobs": {"worker": ["w0:2222", "w1:2222"], "ps": ["p0:2222"]},
    "a_sparse_job": {"worker": {7: "h:1", 3: "d:1"}},
    "a_job_without_tasks": {"idle": [], "ps": ["p:1"]},
    "an_empty_address": {"worker": [""]},
    "quotes_and_backslashes": {'w"x': ["a\\b:1", "it's"]},
    "ten_tasks": {"worker": [f"h:{port}" for port in range(11)]},
    "bytes": {b"worker": [b"a:1"]},
}


def text_of(source: dict[Any, Any]) -> Case:
    return lambda: str(tf.train.ClusterSpec(source).as_cluster_def())


def case_the_text_of_nothing() -> Any:
    return [
        str(tf.train.ClusterSpec({}).as_cluster_def()),
        str(tf.train.ClusterDef()),
        str(tf.train.JobDef()),
    ]


def case_a_def_from_a_spec_is_sorted() -> Any:
    result = tf.train.ClusterSpec({"w": {3: "d", 1: "b"}, "a": ["x"]}).as_cluster_def()
    return [(job.name, sorted(job.tasks.items())) for job in result.job]


def case_a_def_is_built_by_arguments() -> Any:
    job = tf.train.JobDef(name="worker", tasks={0: "a:1"})
    return str(tf.train.ClusterDef(job=[job]))


def case_defs_are_compared_by_content() -> Any:
    def make(address: str) -> Any:
        return tf.train.ClusterSpec({"worker": [address]}).as_cluster_def()

    return make("a:1") == make("a:1"), make("a:1") == make("b:1")


def case_a_server_def_is_built_by_arguments() -> Any:
    cluster = tf.train.ClusterSpec({"w": ["a:1", "b:1"]}).as_cluster_def()
    result = tf.train.ServerDef(
        cluster=cluster, job_name="w", task_index=1, protocol="grpc"
    )
    return result.job_name, result.task_index, result.protocol, str(result)


def case_a_server_def_copies_its_cluster() -> Any:
    cluster = tf.train.ClusterSpec({"w": ["a:1"]}).as_cluster_def()
    result = tf.train.ServerDef(cluster=cluster)
    return result.cluster is cluster, result.cluster == cluster


def case_a_server_def_keeps_its_session_config() -> Any:
    config = tf.ConfigProto(allow_soft_placement=True)
    result = tf.train.ServerDef(default_session_config=config)
    return result.default_session_config.allow_soft_placement


def built(make: Case) -> Case:
    """Return a case that builds a server; one that was built has a target."""
    return lambda: make().target.startswith("grpc://")


def server_definition(**fields: Any) -> Any:
    cluster = tf.train.ClusterSpec({"w": ["localhost:0"]}).as_cluster_def()
    return tf.train.ServerDef(cluster=cluster, **fields)


ONE = {"w": ["localhost:0"]}
TWO = {"w": ["localhost:0", "localhost:0"]}
JOBS = {"ps": ["localhost:0"], "w": ["localhost:0"]}

BUILT: dict[str, Case] = {
    "none": lambda: tf.train.Server(None),
    "text": lambda: tf.train.Server("localhost:0"),
    "a_list": lambda: tf.train.Server(["localhost:0"]),
    "tasks_that_are_text": lambda: tf.train.Server({"w": "localhost:0"}),
    "an_empty_cluster": lambda: tf.train.Server({}),
    "several_jobs_and_no_name": lambda: tf.train.Server(JOBS),
    "several_tasks_and_no_index": lambda: tf.train.Server(TWO),
    "several_tasks_of_the_named_job": lambda: tf.train.Server(TWO, job_name="w"),
    "an_unknown_job_without_an_index": lambda: tf.train.Server(ONE, job_name="x"),
    "an_unknown_job_with_an_index": lambda: tf.train.Server(ONE, "x", 0),
    "an_index_too_large": lambda: tf.train.Server(ONE, "w", 5),
    "a_negative_index": lambda: tf.train.Server(ONE, "w", -1),
    "an_index_that_is_text": lambda: tf.train.Server(ONE, "w", "0"),
    "a_host_without_port": lambda: tf.train.Server({"w": ["localhost"]}),
    "an_empty_address": lambda: tf.train.Server({"w": [""]}),
    "a_port_that_is_a_word": lambda: tf.train.Server({"w": ["localhost:abc"]}),
    "a_port_alone": lambda: tf.train.Server({"w": ["0"]}),
    "a_colon_and_a_port": lambda: tf.train.Server({"w": [":0"]}),
    "an_unknown_protocol": lambda: tf.train.Server(ONE, protocol="smoke"),
    "an_empty_protocol": lambda: tf.train.Server(ONE, protocol=""),
    "a_config_that_is_a_dict": lambda: tf.train.Server(ONE, config={}),
    "a_config_that_is_text": lambda: tf.train.Server(ONE, config="x"),
    "a_dict": lambda: tf.train.Server(ONE),
    "a_cluster_def": lambda: tf.train.Server(
        tf.train.ClusterSpec(ONE).as_cluster_def()
    ),
    "a_spec": lambda: tf.train.Server(tf.train.ClusterSpec(ONE)),
    "a_server_def": lambda: tf.train.Server(
        server_definition(job_name="w", protocol="grpc")
    ),
    "a_server_def_without_protocol": lambda: tf.train.Server(
        server_definition(job_name="w")
    ),
    "a_server_def_without_protocol_and_a_protocol": lambda: tf.train.Server(
        server_definition(job_name="w"), protocol="grpc"
    ),
}


def case_a_port_in_use_is_refused() -> Any:
    (address,) = addresses(1)
    first = tf.train.Server({"w": [address]})
    second = tf.train.Server({"w": [address]})
    return first.target, second.target


def fields_of(server: Any) -> Any:
    result = server.server_def
    return result.job_name, result.task_index, result.protocol


def case_arguments_override_a_server_def() -> Any:
    cluster = tf.train.ClusterSpec(TWO).as_cluster_def()
    inputs = tf.train.ServerDef(cluster=cluster, job_name="ps", task_index=0)
    server = tf.train.Server(inputs, job_name="w", task_index=1, protocol="grpc")
    return fields_of(server), (inputs.job_name, inputs.task_index, inputs.protocol)


def case_the_config_is_merged_into_that_of_the_server_def() -> Any:
    inputs = server_definition(job_name="w", protocol="grpc")
    inputs.default_session_config.allow_soft_placement = True
    config = tf.ConfigProto(log_device_placement=False, operation_timeout_in_ms=7000)
    server = tf.train.Server(inputs, config=config)
    merged = server.server_def.default_session_config
    return (
        merged.allow_soft_placement,
        merged.operation_timeout_in_ms,
        inputs.default_session_config.operation_timeout_in_ms,
    )


def case_the_server_def_holds_the_cluster() -> Any:
    (first, two) = addresses(2)
    spec = {"ps": [first], "w": [two]}
    server = tf.train.Server(spec, "w", 0)
    return tf.train.ClusterSpec(server.server_def.cluster).as_dict() == spec


def names(session: Any) -> list[str]:
    devices = [
        list_device
        for list_device in session.list_devices()
        if list_device.device_type == "CPU"
    ]
    return names_of(devices)


def case_a_local_server_has_one_job_called_local() -> Any:
    result = tf.train.Server.create_local_server().server_def
    jobs = tf.train.ClusterSpec(result.cluster).as_dict()
    return result.job_name, result.task_index, result.protocol, jobs


def case_a_local_server_takes_a_config() -> Any:
    config = tf.ConfigProto(device_count={"CPU": 2})
    server = tf.train.Server.create_local_server(config=config)
    with tf.Session(server.target) as session:
        return len(names(session))


def case_a_local_server_may_start_later() -> Any:
    server = tf.train.Server.create_local_server(start=False)
    server.start()
    return run(tf.constant(7), target=server.target)


def case_join_returns_at_once_on_a_server_that_was_not_started() -> Any:
    return tf.train.Server({"w": ["localhost:0"]}, start=False).join()


def case_a_job_may_have_any_name() -> Any:
    servers = cluster(moon=1, sun=1)
    with tf.device("/job:moon/task:0"):
        variable = tf.Variable(4)
    with tf.Session(servers["sun"][0].target) as session:
        session.run(variable.initializer)
        return session.run(variable.assign_add(1))


CASES: dict[str, Case] = {
    **{f"a_spec_from_{name}": made(form) for name, form in FORMS.items()},
    **{name: asked(question) for name, question in ASKED.items()},
    **{f"the_text_of_{name}": text_of(source) for name, source in SPECS.items()},
    "a_server_def_refuses_an_unknown_field": lambda: tf.train.ServerDef(host="a"),
    "jobs_of_a_spec_of_a_spec_are_sorted": lambda: tf.train.ClusterSpec(spec_of()).jobs,
    **{f"a_server_from_{name}": built(make) for name, make in BUILT.items()},
    "the_target_is_text": lambda: type(tf.train.Server(ONE).target).__name__,
}
