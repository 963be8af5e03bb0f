"""What makes the sessions of a monitored one: for the chief, or for a waiting worker.

To write your own, subclass `SessionCreator` and define `create_session`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from kit.tf1.graph.graph import get_default_graph
from kit.tf1.train.monitored.scaffold import Scaffold
from kit.tf1.train.monitored.session_manager import SessionManager


class SessionCreator(ABC):
    """Base class of session creators."""

    @abstractmethod
    def create_session(self) -> Any:
        """Return a new session that is ready to be used."""


class _Managed(SessionCreator):
    """Makes sessions by a session manager, with what a scaffold holds.

    `gives_values` is true if it restores or initialises, and so may undo steps.
    """

    gives_values = True

    def __init__(self, scaffold: Scaffold | None, master: Any, config: Any) -> None:
        self._scaffold = Scaffold() if scaffold is None else scaffold
        self._master, self._config = master, config
        self._made: SessionManager | None = None

    @property
    def what_it_did(self) -> str:
        """How the last session was made ready."""
        return "" if self._made is None else self._made.what_it_did

    @property
    def was_at(self) -> int | None:
        """The cluster's step before the last session was made ready, if known."""
        return None if self._made is None else self._made.was_at

    @property
    def began_at(self) -> int | None:
        """The step at which the last session began, if known: others go on at once."""
        return None if self._made is None else self._made.began_at

    @property
    def _manager(self) -> SessionManager:
        """The manager, made when the scaffold is finalized."""
        if self._made is None:
            self._made = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
            )
        return self._made


class ChiefSessionCreator(_Managed):
    """Restores the newest checkpoint, or initialises, and finalizes the scaffold."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: Any = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """Look for checkpoints in a folder, or use the one that is given."""
        super().__init__(scaffold, master, config)
        self._folder, self._path = checkpoint_dir, checkpoint_filename_with_path

    def create_session(self) -> Any:
        """Return a session whose variables have values; see `prepare_session`."""
        scaffold = self._scaffold.finalize()
        return self._manager.prepare_session(
            self._master,
            saver=scaffold.saver,
            checkpoint_dir=self._folder,
            checkpoint_filename_with_path=self._path,
            config=self._config,
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )


class WorkerSessionCreator(_Managed):
    """Finalizes the scaffold, and waits until the chief has made everything ready."""

    gives_values = False

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: Any = "",
        config: Any = None,
        max_wait_secs: float | None = 30 * 60,
    ) -> None:
        """Wait at most `max_wait_secs`; None is no limit."""
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs

    def create_session(self) -> Any:
        """Return a session whose variables have values; see `wait_for_session`."""
        self._scaffold.finalize()
        return self._manager.wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )
