"""`tf.train.Scaffold`: what a session needs before its first run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kit.tf1 import logging
from kit.tf1.graph.collections import GraphKeys, add_to_collection, get_collection
from kit.tf1.graph.control import group
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.signature import with_options
from kit.tf1.summary.ops import merge_all
from kit.tf1.train.checkpointing.saver import Saver
from kit.tf1.variables.variable_lists import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)


def _part(name: str, doc: str) -> Any:
    return property(lambda self: self._parts[name], doc=doc)


@dataclass
class _Parts:
    """What a scaffold is made of."""

    init_op: Any = None
    init_feed_dict: Any = None
    init_fn: Callable[[Any, Any], Any] | None = None
    ready_op: Any = None
    ready_for_local_init_op: Any = None
    local_init_op: Any = None
    summary_op: Any = None
    saver: Any = None
    copy_from_scaffold: Scaffold | None = None
    local_init_feed_dict: Any = None


class Scaffold:
    """The operations that make a graph ready to be trained, and its saver.

        init_op                  gives the global variables their initial values
        init_fn(scaffold, sess)  is called after it
        ready_for_local_init_op  names the global variables that have no value yet
        local_init_op            gives the local variables theirs
        ready_op                 names the variables that have no value yet
        saver                    saves and restores

    `finalize` takes those that were not given from the graph's collections, or makes
    them. With `copy_from_scaffold`, those of another scaffold count as given.
    """

    @with_options(_Parts)
    def __init__(self, options: Any) -> None:
        """Raise `TypeError` if `copy_from_scaffold` is not a scaffold."""
        parts = dict(vars(options))
        init_fn, other = parts.pop("init_fn"), parts.pop("copy_from_scaffold")
        if other is not None and not isinstance(other, Scaffold):
            raise TypeError(f"copy_from_scaffold is {other!r}; give a Scaffold.")
        self._parts: dict[str, Any] = {
            name: getattr(other, name) if value is None and other else value
            for name, value in parts.items()
        }
        self.init_fn: Callable[[Any], Any] | None = None
        if init_fn is not None:
            self.init_fn = lambda session: init_fn(self, session)
        elif other is not None:
            self.init_fn = other.init_fn

    def finalize(self) -> Scaffold:
        """Make what is missing, and finalize the graph; returns itself.

        Raises `RuntimeError` when a collection has more than one to choose from.
        """
        self._fill("init_op", GraphKeys.INIT_OP, _init_all)
        self._fill("ready_op", GraphKeys.READY_OP, report_uninitialized_variables)
        self._fill(
            "ready_for_local_init_op",
            GraphKeys.READY_FOR_LOCAL_INIT_OP,
            lambda: report_uninitialized_variables(global_variables()),
        )
        self._fill("local_init_op", GraphKeys.LOCAL_INIT_OP, self.default_local_init_op)
        self._fill("summary_op", GraphKeys.SUMMARY_OP, merge_all)
        self._fill(
            "saver", GraphKeys.SAVERS, lambda: Saver(sharded=True, allow_empty=True)
        )
        self._parts["saver"].build()
        get_default_graph().finalize()
        logging.debug("Graph was finalized.")
        return self

    def _fill(self, name: str, collection: str, make: Callable[[], Any]) -> None:
        if self._parts[name] is None:
            self._parts[name] = self.get_or_default(name, collection, make)

    @staticmethod
    def get_or_default(
        arg_name: str, collection_key: str, default_constructor: Callable[[], Any]
    ) -> Any:
        """Return the item of a collection, or make one and add it.

        Raises `RuntimeError` if it holds several.
        """
        values = get_collection(collection_key)
        if len(values) > 1:
            raise RuntimeError(
                f"the collection {collection_key!r} holds {len(values)} items; say "
                f"which one to use: tf.train.Scaffold({arg_name}=...)."
            )
        if values:
            return values[0]
        made = default_constructor()
        if made is not None:
            add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Any:
        """Return an operation that initialises local variables and tables."""
        tables = get_collection(GraphKeys.TABLE_INITIALIZERS)
        return group(local_variables_initializer(), *tables)

    init_op = _part("init_op", "What gives the global variables their initial values.")
    init_feed_dict = _part("init_feed_dict", "What is fed to `init_op`.")
    ready_op = _part("ready_op", "What names the variables that have no value yet.")
    ready_for_local_init_op = _part(
        "ready_for_local_init_op",
        "What names the global variables that have no value yet.",
    )
    local_init_op = _part(
        "local_init_op", "What gives the local variables their initial values."
    )
    local_init_feed_dict = _part(
        "local_init_feed_dict", "What is fed to `local_init_op`."
    )
    summary_op = _part(
        "summary_op", "What a `SummarySaverHook` runs: all summaries; None without any."
    )
    saver = _part("saver", "What saves and restores.")


def _init_all() -> Any:
    return group(global_variables_initializer())
