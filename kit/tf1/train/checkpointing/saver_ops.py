"""What a saver saves, and its operations: the owning tasks write the files.

Without sharding, one operation on the session's task takes all values. With it, each
device writes its own variables, and one operation makes one checkpoint of all:

    Const ── ShardedFilename ──── SaveV2 ──────┐
         └── ShardedFilename_1 ── SaveV2_1 ────┴── MergeV2Checkpoints ── Identity

Nothing is assigned before every file has been read and found to be whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from kit.devices.device import DeviceSpec
from kit.tf1.graph.control import group
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.graph.message import CheckedMessage, Choice
from kit.tf1.tensor.convert import convert_to_tensor, create, create_op, op_scope
from kit.tf1.tensor.tensor import Tensor
from kit.tf1.variables.assigning import assign, ref_of
from kit.tf1.variables.partitioned import PartitionedVariable, slice_of


class CheckpointFormatVersion(Choice):
    """The format of the files; here there is only one, called V2."""

    NAMES: ClassVar = {0: "LEGACY", 1: "V1", 2: "V2"}


class SaverDef(CheckedMessage):
    """The names of a saver's operations, and what it keeps."""

    filename_tensor_name: str
    save_tensor_name: str
    restore_op_name: str
    max_to_keep: int
    sharded: bool
    keep_checkpoint_every_n_hours: float
    version: Annotated[int, CheckpointFormatVersion]
    CheckpointFormatVersion = CheckpointFormatVersion
    LEGACY, V1, V2 = 0, 1, 2


class Saveable(NamedTuple):
    """A variable under its name; `spec` is the part of a tensor that it is, or ''."""

    name: str
    spec: str
    ref: Tensor


def saveables_of(variables: Any) -> list[Saveable]:
    """Return what a `var_list` stands for: variables, or names with variables.

    Raises `TypeError` for anything that is not a variable, `ValueError` for a name that
    comes twice, and for one variable under two names.
    """
    if not isinstance(variables, list | tuple | set | dict):
        raise TypeError(
            f"Variables to save should be passed in a dict or a list: {variables}"
        )
    named = variables if isinstance(variables, dict) else _named(variables)
    saveables: list[Saveable] = []
    for name in sorted(named):
        saveables += _of_name(name, named[name])
    seen: set[Tensor] = set()
    for saveable in saveables:
        if saveable.ref in seen:
            raise ValueError(
                f"The same saveable will be restored with two names: {saveable.name}"
            )
        seen.add(saveable.ref)
    return saveables


