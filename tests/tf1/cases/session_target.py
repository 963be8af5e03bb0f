"""Session: which targets, graphs and configs it takes, and several of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.servers import addresses


def opened(*args: Any, **options: Any) -> Callable[[Any], Any]:
    """Return a case that opens a session and runs a constant in it."""

    def case(tf: Any) -> Any:
        seven = tf.constant(7)
        with tf.Session(*args, **options) as session:
            return session.run(seven)

    return case


CASES = {
    "a_session_without_target_runs_here": opened(),
    "a_session_on_an_empty_target_runs_here": opened(""),
    "a_session_on_none_runs_here": opened(None),
    "a_session_by_keyword_runs_here": opened(target="", graph=None, config=None),
    "a_session_on_a_word_is_refused": opened("local"),
    "a_session_on_an_address_without_scheme_is_refused": opened("localhost:2222"),
    "a_session_on_an_unknown_scheme_is_refused": opened("foo://x"),
    "a_session_on_a_scheme_alone_is_refused": opened("grpc://"),
    "a_session_on_a_host_without_port_is_refused": opened("grpc://localhost"),
    "a_session_on_an_int_is_refused": opened(3),
    "a_session_on_a_list_is_refused": opened(["grpc://localhost:1"]),
    "a_session_on_bytes_runs_here": opened(b""),
    "a_session_with_text_as_graph_is_refused": opened("", "x"),
    "a_session_with_an_int_as_graph_is_refused": opened(graph=3),
    "a_session_with_a_dict_as_config_is_refused": opened(config={}),
    "a_session_with_text_as_config_is_refused": opened(config="x"),
}


def case_a_config_in_place_of_the_target_is_refused(tf: Any) -> Any:
    return tf.Session(tf.ConfigProto())


def case_a_server_in_place_of_the_target_is_refused(tf: Any) -> Any:
    return tf.Session(tf.train.Server({"w": addresses(1)}, start=False))


def case_a_session_on_an_address_that_nobody_listens_on_is_made(tf: Any) -> Any:
    session = tf.Session(f"grpc://{addresses(1)[0]}")
    return session.sess_str[:7]
