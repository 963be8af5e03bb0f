"""What a session's hooks work with: the graph's global step, tensors and savers."""

from __future__ import annotations

from typing import Any, NoReturn

from kit.errors import UnimplementedError
from kit.hooks import environment
from kit.hooks.environment import CheckpointBackend
from kit.tf1 import logging
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.session.config import RunOptions
from kit.tf1.session.run_metadata import Event, events_of
from kit.tf1.summary.event_files import FileWriter, FileWriterCache
from kit.tf1.summary.messages import is_installed
from kit.tf1.train.checkpointing.checkpoint_keeper import CheckpointKeeper
from kit.tf1.train.global_step import get_global_step
from kit.tf1.variables.variables import Variable

_READ = "global_step_read_op_cache"


class GraphEnvironment:
    """Answers the questions of hooks for the default graph."""

    def global_step(self) -> Any:
        """Return the tensor that reads the global step, one for each graph."""
        return global_step_read()

    def fetch(self, asked: Any) -> Any:
        """Return a tensor or operation of the default graph, given itself or a name."""
        graph = get_default_graph()
        if isinstance(asked, str):
            return graph.as_graph_element(asked if ":" in asked else f"{asked}:0")
        if getattr(asked, "graph", None) is not graph:
            raise ValueError(
                f"{asked!r} is not a tensor of the current graph {graph!r}; give "
                f"one that is, or its name."
            )
        return asked

    def checkpoint_backend(
        self, folder: str, basename: str, saver: Any, scaffold: Any
    ) -> CheckpointBackend:
        """Return an object that saves the graph's variables with a saver."""
        return CheckpointKeeper(folder, basename, saver, scaffold)

    def tracing(self) -> RunOptions:
        """Return the options of a run that is traced."""
        return RunOptions(trace_level=RunOptions.FULL_TRACE)

    def timeline(self, run_metadata: Any) -> list[Event]:
        """Return the trace of a run as events of a Chrome trace."""
        return events_of(run_metadata.step_stats)

    def summary_writer(self, folder: str) -> FileWriter | None:
        """Return the writer of event files there; None if TensorBoard is missing."""
        return FileWriterCache.get(folder) if is_installed() else None

    def measuring(self) -> NoReturn:
        """Refuse: a session records no measures."""
        raise UnimplementedError(
            "a session records no measures; give the hook to kit.train, or use a "
            "LoggingTensorHook."
        )

    def progress(self, text: str) -> None:
        """Log progress, in place of the last such line."""
        logging.progress(text)

    def info(self, text: str) -> None:
        """Log something that happens now and then."""
        logging.info("%s", text)

    def warning(self, text: str) -> None:
        """Log something that the user should know."""
        logging.warning("%s", text)

    def error(self, text: str) -> None:
        """Log why the training is about to end."""
        logging.error("%s", text)


def global_step_read() -> Any:
    """Return a tensor that reads the default graph's global step, None if it has none.

    It is made once for each graph. A variable without a value gives its initial one.
    """
    graph = get_default_graph()
    reads = graph.get_collection_ref(_READ)
    if reads:
        return reads[0]
    step = get_global_step(graph)
    if step is None:
        return None
    with (
        graph.as_default(),
        graph.control_dependencies(None),
        graph.name_scope(f"{step.op.name}/"),
        graph.device(step.device),
    ):
        # A separate operation, so that it can be fetched beside an update.
        value = step.initialized_value() if isinstance(step, Variable) else step
        reads.append(value + 0)
    return reads[0]


def known_global_step_read() -> Any:
    """Return the tensor that `global_step_read` has made, None if it has not."""
    reads = get_default_graph().get_collection(_READ)
    return reads[0] if reads else None


environment.register(GraphEnvironment)