def _named(variables: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for variable in sorted(variables, key=lambda item: str(item.name)):
        part = slice_of(variable)
        if part is not None:
            others = named.setdefault(part.full_name, [])
            if not isinstance(others, list):
                raise ValueError(
                    f"Mixing slices and non-slices with the same name: {part.full_name}"
                )
            others.append(variable)
            continue
        if isinstance(variable, PartitionedVariable):
            name = variable.name
        else:
            name = _ref(
                variable, f"Variable to save is not a Variable: {variable}"
            ).op.name
        if name in named:
            raise ValueError(f"At least two variables have the same name: {name}")
        named[name] = variable
    return named


def _of_name(name: Any, variable: Any) -> list[Saveable]:
    if not isinstance(name, str):
        raise TypeError(
            f"names_to_saveables must be a dict mapping string names to Variables; the "
            f"name is not a string: {name!r}"
        )
    if isinstance(variable, list | tuple | PartitionedVariable):
        return [_part(name, part) for part in variable]
    message = (
        f"names_to_saveables must be a dict mapping string names to "
        f"Tensors/Variables. Not a variable: {variable}"
    )
    return [Saveable(name, "", _ref(variable, message))]


def _part(name: str, variable: Any) -> Saveable:
    part = slice_of(variable)
    if part is None:
        raise ValueError(
            f"what is saved under the one name {name!r} must be the parts of a "
            f"partitioned variable, not {variable}."
        )
    return Saveable(name, part.spec, variable.ref)


def _ref(variable: Any, message: str) -> Tensor:
    try:
        return ref_of(variable, "SaveV2")
    except AttributeError as exc:
        convert_to_tensor(variable)
        raise TypeError(message) from exc


_HOST = "/device:CPU:0"


def add_saver_ops(
    saveables: Sequence[Saveable],
    *,
    filename: str | bytes | None,
    name: str | None,
    sharded: bool,
    reshape: bool,
) -> SaverDef:
    """Add a saver's operations to the graph of the variables; returns their names."""
    refs = [saveable.ref for saveable in saveables]
    with op_scope(name, "save", refs):
        text = filename.decode() if isinstance(filename, bytes) else filename
        default = _text("filename/input", text or "model")
        prefix = create("PlaceholderWithDefault", default, name="filename", shape=())
        prefix = create("PlaceholderWithDefault", prefix, name="Const", shape=())
        if sharded:
            shards = _by_device(saveables)
            saved = _save_sharded(prefix, shards)
        else:
            shards = [(_HOST, list(saveables))]
            saved = _save(prefix, prefix, saveables)
        restore = _restore(prefix, shards, sharded, reshape)
    return SaverDef(
        filename_tensor_name=prefix.name,
        save_tensor_name=saved.name,
        restore_op_name=restore.name,
        sharded=sharded,
        version=SaverDef.V2,
    )


Shard = tuple[str, list[Saveable]]


def _by_device(saveables: Sequence[Saveable]) -> list[Shard]:
    by_device: dict[str, list[Saveable]] = {}
    for saveable in saveables:
        by_device.setdefault(_on_host(saveable.ref.op.device), []).append(saveable)
    return sorted(by_device.items())


def _on_host(device: str) -> str:
    spec = DeviceSpec.from_string(device)
    return spec.replace(device_type="CPU", device_index=0).to_string()


def _save(prefix: Any, result: Any, saveables: Sequence[Saveable]) -> Any:
    """Return the prefix, when the values are in files under it."""
    with op_scope("SaveV2", None, [prefix]) as scope:
        texts = _described(saveables)
        values = [saveable.ref for saveable in saveables]
        saved = create_op("SaveV2", prefix, *texts, *values, name=scope)
    with _graph().control_dependencies([saved]):
        return create("Identity", result, name="control_dependency")


def _save_sharded(prefix: Any, shards: Sequence[Shard]) -> Any:
    # Unique, so that two savers never mix their unfinished files.
    folder = _text("StringJoin/inputs_1", f"_temp_{uuid.uuid4().hex}/part")
    base = create("StringJoin", prefix, folder, name="StringJoin")
    count = _number("num_shards", len(shards))
    names, saved = [], []
    for number, (device, saveables) in enumerate(shards):
        with _graph().device(device):
            with op_scope("ShardedFilename", None, [base]) as scope:
                arguments = base, _number("shard", number), count
                names.append(create("ShardedFilename", *arguments, name=scope))
            saved.append(_save(names[-1], names[-1], saveables))
    with _graph().device(shards[-1][0]):
        with (
            _graph().control_dependencies([tensor.op for tensor in saved]),
            op_scope("MergeV2Checkpoints", None, [prefix]) as scope,
        ):
            parts = create("Pack", *names, axis=0, name="checkpoint_prefixes")
            merged = create_op("MergeV2Checkpoints", parts, prefix, name=scope)
        with _graph().control_dependencies([*[tensor.op for tensor in saved], merged]):
            return create("Identity", prefix, name="Identity")


def _restore(prefix: Any, shards: Sequence[Shard], sharded: bool, reshape: bool) -> Any:
    read = [_read(prefix, *shard, reshape) for shard in shards]
    # Each assignment waits for all reads, so that one damaged file changes nothing.
    everything = [values[0].op for values in read]
    done = []
    for (_, saveables), values in zip(shards, read, strict=True):
        set_ = [
            _assign(saveable, value, everything, reshape)
            for saveable, value in zip(saveables, values, strict=True)
        ]
        done += [group(*set_, name="restore_shard")] if sharded else set_
    return group(*done, name="restore_all")


def _read(
    prefix: Any, device: str, saveables: Sequence[Saveable], reshape: bool
) -> list[Any]:
    statics = [saveable.ref.static for saveable in saveables]
    with _graph().device(device), op_scope("RestoreV2", None, [prefix]) as scope:
        return list(
            create_op(
                "RestoreV2",
                prefix,
                *_described(saveables),
                name=scope,
                dtypes=tuple(static.dtype for static in statics),
                shapes=None if reshape else tuple(static.shape for static in statics),
            ).outputs
        )


def _assign(saveable: Saveable, value: Any, after: Sequence[Any], reshape: bool) -> Any:
    shape = saveable.ref.static.shape
    if reshape and shape is not None:
        with _graph().colocate_with(saveable.ref.op):
            value = create("Reshape", value, shape=shape, name="Reshape")
    with _graph().control_dependencies([op for op in after if op is not value.op]):
        is_known = saveable.ref.shape.is_fully_defined()
        return assign(saveable.ref, value, validate_shape=is_known).op


def _described(saveables: Sequence[Saveable]) -> tuple[Any, Any]:
    return (
        _text("tensor_names", *[saveable.name for saveable in saveables], is_list=True),
        _text(
            "shape_and_slices", *[saveable.spec for saveable in saveables], is_list=True
        ),
    )


def _text(name: str, *texts: str, is_list: bool = False) -> Any:
    value = np.empty(len(texts), object)
    value[:] = [text.encode() for text in texts]
    return create("Const", value=value if is_list else value.reshape(()), name=name)


def _number(name: str, number: int) -> Any:
    return create("Const", value=np.asarray(number, np.int32), name=name)


def _graph() -> Graph:
    return get_default_graph()
