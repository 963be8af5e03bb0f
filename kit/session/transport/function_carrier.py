"""Python functions on their way to other processes.

A graph travels as plain data over links, which never carry code. A client that has
another channel, one that may, says so here; functions then go ahead of the ops that
call them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from kit.graph.node import Node
from kit.graph.ops.state.function import function_of

# Takes functions by token to all processes that may have to call them.
Carrier: TypeAlias = Callable[[Mapping[str, Callable[..., Any]]], None]

_carrier: list[Carrier] = []


def set_function_carrier(carry: Carrier | None) -> None:
    """Say what carries functions from now on; None: nothing does."""
    _carrier[:] = [] if carry is None else [carry]


def carry_functions(nodes: Iterable[Node]) -> None:
    """Have the functions that these nodes call carried, if there is a carrier."""
    tokens = (node.attrs["token"] for node in nodes if node.type == "PyFunc")
    found = {token: function_of(token) for token in tokens}
    functions = {token: one for token, one in found.items() if one is not None}
    if functions and _carrier:
        _carrier[0](functions)
