"""The one tree of errors: canonical codes as parents, plain names below them.

Pure. The codes and the parents are those of the original runtime's status codes, so
`except UnavailableError` means the same here as there. What a user meets in daily
work has a plain name below its code, for example `PeerLost`.

    KitError
      +-- UnavailableError     14   LinkLost  PeerLost  ControllerLost  StartFailed
      +-- InvalidArgumentError  3   PlacementError  ProtocolError  NotFinite  ...
      +-- AbortedError         10   Fenced  StepFailed
      ...

An error crosses a process as plain data (`to_plain`, `from_plain`), never as a pickle.
"""

from __future__ import annotations

import copyreg
from typing import Any, ClassVar


class KitError(Exception):
    """Base of all errors of this package.

    Takes one message, or the original's node_def, op, message and here a code. `task`
    and `step` tell where it happened, `node` which op of a graph failed, and
    `remote_traceback` what the task printed; each is None when it is not known.
    """

    code: ClassVar[int] = 2

    def __init__(
        self,
        *args: Any,
        task: str | None = None,
        step: int | None = None,
        node: str | None = None,
        remote_traceback: str | None = None,
    ) -> None:
        if len(args) not in ((1, 3, 4) if type(self) is KitError else (1, 3)):
            raise TypeError(
                f"{type(self).__name__} takes a message, or node_def, op and message; "
                f"got {len(args)} arguments."
            )
        super().__init__(*args[:3])
        self.node_def, self.op = args[:2] if len(args) > 1 else (None, None)
        self.message: str = str(args[:3][-1])
        self._code: int = args[3] if len(args) == 4 else type(self).code
        self.task, self.step, self.node = task, step, node
        self.remote_traceback = remote_traceback

    @property
    def error_code(self) -> int:
        """The canonical status code: that of the class, unless it was given."""
        return self._code

    def __str__(self) -> str:
        if self.remote_traceback:
            return f"{self.message}\n\n{self.remote_traceback}"
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Past __init__, which may take other arguments in a subclass than in its base.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class CancelledError(KitError):
    """The operation was cancelled, typically by the one who asked for it."""

    code = 1


class UnknownError(KitError):
    """Something failed that has no code of its own."""

    code = 2


class InvalidArgumentError(KitError):
    """A value given by the caller cannot be right, whatever the state."""

    code = 3


class DeadlineExceededError(KitError):
    """The deadline passed before the operation was finished."""

    code = 4


class NotFoundError(KitError):
    """What was asked for does not exist."""

    code = 5


class AlreadyExistsError(KitError):
    """What was to be made exists already."""

    code = 6


class PermissionDeniedError(KitError):
    """The caller is known and may not do this."""

    code = 7


class ResourceExhaustedError(KitError):
    """Memory, disk or another quota does not suffice."""

    code = 8


class FailedPreconditionError(KitError):
    """The system is not in the state that the operation needs."""

    code = 9


class AbortedError(KitError):
    """The operation was given up because of something that happened elsewhere."""

    code = 10


class OutOfRangeError(KitError):
    """Read past the end."""

    code = 11


class UnimplementedError(KitError):
    """The operation is not offered."""

    code = 12


class InternalError(KitError):
    """An invariant of this package is broken: a bug of ours."""

    code = 13


class UnavailableError(KitError):
    """A task or a connection is not there now."""

    code = 14


class DataLossError(KitError):
    """Data are damaged beyond repair."""

    code = 15


class UnauthenticatedError(KitError):
    """The peer did not prove who it is."""

    code = 16


class PlacementError(InvalidArgumentError):
    """A device string names a job, task or device that the cluster does not have."""


class GradientMismatch(InvalidArgumentError):
    """A gradient's name, shape or dtype is not that of its parameter."""


class MemberMismatch(InvalidArgumentError):
    """Two members of one training disagree about what they train."""


class NotFinite(InvalidArgumentError):
    """A gradient holds NaN or infinity; the step was refused on all members."""


class ProtocolError(InvalidArgumentError):
    """The bytes on a link are not those of the protocol."""


class LinkLost(UnavailableError):
    """A connection broke. `may_have_happened`: whether the peer may have acted."""

    may_have_happened: bool = True


class PeerLost(UnavailableError):
    """A task that takes part is gone or does not answer."""


class ControllerLost(UnavailableError):
    """The process that starts and finds the engines is gone."""


class StartFailed(UnavailableError):
    """The cluster did not come up."""


class Fenced(AbortedError):
    """This task belongs to an older epoch; what it sends is refused."""


class StepFailed(AbortedError):
    """The user's step raised on a task; the other members were stopped."""


class ClusterBusy(FailedPreconditionError):
    """Another training runs on these tasks."""


class VersionMismatch(FailedPreconditionError):
    """Two sides speak different versions of the protocol."""


class AuthenticationFailed(UnauthenticatedError):
    """The peer does not hold this cluster's key."""


class AddressInUse(AlreadyExistsError):
    """The address is taken by another process."""


class CheckpointFailed(DataLossError):
    """A checkpoint could not be written or is damaged."""


class NotEnoughMemory(ResourceExhaustedError):
    """The cluster would not fit into the memory of this machine."""


# The classes above that stand directly below the base, one for each code.
_BY_CODE = {kind.code: kind for kind in KitError.__subclasses__()}


def exception_type_from_error_code(error_code: int) -> type[KitError]:
    """Return the class of a canonical code; `KeyError` if no class has it.

    >>> exception_type_from_error_code(14).__name__
    'UnavailableError'
    """
    if error_code not in _BY_CODE:
        raise KeyError(f"no error has the code {error_code!r}; codes are 1 to 16.")
    return _BY_CODE[error_code]


def error_code_from_exception_type(cls: type[KitError]) -> int:
    """Return the canonical code of a class of this tree, else raise `TypeError`.

    >>> error_code_from_exception_type(PeerLost)
    14
    """
    if not (isinstance(cls, type) and issubclass(cls, KitError)):
        raise TypeError(
            f"{cls!r} is not a class of errors with a code, see kit.errors."
        )
    return cls.code


def _tree(root: type[KitError]) -> dict[str, type[KitError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


def to_plain(error: BaseException) -> dict[str, Any]:
    """Return the error as plain data that JSON can carry.

    >>> to_plain(PeerLost("ps:0 is gone", task="/job:ps/task:0"))["type"]
    'PeerLost'
    """
    if isinstance(error, KitError):
        return {
            "type": type(error).__name__,
            "message": error.message,
            "task": error.task,
            "step": error.step,
            "node": error.node,
            "traceback": error.remote_traceback,
        }
    text = f"{type(error).__name__}: {error}"
    return {"type": "UnknownError", "message": text, "task": None, "step": None}


def from_plain(plain: Any) -> KitError:
    """Rebuild an error from `to_plain`; an unknown type becomes `UnknownError`.

    So does what is not such data at all: it may come from anybody.

    >>> from_plain({"type": "PeerLost", "message": "ps:0 is gone"})
    PeerLost('ps:0 is gone')
    """
    if not isinstance(plain, dict):
        plain = {"message": f"an error came that cannot be read: {plain!r:.80}"}
    kind = _tree(KitError).get(str(plain.get("type")), UnknownError)
    step = plain.get("step")
    task, node, printed = (
        value if isinstance(value := plain.get(name), str) else None
        for name in ("task", "node", "traceback")
    )
    return kind(
        str(plain.get("message", "")),
        task=task,
        step=step if isinstance(step, int) else None,
        node=node,
        remote_traceback=printed,
    )
