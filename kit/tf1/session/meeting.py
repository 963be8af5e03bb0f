"""Whether a session's target is there, knows it, and has a place for every op."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kit.errors import AbortedError, DeadlineExceededError, KitError, UnavailableError
from kit.graph.node import node_of
from kit.graph.op import Op
from kit.session.client.session import Session
from kit.session.master.devices import place
from kit.session.master.plan import RunSignature
from kit.tf1.session.config import ConfigProto

_PAUSE_S = 0.05
_ASK_S = 0.5


def meet(session: Session, target: str, deadline_s: float) -> None:
    """Wait until a session's target answers.

    A client may start before its server does. Raises `DeadlineExceededError`.
    """
    deadline = time.monotonic() + deadline_s
    while target:
        try:
            session.list_devices(max(_PAUSE_S, deadline - time.monotonic()))
            return
        except UnavailableError as error:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise DeadlineExceededError(
                    f"{target} did not answer within {deadline_s:g} s: "
                    f"{error.message} Start the server there, or correct the target."
                ) from error
            time.sleep(min(_PAUSE_S, left_s))


def check_known(session: Session) -> None:
    """Raise `AbortedError` if the master does not know the session any more."""
    try:
        session._connection.prepare(RunSignature((), (), ()), _ASK_S)
    except AbortedError:
        raise
    except KitError:
        return  # it cannot be asked, and that is not for the one who closes to hear


def check_all(
    ops: Sequence[Op], session: Session, deadline_s: float, config: ConfigProto
) -> None:
    """Raise `PlacementError` for the first of `ops` that no device fits."""
    devices = [one for one, _ in session.list_devices(deadline_s)]
    nodes = {one.name: node_of(one) for one in ops}
    place(nodes, devices, devices[0].task, soft=config.allow_soft_placement)
