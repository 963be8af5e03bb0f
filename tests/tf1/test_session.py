"""Sessions of `kit.tf1`: classes of errors, defaults by thread, what is placed."""

from __future__ import annotations

import contextvars
import gc
import secrets
import weakref
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import kit
from kit import tf1 as tf
from kit.errors import KitError, NotFinite, PeerLost, PlacementError
from kit.tf1.python.ops import gen_state_ops
from kit.tf1.session.tf_errors import originals
from tests.session.scene import in_thread
from tests.tf1.servers import cluster


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (PlacementError("here"), tf.errors.InvalidArgumentError),
        (PeerLost("here", task="/job:ps/task:0"), tf.errors.UnavailableError),
        (NotFinite("here", step=3), tf.errors.InvalidArgumentError),
        (tf.errors.AbortedError("here"), tf.errors.AbortedError),
    ],
)
def test_error_of_kit_becomes_the_class_of_its_code(
    ours: KitError, theirs: type[Exception]
) -> None:
    with pytest.raises(KitError) as caught, originals():
        raise ours

    assert type(caught.value) is theirs
    assert caught.value.message == "here"
    assert (caught.value.task, caught.value.step) == (ours.task, ours.step)


def test_error_has_the_operation_and_its_node_def(session: Any) -> None:
    zero = tf.placeholder(tf.int32, [])
    quotient = tf.floordiv(1, zero, name="quotient")

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(quotient, {zero: 0})

    assert caught.value.op is quotient.op
    assert caught.value.node_def.name == "quotient"


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Record:
    a: Any


def test_sparse_tensor_is_fetched_in_every_kind_of_structure(session: Any) -> None:
    sparse = tf.SparseTensor([[1, 2]], [5.0], [3, 4])
    result = session.run(
        [
            sparse,
            (sparse,),
            {"a": [sparse]},
            OrderedDict(a=sparse),
            defaultdict(list, a=sparse),
            Pair(sparse, {"b": sparse}),
            Record(sparse),
        ]
    )

    plain, in_tuple, in_dict, in_order, by_default, pair, record = result
    values = [plain, in_tuple[0], in_dict["a"][0], in_order["a"], by_default["a"]]
    for item in (*values, pair.a, pair.b["b"], record.a):
        assert isinstance(item, tf.SparseTensorValue)
        assert item.values.tolist() == [5.0]
    assert [type(each) for each in result[2:]] == [
        *(dict, OrderedDict, defaultdict, Pair, Record)
    ]


def test_what_may_not_be_fetched_may_not_in_a_dict_either() -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.Session() as session:
        secret = tf.constant(1.0)
        graph.prevent_fetching(secret.op)

        with pytest.raises(ValueError, match="not fetchable"):
            session.run({"a": secret})


def test_open_session_may_be_collected_while_a_server_takes_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = cluster(worker=1)["worker"][0]
    seven = tf.constant(7)
    left = [tf.Session(server.target)]
    assert left[0].run(seven) == 7
    expected, draw = weakref.ref(left[0]), secrets.randbits

    def collecting(bits: int) -> int:
        left.clear()
        gc.collect()
        return draw(bits)

    # The server draws a number for a session while it holds the lock of them all.
    monkeypatch.setattr("kit.session.master.master.secrets.randbits", collecting)
    with tf.Session(server.target) as session:
        begun = in_thread(lambda: session.run(seven))

        assert begun.result(20) == 7

    assert expected() is None


def test_interactive_session_is_the_default_in_other_contexts_of_its_thread() -> None:
    """A notebook may run each cell in a context of its own."""
    graph = tf.Graph()

    session = contextvars.copy_context().run(tf.InteractiveSession, "", graph)
    try:
        assert tf.get_default_session() is session
        assert tf.get_default_graph() is graph
        assert tf.constant(7).eval() == 7
    finally:
        session.close()

    assert tf.get_default_session() is None
    assert tf.get_default_graph() is not graph


