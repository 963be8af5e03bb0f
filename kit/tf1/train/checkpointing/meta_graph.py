"""Meta graphs: a graph and its collections as a message and in a file, and back.

A file has the operations of ours, so it is read by `kit.tf1` alone. A collection is
kept as the original does it: numbers, texts, names of tensors and operations; and of
variables, queue runners and savers a message for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from kit.checkpoint.files import replace_file
from kit.errors import InvalidArgumentError, ProtocolError
from kit.graph.node import Node, from_plain, node_of, to_plain
from kit.regular_file import open_regular
from kit.session.transport.serialization import pack, unpack
from kit.tf1 import logging
from kit.tf1.graph.collections import GraphKeys
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.graph.graph_def import AttrValue, GraphDef, ListValue, NodeDef
from kit.tf1.graph.importing import add_nodes, nodes_of, renamed
from kit.tf1.graph.message import CheckedMessage, message_of, plain_of
from kit.tf1.train.checkpointing.saver_ops import SaverDef
from kit.tf1.train.queues.queue_runner import QueueRunner, QueueRunnerDef
from kit.tf1.variables.variables import Variable, VariableDef


class _Names(CheckedMessage):
    value: list[str]


class _Bytes(CheckedMessage):
    value: list[bytes]


class _Ints(CheckedMessage):
    value: list[int]


class _Floats(CheckedMessage):
    value: list[float]


class CollectionDef(CheckedMessage):
    """The values of a collection, in one of the fields."""

    node_list: _Names
    bytes_list: _Bytes
    int64_list: _Ints
    float_list: _Floats

    def WhichOneof(self, oneof_group: str) -> str | None:
        """Return the name of the field that has the values."""
        return next((name for name in self.FIELDS if self.HasField(name)), None)


class MetaInfoDef(CheckedMessage):
    """What wrote a graph."""

    meta_graph_version: str
    tags: list[str]
    tensorflow_version: str
    tensorflow_git_version: str


@dataclass(repr=False)
class MetaGraphDef:
    """A graph, the names of a saver's operations in it, and its collections."""

    meta_info_def: MetaInfoDef = field(default_factory=MetaInfoDef)
    graph_def: GraphDef = field(default_factory=GraphDef)
    saver_def: SaverDef = field(default_factory=SaverDef)
    collection_def: dict[str, CollectionDef] = field(default_factory=dict)

    def HasField(self, name: str) -> bool:
        """Whether a field was set."""
        return bool(getattr(self, name) != getattr(MetaGraphDef(), name))

    def __str__(self) -> str:
        parts = [
            (name, str(getattr(self, name)))
            for name in ("meta_info_def", "graph_def", "saver_def")
            if self.HasField(name)
        ]
        for key, definition in sorted(self.collection_def.items()):
            value = f'key: "{key}"\nvalue {{\n{_indented(str(definition))}}}\n'
            parts.append(("collection_def", value))
        return "".join(f"{name} {{\n{_indented(text)}}}\n" for name, text in parts)

    __repr__ = __str__


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


class Kept(NamedTuple):
    """The message in whose form each value of a collection is kept."""

    message: type[CheckedMessage]
    from_proto: Callable[..., Any]


class Content(NamedTuple):
    """What a file holds."""

    nodes: list[Node]
    saver_def: SaverDef | None
    collections: dict[str, CollectionDef]


# By the name of the collection. Savers add themselves, since they need this module.
KEPT: dict[str, Kept] = {
    GraphKeys.QUEUE_RUNNERS: Kept(QueueRunnerDef, QueueRunner.from_proto),
    **dict.fromkeys(
        [
            GraphKeys.GLOBAL_VARIABLES,
            GraphKeys.TRAINABLE_VARIABLES,
            GraphKeys.LOCAL_VARIABLES,
            GraphKeys.MODEL_VARIABLES,
            GraphKeys.MOVING_AVERAGE_VARIABLES,
            GraphKeys.METRIC_VARIABLES,
            GraphKeys.GLOBAL_STEP,
        ],
        Kept(VariableDef, Variable.from_proto),
    ),
}


# --------------------------------------------------------------------------------------
# From a graph to a message and a file.


_LISTS = ((int, "int64_list"), (float, "float_list"), ((str, bytes), "bytes_list"))


