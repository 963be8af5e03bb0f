"""Opens a session when all tasks of its cluster are up."""

from __future__ import annotations

from typing import Any

from kit.errors import DeadlineExceededError, KitError, UnavailableError
from kit.tf1.graph.graph import Graph
from kit.tf1.session.meeting import meet
from kit.tf1.session.originals import originals
from kit.tf1.session.session import Session
from kit.tf1.train.monitored.patience import Patience

_LOOK_S = 1.0


def open_session(
    master: Any, graph: Graph | None, config: Any, patience: Patience
) -> Session:
    """Return a session whose tasks all answer.

    Raises `DeadlineExceededError`, naming a task that does not, when the patience ends.
    """
    session = Session(master, graph=graph, config=config)
    try:
        _wait_for_tasks(session, patience)
    except BaseException:
        session.close()
        raise
    return session


def _wait_for_tasks(session: Session, patience: Patience) -> None:
    target = (session.sess_str or b"").decode()
    while True:
        look_s = max(0.1, min(_LOOK_S, patience.left_s))
        try:
            with originals():
                meet(session._native, target, look_s)
                session._native.list_devices(look_s)
        except (DeadlineExceededError, UnavailableError) as error:
            _refuse_or_pause(patience, error)
        else:
            return


def _refuse_or_pause(patience: Patience, error: KitError) -> None:
    if not patience.left_s:
        raise DeadlineExceededError(
            f"no session for {patience.seconds:g} s: {error.message}"
        ) from error
    cause = error.__cause__  # says it in fewer words
    patience.pause(cause.message if isinstance(cause, KitError) else error.message)