def test_default_graph_of_kit_stays_apart() -> None:
    ours = tf.constant(1.0) + 1.0

    theirs = in_thread(lambda: kit.constant(1.0) + np.float64(1.0)).result(20)

    assert not isinstance(theirs, tf.Tensor)
    assert isinstance(ours, tf.Tensor)


def test_tensor_of_kit_is_refused() -> None:
    theirs = in_thread(lambda: kit.constant(1.0)).result(20)

    with pytest.raises(TypeError, match="graph of kit itself"):
        tf.convert_to_tensor(theirs)


def test_only_an_interactive_session_here_overlooks_an_operation_nowhere() -> None:
    server = cluster(w=1)["w"][0]
    seven = tf.constant(7)
    with tf.device("/job:moon"):
        tf.constant(8)
    here, there = tf.InteractiveSession(), tf.Session(server.target)
    try:
        assert here.run(seven) == 7
        with pytest.raises(tf.errors.InvalidArgumentError, match="/job:moon"):
            there.run(seven)
    finally:
        here.close()
        there.close()


def test_operation_that_an_interactive_session_needs_later_is_placed_then() -> None:
    count = tf.Variable(1)
    session = tf.InteractiveSession()
    try:
        session.run(count.initializer)
        with tf.device("/job:moon"):
            nowhere = tf.constant(8)
        more = count.assign_add(2)
        assert session.run([more, count * 10])[0] == 3
        with pytest.raises(tf.errors.InvalidArgumentError, match="/job:moon"):
            session.run(nowhere)
        assert session.run(count) == 3
    finally:
        session.close()


def test_variable_is_read_for_another_task_after_what_its_reader_waits_for() -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device("/job:ps"):
        variable = tf.Variable(0.0)
        change = variable.assign_add(1.0)
    with tf.device("/job:worker"), tf.control_dependencies([change]):
        after = variable.read_value() * 10.0
    with tf.Session(servers["worker"][0].target) as session:
        session.run(variable.initializer)
        seen = [float(session.run(after)) for _ in range(20)]

    assert seen == [10.0 * (number + 1) for number in range(20)]


def test_servers_at_ipv6_addresses_are_targets_and_tasks() -> None:
    servers = [tf.train.Server({"local": ["[::1]:0"]}) for _ in range(2)]
    places = [server.target.removeprefix("grpc://") for server in servers]
    with tf.device("/job:worker/task:1"):
        three = tf.constant(1.0) + 2.0
    spec = tf.train.ClusterSpec({"worker": places})
    config = tf.ConfigProto(cluster_def=spec.as_cluster_def())

    with tf.Session(servers[0].target, config=config) as session:
        result = session.run(three)

    assert all(address.startswith("[::1]:") for address in places)
    assert result == 3.0


@pytest.mark.parametrize("target", ["[::1]:1", "grpc://::1:1", "grpc://[::1]"])
def test_an_ipv6_target_that_cannot_be_one_is_refused_in_words(target: str) -> None:
    wanted = tf.errors.NotFoundError, tf.errors.InvalidArgumentError

    with pytest.raises(wanted, match=r"write a server's target|'\[::1\]:port'"):
        tf.Session(target)


def test_a_temporary_variable_is_refused_in_a_run_in_parts(session: Any) -> None:
    x = tf.placeholder(tf.float32, [2])
    made = gen_state_ops.temporary_variable([2], tf.float32, "t")
    first = tf.assign(made, x)
    last = gen_state_ops.destroy_temporary_variable(first, "t")

    with pytest.raises(tf.errors.InvalidArgumentError, match="use a variable"):
        session.partial_run_setup([first, last], [x])


def test_a_temporary_variable_is_on_a_server_too() -> None:
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        made = gen_state_ops.temporary_variable([2], tf.float32, "t")
        changed = tf.assign_add(tf.assign(made, [1.0, 2.0]), [3.0, 4.0])
        last = gen_state_ops.destroy_temporary_variable(changed, "t")

        result = [session.run(last).tolist() for _ in range(2)]

    assert result == [[4.0, 6.0]] * 2
