"""`tf.import_graph_def`: the operations of a `GraphDef` in another graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Any

from kit.graph.node import Edge, Node
from kit.graph.op import Op, Tensor
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.graph.graph_def import GraphDef, NodeDef


def nodes_of(graph_def: GraphDef) -> list[Node]:
    """Return what a message says of each operation.

    Names, inputs, devices and colocation are as the message has them now, attributes as
    they were when a graph made it. Raises `TypeError` for what is no such message,
    `ValueError` for an operation that no graph has made.
    """
    if not isinstance(graph_def, GraphDef):
        raise TypeError(
            f"graph_def must be a GraphDef that graph.as_graph_def() has made, not "
            f"{type(graph_def).__name__}."
        )
    return [_node(node_def) for node_def in graph_def.node]


def _node(node_def: NodeDef) -> Node:
    if node_def.made_of is None:
        raise ValueError(
            f"the operation {node_def.name!r} was not made by a graph of kit.tf1, "
            f"whose attributes have other forms than the original's messages."
        )
    group = node_def.attr["_class"].list.s if "_class" in node_def.attr else ()
    return replace(
        node_def.made_of,
        name=node_def.name,
        inputs=tuple(edge_of(name) for name in node_def.input if name[0] != "^"),
        control=tuple(name[1:] for name in node_def.input if name[0] == "^"),
        device=node_def.device,
        colocation=tuple(name.decode().removeprefix("loc:@") for name in group),
    )


def edge_of(text: str) -> Edge:
    """Return the name of an operation and the number of its output.

    >>> edge_of("a"), edge_of("a:1")
    (('a', 0), ('a', 1))
    """
    name, _, index = text.partition(":")
    return name, int(index or 0)


def renamed(node: Node, new: Callable[[str], str]) -> Node:
    """Return a node with all names of operations in it changed."""
    return replace(
        node,
        name=new(node.name),
        inputs=tuple((new(name), i) for name, i in node.inputs),
        control=tuple(map(new, node.control)),
        colocation=tuple(map(new, node.colocation)),
        guards=tuple(((new(name), i), wanted) for (name, i), wanted in node.guards),
    )


def add_nodes(
    graph: Graph, nodes: Iterable[Node], input_map: Mapping[str, Any] | None = None
) -> None:
    """Add operations under their own names, in any order.

    `input_map` has tensors of the graph in the place of tensors of the nodes. Raises
    `ValueError` for a name that is taken, an input that is not there, and a name in
    `input_map` that no node takes.
    """
    mapped = {edge_of(name): item for name, item in (input_map or {}).items()}
    used = set[Edge]()

    def tensor(edge: Edge) -> Tensor:
        if edge in mapped:
            used.add(edge)
            element: Tensor = graph.as_graph_element(mapped[edge])
            return element
        try:
            return graph.tensor(f"{edge[0]}:{edge[1]}")
        except KeyError as exc:
            raise ValueError(
                f"the graph has no {edge[0]!r}, an input of {node.name!r}; put a "
                f"tensor in its place by input_map."
            ) from exc

    with graph.as_default(), graph.control_dependencies(None):
        for node in _in_order(list(nodes)):
            inputs = [tensor(edge) for edge in node.inputs]
            name, device = f"{node.name}/", node.device or None
            op: Any = graph.create(
                node.type, *inputs, name=name, device=device, **node.attrs
            )
            graph.take_name(node.name)
            op.control_inputs = [graph.op(item) for item in node.control]
            op.colocation = node.colocation
            op.container, op.source_line = node.container, node.source_line
            op.guards = tuple((tensor(edge), wanted) for edge, wanted in node.guards)
    if unused := mapped.keys() - used:
        names = ", ".join(sorted(f"{name}:{index}" for name, index in unused))
        raise ValueError(f"input_map has tensors that no operation takes: {names}.")


def _in_order(nodes: list[Node]) -> list[Node]:
    """Return nodes so that each comes after those that it needs, as far as it can."""
    by_name = {node.name: node for node in nodes}
    needed = {
        node.name: [*(name for name, _ in node.takes), *node.control] for node in nodes
    }
    seen = set[str]()
    for name, before in needed.items():
        if any(item in by_name and item not in seen for item in before):
            order = TopologicalSorter(needed).static_order()
            return [by_name[item] for item in order if item in by_name]
        seen.add(name)
    return nodes


def import_graph_def(
    graph_def: GraphDef,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Iterable[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the operations of a message to the default graph, below `name`.

    That is "import" by default, and "" adds them under their own names. `input_map` has
    tensors of the default graph in the place of tensors of the message. Returns the
    operations and tensors of the message that `return_elements` names. Raises
    `TypeError` for what is no such message, `ValueError` for a name that is not in it
    and for an operation that no graph of `kit.tf1` has made.
    """
    graph, nodes = get_default_graph(), nodes_of(graph_def)
    names = {node.name for node in nodes}
    with graph.name_scope("import" if name is None else name or None) as scope:
        mapped = {}
        for key, tensor in (input_map or {}).items():
            below = f"{scope}{key}" if edge_of(key)[0] in names else key
            mapped[below] = tensor
        add_nodes(
            graph, (renamed(node, lambda x: f"{scope}{x}") for node in nodes), mapped
        )
    if return_elements is None:
        return None
    return [
        _element(graph, names, scope, return_element)
        for return_element in return_elements
    ]


def _element(graph: Graph, names: set[str], scope: str, wanted: str) -> Op | Tensor:
    if edge_of(wanted)[0] not in names:
        raise ValueError(f"Requested return_element {wanted!r} not found in graph_def.")
    element: Op | Tensor = graph.as_graph_element(f"{scope}{wanted}")
    return element
