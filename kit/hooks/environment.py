"""Where hooks run: what counts the steps there, what can be fetched, saved and logged.

The same hook works in a session of a graph and in `kit.train`; hooks ask here for what
differs. The caller of hooks sets where they are:

    with environment.inside(mine):
        hook.begin()

Outside of such a block, the environment registered for the process applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from kit.errors import FailedPreconditionError


class CheckpointBackend(Protocol):
    """Writes checkpoints of one training, in one place."""

    def begin(self) -> None:
        """Prepare; called once, before there is a session."""

    def describe(self, session: Any, step: int) -> None:
        """Write down what is trained; called for each new session."""

    def save(self, session: Any, step: int) -> str:
        """Write a checkpoint and return its name.

        Raises classes of `kit.errors` when that fails; what was there stays then.
        Where steps go on while it is written, ask `is_written` whether it is there.
        """

    def is_written(self, step: int) -> bool | None:
        """Whether what was to be saved at `step` is there; None while it is written.

        False if it could not be, and the training goes on all the same.
        """

    def end(self) -> None:
        """Let go of what it holds; not called after an error."""


class Measuring(Protocol):
    """Reads a training between two steps, and records what was measured."""

    def parameters(self) -> dict[str, Any]:
        """Return the parameters after the last step, as arrays of the caller's own."""

    def state(self) -> dict[str, Any]:
        """Return a copy of what the first worker's step function has kept so far."""

    def restore(self, values: Mapping[str, Any]) -> None:
        """Make these the parameters with which the training ends; from `end` alone."""

    def is_last(self, step: int) -> bool:
        """Whether a step, counted from 0, is the last that was asked for."""

    def measured(self, step: int, values: Mapping[str, float]) -> None:
        """Record numbers by names of at most 32 bytes, as measured after a step."""


class Environment(Protocol):
    """What hooks ask of the session or training in which they run."""

    def global_step(self) -> Any | None:
        """Return a fetch that gives the number of updates; None if none counts them.

        Called in `begin`. What it gives is read before or after the run's own update.
        """

    def fetch(self, asked: Any) -> Any:
        """Return the fetch for a tensor, or for the name of one.

        Called in `begin`. Raises `ValueError`, `TypeError` or `KeyError` for what
        cannot be fetched here.
        """

    def checkpoint_backend(
        self, folder: str, basename: str, saver: Any, scaffold: Any
    ) -> CheckpointBackend:
        """Return what writes checkpoints into a folder; called in `begin`.

        `saver` and `scaffold` are what the user gave, each None if not. Raises classes
        of `kit.errors` for what cannot be meant here.
        """

    def tracing(self) -> Any:
        """Return the options of a run that notes what it does.

        Raises `UnimplementedError` where runs cannot.
        """

    def timeline(self, run_metadata: Any) -> Sequence[dict[str, Any]]:
        """Return what a run noted as events of a Chrome trace."""

    def summary_writer(self, folder: str) -> Any | None:
        """Return what writes event files into a folder: see `SummarySaverHook`.

        None where there are none.
        """

    def measuring(self) -> Measuring:
        """Return what records measures; called in `begin`.

        Raises `UnimplementedError` where nothing is recorded.
        """

    def progress(self, text: str) -> None:
        """Report the state, in place of the last report if possible."""

    def info(self, text: str) -> None:
        """Log something that happens now and then, for those who want to know."""

    def warning(self, text: str) -> None:
        """Log something that the user should know."""

    def error(self, text: str) -> None:
        """Log why the training is about to end."""


# A context variable: threads of several trainings may call hooks at the same time.
_blocks: ContextVar[Environment | None] = ContextVar("kit_hooks", default=None)
_of_the_process: list[Callable[[], Environment]] = []


def current() -> Environment:
    """Return where hooks run now.

    Raises `FailedPreconditionError` outside of a block, if none was registered.
    """
    inner = _blocks.get()
    if inner is not None:
        return inner
    if not _of_the_process:
        raise FailedPreconditionError(
            "a hook was called outside of a training; give it to kit.train(hooks=...) "
            "or to a monitored session of kit.tf1."
        )
    return _of_the_process[-1]()


@contextmanager
def inside(environment: Environment) -> Iterator[None]:
    """Let hooks that are called in the block run there."""
    token = _blocks.set(environment)
    try:
        yield
    finally:
        _blocks.reset(token)


def register(make: Callable[[], Environment]) -> None:
    """Let `make()` give the environment outside of blocks; the last one counts."""
    _of_the_process.append(make)
