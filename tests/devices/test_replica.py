"""Who gets which task, beside what the original was asked (tests/tf1/cases)."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.devices.replica import (
    STANDARD_PS_OPS,
    GreedyLoadBalancingStrategy,
    RandomStrategy,
    RoundRobinStrategy,
    byte_size_load_fn,
    replica_device_setter,
)
from kit.devices.scope import Scope, ScopeStack, resolve
from kit.spec import ClusterSpec
from tests.cases import for_each

CLUSTER = {"ps": ["p:0", "p:1"], "worker": ["w:0", "w:1", "w:2"]}


class Graph:
    """Ops of any type, each placed by the scopes that are open when it is made."""

    def __init__(self) -> None:
        self.stack = ScopeStack()
        self.device = self.stack.push

    def op(self, kind: str, *inner: Scope, name: str = "x") -> str:
        with ExitStack() as opened:
            for scope in inner:
                opened.enter_context(self.stack.push(scope))
            made = SimpleNamespace(type=kind, name=name, device="", outputs=())
            return resolve(made, self.stack.entries())

    def variable(self, *inner: Scope, name: str = "x") -> str:
        return self.op("VariableV2", *inner, name=name)


def devices(*kinds: str, **arguments: Any) -> list[str]:
    """Return where ops of these types go under a setter of these arguments."""
    graph = Graph()
    with graph.device(replica_device_setter(**arguments)):
        return [graph.op(kind) for kind in kinds]


PS = ["/job:ps/task:0", "/job:ps/task:1"]
WORKER = "/job:worker"


def test_an_inner_task_wins_and_uses_up_the_turn() -> None:
    graph = Graph()

    with graph.device(replica_device_setter(ps_tasks=3)):
        result = [graph.variable("/task:2"), graph.variable()]

    assert result == ["/job:ps/task:2", "/job:ps/task:1"]


def test_without_merging_a_name_of_an_inner_function_is_not_even_read() -> None:
    graph = Graph()

    with graph.device(replica_device_setter(ps_tasks=2, merge_devices=False)):
        assert graph.variable(lambda op: "/zzz:0") == "/zzz:0"


# Arguments, and where two variables and a constant go; all as the original has it.
@for_each(
    ("arguments", "expected"),
    [
        (
            {"ps_tasks": 2, "ps_device": "/job:ps/task:5/cpu:1"},
            [f"{ps}/device:CPU:1" for ps in PS] + [WORKER],
        ),
        ({"ps_tasks": 2, "ps_device": None}, [WORKER] * 3),
        ({"ps_tasks": 2, "ps_device": "/task:3"}, ["/task:3"] * 2 + [WORKER]),
        (
            {"ps_tasks": 2, "ps_device": "/job:*"},
            ["/job:*/task:0", "/job:*/task:1", WORKER],
        ),
        ({"ps_tasks": 2, "ps_strategy": lambda op: None}, ["/job:ps"] * 2 + [WORKER]),
        ({"cluster": ClusterSpec(CLUSTER)}, [*PS, WORKER]),
        (
            {"cluster": {"a": ["x"]}, "ps_device": "/job:a"},
            ["/job:a/task:0"] * 2 + [WORKER],
        ),
    ],
)
def test_the_arguments_place_as_in_the_original(
    arguments: dict[str, Any], expected: list[str]
) -> None:
    assert devices("VariableV2", "VarHandleOp", "Const", **arguments) == expected


@for_each(
    "arguments",
    [
        {"ps_tasks": 0, "ps_strategy": 3},
        {"cluster": {}},
        {"cluster": {"worker": ["a"]}, "ps_tasks": 2},
        {"cluster": {"ps": ["a"]}, "ps_device": None},
        {"cluster": {"ps": ["a"]}, "ps_device": "/cpu:0"},
        {"cluster": {b"ps": ["a"]}},
    ],
)
def test_without_ps_tasks_there_is_no_setter(arguments: dict[str, Any]) -> None:
    assert replica_device_setter(**arguments) is None


def test_the_standard_types_of_variables_and_tables_go_to_the_ps() -> None:
    tables = [f"MutableHashTable{rest}" for rest in ("", "V2", "OfTensors")]
    tables += ["MutableHashTableOfTensorsV2", "MutableDenseHashTable"]
    tables += ["MutableDenseHashTableV2"]
    kinds = ["Variable", "VariableV2", "AutoReloadVariable", "VarHandleOp", *tables]

    result = devices(*kinds, ps_tasks=1)

    assert result == [PS[0]] * len(kinds)
    assert set(kinds) == set(STANDARD_PS_OPS)


def test_each_setter_counts_its_own_turns() -> None:
    first, second = (replica_device_setter(ps_tasks=2) for _ in range(2))
    graph, result = Graph(), []

    for setter in (first, second, first):
        with graph.device(setter):
            result.append(graph.variable())

    assert result == [PS[0], PS[0], PS[1]]


def test_the_strategy_is_asked_with_the_op_and_only_for_what_it_may_place() -> None:
    asked = []

    def strategy(op: Any) -> int:
        asked.append((op.name, op.device))
        return 1

    graph = Graph()
    with graph.device(replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        graph.variable("/cpu:0", name="a")
        graph.variable("/job:moon", name="b")
        graph.op("Const", name="c")

    assert asked == [("a", "/device:CPU:0")]


@given(st.integers(1, 5), st.lists(st.sampled_from(["VariableV2", "Const", "MatMul"])))
def test_variables_take_turns_whatever_ops_are_between_them(
    n_tasks: int, kinds: list[str]
) -> None:
    result = devices(*kinds, ps_tasks=n_tasks)

    variables = [device for device in result if device != WORKER]
    assert variables == [f"/job:ps/task:{i % n_tasks}" for i in range(len(variables))]
    assert len(variables) == kinds.count("VariableV2")


@for_each(
    ("arguments", "kind", "why"),
    [
        ({"cluster": []}, TypeError, "ClusterSpec"),
        ({"ps_tasks": 1, "ps_strategy": 3}, TypeError, r"ps_strategy must .* not 3"),
        ({"ps_tasks": 1.5}, TypeError, "integer"),
        ({"ps_tasks": 1, "ps_ops": "Variable"}, TypeError, r"\['Variable'\]"),
        ({"ps_tasks": -1}, ValueError, "at least one task, not -1"),
        ({"ps_tasks": 1, "ps_device": "/foo"}, ValueError, "/foo"),
        ({"ps_tasks": 1, "worker_device": "/foo"}, ValueError, "/foo"),
        ({"cluster": {"ps": ["a"]}, "ps_device": "/foo"}, ValueError, "/foo"),
        ({"ps_tasks": 1, "worker_device": 3}, AttributeError, "3 of type int"),
    ],
)
def test_bad_arguments_are_refused_when_the_setter_is_made(
    arguments: dict[str, Any], kind: type[Exception], why: str
) -> None:
    with pytest.raises(kind, match=why):
        replica_device_setter(**arguments)


@dataclass
class Output:
    shape: tuple[int | None, ...] | None
    dtype: Any = np.float32


@dataclass
class Op:
    name: str = "w"
    outputs: list[Output] = field(default_factory=list)
    type: str = "VariableV2"
    device: str = ""


def variable(*shape: int | None, dtype: Any = "f4") -> Op:
    return Op(outputs=[Output(shape, np.dtype(dtype))])


@given(st.integers(1, 9), st.integers(0, 40))
def test_round_robin_gives_each_task_its_turn(n_tasks: int, n_ops: int) -> None:
    strategy = RoundRobinStrategy(n_tasks)

    inputs = [strategy(Op()) for _ in range(n_ops)]

    assert inputs == [i % n_tasks for i in range(n_ops)]


@given(st.integers(1, 5), st.lists(st.integers(-9, 100)))
def test_greedy_never_loads_a_task_that_had_more_than_another(
    n_tasks: int, loads: list[int]
) -> None:
    todo = iter(loads)
    strategy = GreedyLoadBalancingStrategy(n_tasks, lambda op: next(todo))
    totals = np.zeros(n_tasks, dtype=np.int64)

    for load in loads:
        task = strategy(Op())
        assert task == np.argmin(totals)
        totals[task] += load


def test_greedy_keeps_count_of_loads_beyond_the_digits_of_a_float() -> None:
    strategy = GreedyLoadBalancingStrategy(2, int)

    # As floats the first two would be equal, and the third task the first.
    inputs = [strategy(load) for load in (2**53 + 1, 2**53, 0)]

    assert inputs == [0, 1, 1]


def test_greedy_counts_nothing_for_an_op_whose_load_is_not_known() -> None:
    strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)

    with pytest.raises(ValueError, match="not known"):
        strategy(variable(None))

    assert strategy(variable(1)) == 0


@given(st.text(), st.integers(1, 9), st.integers(0, 99))
def test_random_is_the_digest_of_name_and_seed(
    name: str, n_tasks: int, seed: int
) -> None:
    digest = hashlib.md5(f"{name}_{seed}".encode()).hexdigest()

    assert RandomStrategy(n_tasks, seed)(Op(name)) == int(digest, 16) % n_tasks


@for_each(
    ("op", "n_bytes"),
    [
        (variable(), 4),
        (variable(3, 4, dtype="f8"), 96),
        (variable(2, 3, dtype="?"), 6),
        (variable(2, 3, dtype="O"), 48),
        (variable(0, 3), 0),
        (variable(2**30, 2**30, 2**30), 2**92),
    ],
)
def test_the_byte_size_is_elements_times_element_size(op: Op, n_bytes: int) -> None:
    assert byte_size_load_fn(op) == n_bytes


@for_each(
    ("op", "why"),
    [
        (Op("none", []), "'none' has 0 outputs"),
        (Op("two", [Output((1,)), Output((1,))]), "'two' has 2 outputs"),
        (Op("open", [Output((None, 2))]), r"'open' is \(None, 2\)"),
        (Op("unknown", [Output(None)]), "'unknown' is None"),
    ],
)
def test_an_op_without_one_full_shape_has_no_byte_size(op: Op, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        byte_size_load_fn(op)


STRATEGIES = [
    RoundRobinStrategy,
    RandomStrategy,
    lambda n: GreedyLoadBalancingStrategy(n, byte_size_load_fn),
]


@for_each("make", STRATEGIES)
@for_each(
    ("n_tasks", "error", "words"),
    [
        *((n, ValueError, f"at least one task, not {n}") for n in (0, -1)),
        *((n, TypeError, "integer") for n in ("2", 1.5, None)),
    ],
)
def test_a_strategy_needs_a_whole_number_of_tasks(
    make: Any, n_tasks: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make(n_tasks)


def test_a_load_that_is_no_function_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"load_fn must be a function .* not 4"):
        GreedyLoadBalancingStrategy(2, 4)  # type: ignore[arg-type]
