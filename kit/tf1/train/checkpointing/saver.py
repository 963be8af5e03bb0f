"""`tf.train.Saver`: variables to files and back."""

from __future__ import annotations

import copy
import numbers
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kit.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from kit.tf1 import logging
from kit.tf1.gfile import local_path
from kit.tf1.graph.collections import GraphKeys, get_collection
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.graph.graph_def import GraphDef
from kit.tf1.session.session import BaseSession
from kit.tf1.train.checkpointing.checkpoint_state import (
    STATE_FILE,
    checkpoint_exists,
    get_checkpoint_mtimes,
    is_inside,
    remove_checkpoint,
    update_checkpoint_state,
)
from kit.tf1.train.checkpointing.meta_graph import (
    KEPT,
    Kept,
    MetaGraphDef,
    export_scoped_meta_graph,
    import_scoped_meta_graph,
    read_meta_graph,
)
from kit.tf1.train.checkpointing.meta_graph import (
    write_meta_graph as write_meta_graph_of,
)
from kit.tf1.train.checkpointing.saver_ops import (
    SaverDef,
    add_saver_ops,
    saveables_of,
)
from kit.tf1.train.global_step import global_step as value_of_step
from kit.tf1.variables.partitioned import PartitionedVariable

# --------------------------------------------------------------------------------------
# Which checkpoints a saver has written, and which it removes when it writes another.


_HOUR_S = 3600.0


