"""Variables of a session in a checkpoint, and back.

The checkpoint has a prefix, as those of `kit.checkpoint.bundle` and of a saver of
`kit.tf1`: each reads what the other has written. Here the client writes, there the
tasks do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from kit.checkpoint.bundle import TensorBundle, write_bundle
from kit.errors import InvalidArgumentError, NotFoundError
from kit.graph.dtypes import Array, name_of
from kit.graph.static import Static, agrees, text
from kit.graph.variable import Variable
from kit.session.client.session import Session


def save_variables(
    session: Session,
    path: str | os.PathLike[str],
    variables: Sequence[Variable] | None = None,
) -> Path:
    """Write the values of variables to a checkpoint.

    They are read in one run, and written by this process. An older checkpoint at that
    path is replaced atomically.

    Parameters
    ----------
    session : Session
        The session that reads the variables.
    path : str or PathLike
        Where, without an ending: the files end in `.index` and `.data-00000-of-00001`
        (if they replace others, the first number of the second ending differs).
    variables : sequence of Variable, optional
        By default all variables of the session's graph.

    Returns
    -------
    Path
        `path`, to be given to `restore_variables`.

    Raises
    ------
    InvalidArgumentError
        There are no variables.
    FailedPreconditionError
        A variable has no value.
    NotFoundError
        The folder does not exist.
    ResourceExhaustedError, PermissionDeniedError
        The disk is full, or this user may not write there.

    Examples
    --------
    Save all variables of a session::

        kit.save_variables(session, "models/digits")
    """
    chosen = _chosen(session, variables)
    names = [variable.op.name for variable in chosen]
    values: list[Array] = session.run([variable.ref for variable in chosen])
    write_bundle(os.fspath(path), names, [""] * len(names), values, is_at_once=True)
    return Path(path)


def restore_variables(
    session: Session,
    path: str | os.PathLike[str],
    variables: Sequence[Variable] | None = None,
) -> None:
    """Set variables to what `save_variables` wrote; nothing changes on an error.

    It does not matter whether they had a value.

    Parameters
    ----------
    session : Session
        Sets the variables.
    path : str or PathLike
        The path that was given to `save_variables`.
    variables : sequence of Variable, optional
        By default all of the session's graph.

    Raises
    ------
    NotFoundError
        The checkpoint, or a variable in it, is missing.
    InvalidArgumentError
        There are no variables, or one has another shape or dtype there.
    CheckpointFailed
        The checkpoint is damaged.
    """
    chosen = _chosen(session, variables)
    values_read = _read(
        os.fspath(path), {var.op.name: var.ref.static for var in chosen}
    )
    while chosen:
        # A variable is set by feeding its initial value. Where several share one, a run
        # can set only one of them; the others are set by later runs.
        feeds = {
            var.initial_value: values_read[var.op.name] for var in reversed(chosen)
        }
        first = {variable.initial_value: variable for variable in reversed(chosen)}
        session.run([variable.initializer for variable in first.values()], feeds)
        chosen = [var for var in chosen if first[var.initial_value] is not var]


def _chosen(session: Session, variables: Sequence[Variable] | None) -> list[Variable]:
    chosen = list(session.graph.variables if variables is None else variables)
    if not chosen:
        raise InvalidArgumentError("the graph has no variables.")
    return chosen


def _read(prefix: str, wanted: Mapping[str, Static]) -> dict[str, Array]:
    bundle = TensorBundle(prefix)
    held = bundle.tensors()
    missing = [name for name in wanted if name not in held]
    if missing:
        raise NotFoundError(
            f"{prefix} does not hold {', '.join(map(repr, missing))}; it holds "
            f"{', '.join(map(repr, held)) or 'nothing'}."
        )
    # Checked before any value is read, and before any variable has changed.
    for name, static in wanted.items():
        entry = held[name]
        if entry.dtype != name_of(static.dtype) or not agrees(
            static.shape, entry.shape
        ):
            raise InvalidArgumentError(
                f"{prefix} holds {name!r} as {entry.dtype}{list(entry.shape)}, but the "
                f"variable is {name_of(static.dtype)}{text(static.shape)}."
            )
    return dict(zip(wanted, bundle.read([*wanted], [""] * len(wanted)), strict=True))