def export_scoped_meta_graph(
    filename: str | None = None,
    graph_def: GraphDef | None = None,
    graph: Graph | None = None,
    export_scope: str | None = None,
    as_text: bool = False,
    clear_devices: bool = False,
    saver_def: SaverDef | None = None,
    clear_extraneous_savers: bool = False,
    meta_info_def: MetaInfoDef | None = None,
    collection_list: Iterable[str] | None = None,
) -> tuple[MetaGraphDef, dict[str, Any]]:
    """Return a graph as a message, and its variables by their names below the scope.

    See `tf.train.export_meta_graph`.
    """
    graph = graph or get_default_graph()
    scope = f"{export_scope.rstrip('/')}/" if export_scope else ""
    others = _other_savers(graph, saver_def) if clear_extraneous_savers else ()
    source_def = graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def
    nodes = [
        _exported(node_def, scope, clear_devices)
        for node_def in source_def.node
        if node_def.name.startswith(scope) and not node_def.name.startswith(others)
    ]
    info = MetaInfoDef(tensorflow_version="1.15.5", tensorflow_git_version="psring")
    made = MetaGraphDef(meta_info_def or info, GraphDef(nodes, source_def.versions))
    if saver_def is not None:
        made.saver_def = saver_def
    for key in sorted(collection_list or graph.get_all_collection_keys()):
        values = graph.get_collection(key)
        if others and key == GraphKeys.SAVERS:
            values = [saver for saver in values if saver.saver_def == saver_def]
        definition = _collection(key, values, scope)
        if definition is not None:
            made.collection_def[key] = definition
    if filename is not None:
        content = read_meta_graph(made)
        data = str(made).encode() if as_text else _packed(content)
        replace_file(Path(filename), data)
    return made, _variables_in(graph, scope)


def write_meta_graph(filename: str, graph: Graph, saver_def: SaverDef | None) -> None:
    """Write a whole graph, without making messages of its operations."""
    pairs = (
        (key, _collection(key, graph.get_collection(key), ""))
        for key in sorted(graph.get_all_collection_keys())
    )
    collections = {key: value for key, value in pairs if value is not None}
    nodes = [node_of(op) for op in graph.ops]
    content = Content(nodes, saver_def, collections)
    replace_file(Path(filename), _packed(content))


def _variables_in(graph: Graph, scope: str) -> dict[str, Any]:
    variables = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
    named = [variable for variable in variables if variable.name.startswith(scope)]
    return {variable.name.removeprefix(scope): variable for variable in named}


def _other_savers(graph: Graph, own: SaverDef | None) -> tuple[str, ...]:
    """Return the scopes of the operations of all savers in the collection but one."""
    defs = [saver.saver_def for saver in graph.get_collection(GraphKeys.SAVERS)]
    return tuple(
        f"{saver_def.filename_tensor_name.partition('/')[0]}/"
        for saver_def in defs
        if saver_def != own
    )


def _exported(node_def: NodeDef, scope: str, clear_devices: bool) -> NodeDef:
    """Return an operation with the names that it has below the scope.

    An input from outside gets the original's name for such a one.
    """

    def inside(name: str) -> str:
        is_control, name = name.startswith("^"), name.removeprefix("^")
        outside = f"$unbound_inputs_{name}" if scope else name
        inner = name.removeprefix(scope) if name.startswith(scope) else outside
        return "^" * is_control + inner

    inputs = [
        input_name
        for input_name in node_def.input
        if input_name[0] != "^" or input_name.startswith(f"^{scope}")
    ]
    made = NodeDef(
        inside(node_def.name),
        node_def.op,
        [inside(input_name) for input_name in inputs],
        "" if clear_devices else node_def.device,
        dict(node_def.attr),
        made_of=node_def.made_of and renamed(node_def.made_of, inside),
    )
    if "_class" in made.attr:
        names = [location.decode()[5:] for location in made.attr["_class"].list.s]
        kept = [
            location.removeprefix(scope)
            for location in names
            if location.startswith(scope)
        ]
        made.attr["_class"] = AttrValue(list=ListValue(s=[f"loc:@{x}" for x in kept]))
    return made


def _collection(key: str, values: Sequence[Any], scope: str) -> CollectionDef | None:
    """Return a collection as a message, None where nothing of it has a form."""
    if key in KEPT and all(hasattr(value, "to_proto") for value in values):
        protos = [value.to_proto(export_scope=scope[:-1] or None) for value in values]
        data = [
            json.dumps(plain_of(proto)).encode()
            for proto in protos
            if proto is not None
        ]
        return CollectionDef(bytes_list=_Bytes(value=data)) if data else None
    for kind, name in _LISTS:
        if values and all(isinstance(value, kind) for value in values):
            made: Any = CollectionDef.FIELDS[name](value=values)
            return CollectionDef(**{name: made})
    names = [getattr(value, "name", None) for value in values]
    if not all(isinstance(item, str) for item in names):
        logging.warning(
            "The collection %s is left out of the meta graph: its values are of no "
            "type that one can hold.",
            key,
        )
        return None
    kept = [str(x).removeprefix(scope) for x in names if str(x).startswith(scope)]
    return CollectionDef(node_list=_Names(value=kept)) if kept else None