class SavedCheckpointList:
    """The newest checkpoints of a saver, oldest first, with their times."""

    def __init__(
        self,
        max_to_keep: int,
        every_n_hours: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Keep `max_to_keep`, 0 for all, and beyond these one for `every_n_hours`."""
        self._max, self._every_s = max_to_keep, every_n_hours * _HOUR_S
        self._clock, self._entries = clock, list[tuple[str, float]]()
        self._too_old: list[tuple[str, float]] = []
        self._written = set[str]()  # by this saver
        self._next_to_stay = clock() + self._every_s

    @property
    def prefixes(self) -> list[str]:
        """The prefixes, oldest first."""
        return [prefix for prefix, _ in self._entries]

    def set(self, entries: Iterable[tuple[str, float]]) -> None:
        """Replace what is remembered."""
        self._entries = list(entries)

    def recover(self, prefixes: Sequence[str]) -> None:
        """Remember what an earlier saver has written and is still there."""
        times = [(prefix, get_checkpoint_mtimes([prefix])) for prefix in prefixes]
        self.set((prefix, mtimes[0]) for prefix, mtimes in times if mtimes)

    def add(self, prefix: str) -> None:
        """Remember a new one; a name that is used again becomes the newest."""
        if not self._max:
            return
        self._written.add(prefix)
        self._entries = [entry for entry in self._entries if entry[0] != prefix]
        self._entries.append((prefix, self._clock()))
        if len(self._entries) > self._max:
            self._too_old.append(self._entries.pop(0))

    def remove_old(self, meta_suffix: str) -> None:
        """Remove the files of checkpoints beyond the limit, except those that stay."""
        while self._too_old:
            prefix, at = self._too_old.pop(0)
            if at > self._next_to_stay:
                self._next_to_stay += self._every_s
            # A prefix may be in use again: then these are the files of the new one.
            elif prefix not in self.prefixes and self._may_remove(prefix):
                self._written.discard(prefix)
                remove_checkpoint(prefix, meta_graph_suffix=meta_suffix)

    def _may_remove(self, prefix: str) -> bool:
        """Whether it is ours: what was recovered is what a file has named.

        That lies beside what is written, or it is left alone.
        """
        beside = folder_of(self._entries[-1][0]) or os.curdir
        return prefix in self._written or is_inside(prefix, beside)


def prefix_of(save_path: str, step: int | None, *, padded: bool) -> str:
    """Return the prefix under which a step is saved.

    >>> prefix_of("m/model.ckpt", 7, padded=False), prefix_of("m", 7, padded=True)
    ('m/model.ckpt-7', 'm-00000007')
    """
    if step is None:
        return save_path
    return f"{save_path}-{step:08d}" if padded else f"{save_path}-{step}"


def folder_of(save_path: str) -> str:
    """Return the folder part of a path as it is written, '' if it has none."""
    return os.path.split(save_path)[0]


class Saver:
    """Saves variables under a prefix and restores them; keeps the newest checkpoints.

        saver = tf.train.Saver(max_to_keep=3)
        prefix = saver.save(sess, "/models/run/model.ckpt", global_step=step)
        saver.restore(sess, tf.train.latest_checkpoint("/models/run"))

    Tasks write the files: with `sharded`, each writes the variables that it owns, to a
    disk that all of them share. Every byte is covered by a checksum, and a checkpoint
    that is damaged or does not fit changes no variable.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: SaverDef | None = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | bytes | None = None,
    ) -> None:
        """Add operations to the default graph, unless `defer_build`.

        `var_list` is a list of variables, or a dict of them by their names in the
        files, all global ones if it is None. `max_to_keep` 0 or None keeps all, of
        which the state file lists the last. Restoring goes in one operation for each
        device, `restore_sequentially` or not. Raises `ValueError` when there is nothing
        to save and not `allow_empty`, else as `saveables_of` does.
        """
        if defer_build and var_list is not None:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set "
                "defer_build=False or var_list=None."
            )
        self._var_list, self._reshape, self._sharded = var_list, reshape, sharded
        self._max_to_keep = max_to_keep
        self._every_n_hours = keep_checkpoint_every_n_hours
        self._name, self._filename = name, filename
        self._allow_empty, self._is_empty = allow_empty, False
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self.saver_def: Any = saver_def
        self._is_built = False
        if not defer_build:
            self.build()

    def build(self) -> None:
        """Add the operations, if that has not been done yet."""
        if self._is_built:
            return
        if self.saver_def is None:
            self._build()
        elif not isinstance(self.saver_def, SaverDef):
            raise ValueError(f"saver_def is a SaverDef, not {self.saver_def!r}.")
        elif self._name:
            scope = self._name
            self.saver_def = _with_names(self.saver_def, lambda path: f"{scope}/{path}")
        self._is_built = True
        kept = self.saver_def
        self._memory = SavedCheckpointList(
            kept.max_to_keep if kept else int(self._max_to_keep or 0),
            kept.keep_checkpoint_every_n_hours if kept else self._every_n_hours,
        )

    def _build(self) -> None:
        variables = self._var_list
        if variables is None:
            variables = [
                *get_collection(GraphKeys.GLOBAL_VARIABLES),
                *get_collection(GraphKeys.SAVEABLE_OBJECTS),
            ]
        if not variables and isinstance(variables, list | tuple | set | dict):
            if not self._allow_empty:
                raise ValueError("No variables to save")
            self._is_empty = True
            return
        made = self.saver_def = add_saver_ops(
            saveables_of(variables),
            filename=self._filename,
            name=self._name,
            sharded=self._sharded,
            reshape=self._reshape,
        )
        _join_parts(get_default_graph())
        made.max_to_keep = self._max_to_keep or 0
        made.keep_checkpoint_every_n_hours = self._every_n_hours

    # -- saving ------------------------------------------------------------------------

    def save(
        self,
        sess: Any,
        save_path: str,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        """Write the variables and return the prefix; None if there are none to save.

        `global_step`, a number or a tensor, becomes part of the prefix. Raises
        `RuntimeError` before `build`, `TypeError` for anything that is not a session,
        `ValueError` for a prefix or state file that cannot be,
        `FailedPreconditionError` when a variable has no value; existing checkpoints are
        then unchanged.
        """
        if not self._is_built:
            raise RuntimeError(
                "`build()` should be called before save if defer_build==True"
            )
        file_name = STATE_FILE if latest_filename is None else latest_filename
        if folder_of(file_name):
            raise ValueError("'latest_filename' must not contain path components")
        path = local_path(save_path)
        prefix = self._prefix(sess, path, global_step, file_name)
        if not isinstance(sess, BaseSession):
            raise TypeError(f"'sess' must be a Session; {sess}")
        if not self._is_empty:
            self._write(sess, prefix, path)
            if write_state:
                self._remember(path, prefix, file_name, meta_graph_suffix)
        if write_meta_graph:
            path = f"{prefix}.{meta_graph_suffix}"
            write_meta_graph_of(path, sess.graph, self.saver_def)
        return None if self._is_empty else prefix

    def _prefix(self, sess: Any, path: str, step: Any, file_name: str) -> str:
        if step is not None and not isinstance(step, numbers.Integral):
            step = value_of_step(sess, step)
        is_taken = Path(path).name == file_name and not path.endswith("/")
        if step is None and is_taken and not self._sharded:
            raise ValueError(
                f"'latest_filename' collides with 'save_path': {file_name!r} and "
                f"{path!r}"
            )
        step_number = None if step is None else int(step)
        return prefix_of(path, step_number, padded=self._pad_step_number)

    def _write(self, sess: BaseSession, prefix: str, path: str) -> None:
        if not prefix:
            raise ValueError("no path specified")
        names = self._built_def()
        try:
            sess.run(names.save_tensor_name, {names.filename_tensor_name: prefix})
        except (FailedPreconditionError, NotFoundError, DataLossError) as exc:
            folder = folder_of(path)
            if folder and not Path(folder).is_dir():
                raise ValueError(
                    f"Parent directory of {path} doesn't exist, can't save."
                ) from exc
            raise

    def _remember(
        self, path: str, prefix: str, file_name: str, meta_suffix: str
    ) -> None:
        self._memory.add(prefix)
        update_checkpoint_state(
            folder_of(path),
            prefix,
            self._memory.prefixes,
            file_name,
            relative=self._save_relative_paths,
        )
        self._memory.remove_old(meta_suffix)

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: Any = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> MetaGraphDef:
        """Return the default graph as a message with the names of this saver.

        See `tf.train.export_meta_graph`.
        """
        return export_meta_graph(
            filename=filename,
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
        )

    # -- restoring ---------------------------------------------------------------------

    def restore(self, sess: Any, save_path: str | None) -> None:
        """Set the variables to what was saved; they need no value before.

        Raises `ValueError` for None and when there is no such checkpoint,
        `NotFoundError` for a variable that is not in it, `InvalidArgumentError` for
        another shape or dtype, `DataLossError` for damage. Then nothing has changed.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        if not isinstance(save_path, str | bytes | os.PathLike):
            raise TypeError(f"Expected binary or unicode string, got {save_path!r}")
        prefix = local_path(save_path)
        if not checkpoint_exists(prefix):
            raise ValueError(
                f"The passed save_path is not a valid checkpoint: {prefix}"
            )
        names = self._built_def()
        try:
            sess.run(names.restore_op_name, {names.filename_tensor_name: prefix})
        except (NotFoundError, InvalidArgumentError) as exc:
            raise type(exc)(
                exc.node_def,
                exc.op,
                f"Restoring from checkpoint failed: the variables of this graph are "
                f"not those that were saved. {exc.message}",
            ) from exc

    def _built_def(self) -> SaverDef:
        definition: SaverDef | None = self.saver_def
        if definition is None:
            raise RuntimeError("the saver has no operations yet; call build() first.")
        return definition

    # -- what it remembers -------------------------------------------------------------

    @property
    def last_checkpoints(self) -> list[str]:
        """The prefixes of the newest checkpoints, oldest first."""
        return self._memory.prefixes

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Replace what `last_checkpoints` returns, without times."""
        assert isinstance(last_checkpoints, list)
        self._memory.set(
            (last_checkpoint, float("inf")) for last_checkpoint in last_checkpoints
        )

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: list[tuple[str, float]]
    ) -> None:
        """Replace what `last_checkpoints` returns, with the times of writing."""
        assert isinstance(last_checkpoints_with_time, list)
        self._memory.set(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Take over those of an earlier saver that are still there."""
        self._memory.recover(checkpoint_paths)

    def as_saver_def(self) -> Any:
        """Return the names of its operations."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the names of its operations; None if not below `export_scope`."""
        begin = f"{export_scope}/" if export_scope else ""
        if self.saver_def is None or not begin:
            return self.saver_def
        if not self.saver_def.filename_tensor_name.startswith(begin):
            return None
        return _with_names(self.saver_def, lambda name: name.removeprefix(begin))

    @staticmethod
    def from_proto(saver_def: SaverDef, import_scope: str | None = None) -> Saver:
        """Return a saver that uses operations of the default graph."""
        return Saver(saver_def=saver_def, name=import_scope)


def _join_parts(graph: Any) -> None:
    """Let a meta graph name variables in parts of collections, by what joins them."""
    keys = graph.get_all_collection_keys()
    values = [item for key in keys for item in graph.get_collection(key)]
    names = {op.name for op in graph.ops}
    for variable in values:
        if isinstance(variable, PartitionedVariable) and variable.name not in names:
            names.add(variable.as_tensor().op.name)


def _with_names(definition: SaverDef, change: Callable[[str], str]) -> SaverDef:
    made = copy.deepcopy(definition)
    for name in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
        setattr(made, name, change(getattr(made, name)))
    return made


KEPT[GraphKeys.SAVERS] = Kept(SaverDef, Saver.from_proto)


# --------------------------------------------------------------------------------------
# Whole graphs: `tf.train.export_meta_graph`, `tf.train.import_meta_graph`.


def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: GraphDef | None = None,
    saver_def: SaverDef | None = None,
    collection_list: Any = None,
    as_text: bool = False,
    graph: Any = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
) -> MetaGraphDef:
    """Return the default graph and its collections as a message; write it to a file.

    The file is for `tf.train.import_meta_graph` here; one written `as_text` is for
    reading. `export_scope` takes what is below a name scope, under the names that it
    has there, `clear_extraneous_savers` leaves out what other savers have added.
    """
    return export_scoped_meta_graph(
        filename=filename,
        meta_info_def=meta_info_def,
        graph_def=graph_def,
        saver_def=saver_def,
        collection_list=collection_list,
        as_text=as_text,
        graph=graph,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
    )[0]


