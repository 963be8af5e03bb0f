"""Nested device scopes, beside those that the original was asked (tests/tf1/cases)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.devices.device import DeviceSpec, merge
from kit.devices.scope import Scope, ScopeStack, parse_scope, resolve
from tests.cases import for_each


class Op:
    def __init__(self, device: str = "") -> None:
        self.device = device


def to(answer: Any) -> Callable[[Op], Any]:
    """Return a device function with one answer for all ops."""
    return lambda op: answer


def device_of(*scopes: Scope) -> str:
    """Return the device of an op inside these scopes, the outermost first."""
    stack = ScopeStack()
    with ExitStack() as opened:
        for scope in scopes:
            opened.enter_context(stack.push(scope))
        return resolve(Op(), stack.entries())


# All as the original has them; scopes from the outermost to the innermost.
NESTED: list[tuple[tuple[Scope, ...], str]] = [
    ((), ""),
    ((DeviceSpec("ps"), "/task: 1"), "/job:ps/task:1"),
    ((DeviceSpec(device_index=1), "/cpu"), "/device:CPU:*"),
    (("/job:ps/task:1", to("/job:fn/gpu:0")), "/job:fn/task:1/device:GPU:0"),
    ((to("/job:fn/gpu:0"), "/job:ps/task:1"), "/job:fn/gpu:0"),
    (("/job:ps/task:1", to("")), "/job:ps/task:1"),
    (("/job:ps", to("/")), "/job:ps"),
    ((to("/cpu:0"),), "/cpu:0"),
    (("", to("/cpu:0")), "/cpu:0"),
    ((to(b"/cpu:0"),), "/cpu:0"),
    ((to(DeviceSpec("a", device_type="cpu", device_index=0)),), "/job:a/device:CPU:0"),
    ((to("/zzz:0"),), "/zzz:0"),
    ((to("/zzz:0"), "/job:ps"), "/zzz:0"),
    ((lambda op: op.device, to("/zzz:0")), "/zzz:0"),
    (("/job:ps/task:1", lambda op: op.device, "/cpu:0"), "/job:ps/task:1/device:CPU:0"),
    ((to(None), None), ""),
]


@for_each(("scopes", "device"), NESTED)
def test_nested_scopes_give_an_op_the_device_of_the_original(
    scopes: tuple[Scope, ...], device: str
) -> None:
    assert device_of(*scopes) == device


def test_a_device_that_the_op_has_already_wins_over_scopes() -> None:
    assert resolve(Op("/task:2"), [parse_scope("/job:ps/task:0")]) == "/job:ps/task:2"


def test_a_function_sees_what_the_scopes_inside_of_it_have_set() -> None:
    seen = []

    def look(op: Op) -> str:
        seen.append(op.device)
        return "/job:fn"

    device_of("/job:out", look, "/task:1", look, "/cpu:0")

    assert seen == ["/device:CPU:0", "/job:fn/task:1"]


@for_each("answer", [None, 3, 1.5, ("/cpu:0",), to("/cpu:0")])
def test_a_function_without_a_device_name_is_a_type_error(answer: Any) -> None:
    with pytest.raises(TypeError, match=r"device function \S*to\S* returned") as caught:
        device_of("/job:ps", to(answer))

    assert repr(answer) in str(caught.value)


@for_each(
    ("scopes", "words"),
    [((to(b"\xff"),), "UTF-8"), (("/job:ps", to("/zzz:0")), "/zzz:0")],
)
def test_an_answer_that_cannot_be_read_where_it_must_be_is_a_value_error(
    scopes: tuple[Scope, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        device_of(*scopes)


def test_a_bad_name_is_a_value_error_when_its_scope_is_entered() -> None:
    stack = ScopeStack()

    with pytest.raises(ValueError, match="/foo:1"), stack.push("/foo:1"):
        pytest.fail("the scope was entered")

    assert stack.entries() == ()


@for_each("x", [3, 0, False, ["/cpu:0"], object()])
def test_what_is_no_scope_is_an_attribute_error(x: Any) -> None:
    with pytest.raises(AttributeError, match="a device name is a str"):
        parse_scope(x)


def test_a_spec_that_changes_later_does_not_change_its_scope() -> None:
    spec = DeviceSpec("ps", task=0)
    entry = parse_scope(spec)

    spec.task = 3

    assert resolve(Op(), [entry]) == "/job:ps/task:0"


numbers = st.none() | st.integers(0, 3)
devices = st.builds(
    DeviceSpec,
    job=st.none() | st.sampled_from(["ps", "worker"]),
    task=numbers,
    device_type=st.none() | st.sampled_from(["CPU", "GPU"]),
    device_index=numbers,
).map(lambda spec: DeviceSpec.from_string(spec.to_string()))


@given(st.lists(devices), st.lists(devices))
def test_nesting_merges_one_after_the_other_within_none(
    outside: list[DeviceSpec], inside: list[DeviceSpec]
) -> None:
    expected = reduce(merge, inside, DeviceSpec()).to_string()

    assert device_of(*outside, None, *inside) == expected


@given(st.lists(devices), st.lists(devices))
def test_a_function_that_returns_the_device_changes_nothing(
    outside: list[DeviceSpec], inside: list[DeviceSpec]
) -> None:
    with_it = device_of(*outside, lambda op: op.device, *inside)

    assert with_it == device_of(*outside, *inside)