def _packed(content: Content) -> bytes:
    nodes, arrays = to_plain(content.nodes)
    meta = {
        "meta_graph": 1,
        "nodes": nodes,
        "saver": None if content.saver_def is None else plain_of(content.saver_def),
        "collections": {key: plain_of(x) for key, x in content.collections.items()},
    }
    return b"".join(pack(meta, arrays))


# --------------------------------------------------------------------------------------
# From a message or a file to a graph.


def read_meta_graph(source: MetaGraphDef | str) -> Content:
    """Return what a message or a file holds; raises `IOError` for an unreadable one."""
    if isinstance(source, MetaGraphDef):
        saver = source.saver_def if source.HasField("saver_def") else None
        return Content(nodes_of(source.graph_def), saver, source.collection_def)
    path = Path(source)
    if not path.is_file():
        raise OSError(f"File {source} does not exist.")
    try:
        with open_regular(path) as file:
            contents = bytearray(file.read())
    except InvalidArgumentError as exc:
        raise OSError(exc.message) from exc
    try:
        meta, arrays = unpack(contents)
        return Content(
            from_plain(meta["nodes"], arrays),
            None if meta["saver"] is None else message_of(SaverDef, meta["saver"]),
            {
                key: message_of(CollectionDef, x)
                for key, x in meta["collections"].items()
            },
        )
    except (ProtocolError, InvalidArgumentError, LookupError, TypeError) as exc:
        raise OSError(
            f"Cannot parse file {source}: it is not a meta graph of kit.tf1, or "
            f"was written as text, which is for reading. Export it without as_text."
        ) from exc


def import_scoped_meta_graph(
    meta_graph_or_file: MetaGraphDef | Content | str,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
) -> dict[str, Any]:
    """Add a graph and its collections below a scope; returns its variables by names.

    See `tf.train.import_meta_graph`.
    """
    source, graph = meta_graph_or_file, graph or get_default_graph()
    content = source if isinstance(source, Content) else read_meta_graph(source)
    with (
        graph.as_default(),
        graph.name_scope(import_scope or f"{graph.scope}/") as scope,
    ):
        scope = scope if scope != "/" else ""
        nodes = [renamed(node, lambda name: f"{scope}{name}") for node in content.nodes]
        if clear_devices:
            nodes = [replace(node, device="") for node in nodes]
        mapped = {
            f"{scope}{name}": tensor for name, tensor in (input_map or {}).items()
        }
        add_nodes(graph, nodes, mapped)
        for key, collection in content.collections.items():
            if restore_collections_predicate(key):
                _restore(graph, key, collection, scope)
    return _variables_in(graph, scope)


def _restore(graph: Graph, key: str, collection: CollectionDef, scope: str) -> None:
    kind = collection.WhichOneof("kind")
    values = [] if kind is None else getattr(collection, kind).value
    if kind == "bytes_list" and key in KEPT:
        message, from_proto = KEPT[key]
        protos = [message_of(message, json.loads(text)) for text in values]
        # A variable is one object in all of its collections.
        same = {variable.name: variable for variable in graph.variables}
        values = [
            from_proto(proto, import_scope=scope[:-1] or None) for proto in protos
        ]
        values = [same.get(getattr(item, "name", None), item) for item in values]
        graph.variables.extend(
            item
            for item in values
            if isinstance(item, Variable) and item.name not in same
        )
    elif kind == "node_list":
        values = [graph.as_graph_element(f"{scope}{name}") for name in values]
    for value in values:
        graph.add_to_collection(key, value)


def copy_scoped_meta_graph(
    from_scope: str,
    to_scope: str,
    from_graph: Graph | None = None,
    to_graph: Graph | None = None,
) -> dict[str, Any]:
    """Copy what is below a scope to another, also of another graph."""
    source, target = (graph or get_default_graph() for graph in (from_graph, to_graph))
    if source is target and from_scope == to_scope:
        raise ValueError(
            f"'from_scope' and 'to_scope' need to be different when performing copy in "
            f"the same graph, not both {to_scope!r}."
        )
    made, _ = export_scoped_meta_graph(graph=source, export_scope=from_scope)
    return import_scoped_meta_graph(made, graph=target, import_scope=to_scope)