def import_meta_graph(
    meta_graph_or_file: MetaGraphDef | str,
    clear_devices: bool = False,
    import_scope: str | None = None,
    **options: Any,
) -> Saver | None:
    """Add a graph and its collections to the default graph; returns its saver.

    It is one that `tf.train.export_meta_graph` or `Saver.save` of `kit.tf1` has written
    or returned. Everything goes below the name scope `import_scope`. Options are
    `graph`, `input_map`, tensors by the names of those in whose place they are used,
    and `restore_collections_predicate`. Returns None where there are no variables.
    Raises `IOError` for a file that is not there or is none of those.
    """
    content = read_meta_graph(meta_graph_or_file)
    variables = import_scoped_meta_graph(
        content, clear_devices, import_scope=import_scope, **options
    )
    graph = options.get("graph") or get_default_graph()
    with graph.as_default():
        if content.saver_def is not None:
            scope = import_scope
            for name, variable in variables.items():
                scope = variable.name.removesuffix(name).rstrip("/")
            return Saver(saver_def=content.saver_def, name=scope)
        items = graph.get_collection(GraphKeys.GLOBAL_VARIABLES, import_scope)
        items += graph.get_collection(GraphKeys.SAVEABLE_OBJECTS, import_scope)
        if items:
            return Saver()
    logging.info(
        "Saver not created because there are no variables in the graph to restore"
    )
    return None
