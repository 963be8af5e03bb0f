"""The one tree of errors: canonical codes as parents, plain names below them.

Pure. The codes and the parents are those of TensorFlow's status codes, so
`except UnavailableError` means the same here as there. What a user meets in daily
work has a plain name below its code, for example `PeerLost`.

    KitError
      +-- UnavailableError     14   LinkLost  PeerLost  ControllerLost  StartFailed
      +-- InvalidArgumentError  3   PlacementError  ProtocolError  NotFinite  ...
      +-- AbortedError         10   Fenced  StepFailed
      ...

The docstring of each class says who raises it, what the caller does, and whether a
retry helps.

An error crosses a process as plain data (`to_plain`, `from_plain`), never as a pickle.
"""

from __future__ import annotations

import copyreg
from typing import Any, ClassVar


class KitError(Exception):
    """Base of all errors of this package.

    Takes one message, or as in TensorFlow node_def, op, message and here a code. `task`
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
    """An operation was cancelled, usually by the one who started it.

    Raised to those who wait when a session, cluster or server is closed, or when a
    `Cancellation` ends their runs. The caller stops: the result is not wanted any more.
    A retry needs a new session or cluster, unless only this one run was cancelled.
    """

    code = 1


class UnknownError(KitError):
    """Something failed that has no code of its own.

    Raised for exceptions of the user's own code on a task, with its traceback in
    `remote_traceback`, and for errors of a kind that this version does not know. The
    caller reads the traceback and corrects the code. A retry helps only if that code
    may succeed another time.
    """

    code = 2


class InvalidArgumentError(KitError):
    """A value that the caller gave cannot be right, whatever the state.

    Raised by constructors, by tasks that check the fields of a question, and by ops
    that are given wrong shapes. The caller corrects the value that the message names. A
    retry with the same value fails again.
    """

    code = 3


class DeadlineExceededError(KitError):
    """The deadline passed before the operation was finished.

    Raised by every wait; the message says what was waited for, and where. The operation
    may still have happened on the other side. A retry, or more time (`deadline_s`,
    `timeout_s`), helps if the other side is slow and not stuck.
    """

    code = 4


class NotFoundError(KitError):
    """What was asked for does not exist: a file, a task, a target, a name.

    Raised where it is looked for; the message lists what is there where it can. The
    caller corrects the name or makes the thing first. A retry helps only after that.
    """

    code = 5


class AlreadyExistsError(KitError):
    """What was to be made exists already.

    Raised as `AddressInUse`, and by programs written for TensorFlow themselves. The
    caller uses what is there or chooses another name. A retry helps once it is gone.
    """

    code = 6


class PermissionDeniedError(KitError):
    """This user may not do that.

    Raised for files, folders and sockets that belong to others or are open to them, and
    for an address where strangers could listen. The caller changes the place or its
    mode as the message says. A retry helps only after that.
    """

    code = 7


class ResourceExhaustedError(KitError):
    """Memory, a disk or another quota is used up.

    Raised by ops that cannot get memory, by writers on a full disk, and by tasks that
    bound what they keep for one client. The caller asks for less or makes room. A retry
    helps after that.
    """

    code = 8


class FailedPreconditionError(KitError):
    """The system is not in the state that the operation needs.

    Raised for a variable that has no value yet, a cluster that is not started, a run
    that has ended, and the like. The caller brings about that state, which the message
    names. A retry helps after that, and not before.
    """

    code = 9


class AbortedError(KitError):
    """The operation was given up because of something that happened elsewhere.

    Raised by a session's target that was restarted or reset, and as `Fenced` and
    `StepFailed` in trainings. The caller begins again at a higher level: with a new
    session, or from a checkpoint. A retry of the same call does not help.
    """

    code = 10


class OutOfRangeError(KitError):
    """Read past the end of data or of a closed queue.

    Raised by sources, by queues that are closed and empty, and by steppers after the
    last step. The caller ends its loop: it is the ordinary end of the data. A retry
    raises it again.
    """

    code = 11


class UnimplementedError(KitError):
    """The operation is not offered.

    Raised for what TensorFlow has and this package does not, for ops without a
    kernel, and by tasks of another version for questions they do not know. The caller
    takes another way, which the message mostly names. A retry does not help.
    """

    code = 12


class InternalError(KitError):
    """An invariant of this package is broken.

    Raised where our own bookkeeping contradicts itself; one case that is known is two
    programs that use one variable with different dtypes. The caller reports it with the
    message, which is a bug of ours in all other cases. A retry may help by chance.
    """

    code = 13


class UnavailableError(KitError):
    """A task or a connection is not there now.

    Raised when nobody answers at an address, when a listener has too many new
    connections, and as `PeerLost` or `LinkLost` when somebody was there and is gone.
    The caller waits a little or restarts the task. A retry is what this code is for.
    """

    code = 14


class DataLossError(KitError):
    """Data are damaged beyond repair.

    Raised for files whose contents contradict themselves, and when members of a
    training find that their parameters differ. The caller goes back to an older copy. A
    retry reads the same damage.
    """

    code = 15


class UnauthenticatedError(KitError):
    """The peer did not prove who it is.

    Raised as `AuthenticationFailed`; programs written for TensorFlow catch this class.
    The caller takes the credentials of the running cluster. A retry with the same ones
    does not help.
    """

    code = 16


class PlacementError(InvalidArgumentError):
    """A device string names a job, task or device that does not exist here.

    Raised when a graph is placed, when a cell or a call chooses tasks, and by a task
    that is asked for a GPU it does not have. The caller corrects the name, adds tasks
    to the cluster, or allows `soft_placement`. A retry fails again.
    """


class GradientMismatch(InvalidArgumentError):
    """A gradient's name, shape or dtype is not that of its parameter.

    Raised on the worker whose step function returned it, before anything was sent; the
    step stops on all members. The caller corrects the step function. A retry fails
    again.
    """


class MemberMismatch(InvalidArgumentError):
    """Two members of one training disagree about what they train.

    Raised by the coordinator when it compares what the members were given. The caller
    gives `kit.train` the same arguments on all workers. A retry fails again until then.
    """


class NotFinite(InvalidArgumentError):
    """A gradient, a loss or an initial value holds NaN or infinity.

    Raised on the worker that met it; the step was refused on all members, so the
    parameters are those of the step before. The caller lowers the learning rate or
    looks at the data of that step. A retry from the same state mostly meets it again.
    """


class ProtocolError(InvalidArgumentError):
    """The bytes on a link or in a message are not those of the protocol.

    Raised by the side that reads them; the link is closed, as nothing after them can be
    trusted. The caller checks host, port and that both sides have the same release. A
    retry does not help if something else speaks there.
    """


class LinkLost(UnavailableError):
    """A connection broke.

    Raised by a link that is read or written; `may_have_happened` says whether the peer
    may have acted on what was sent. Callers inside this package turn it into `PeerLost`
    when they know whose link it was. A retry over a new link helps if the peer lives.
    """

    may_have_happened: bool = True


class PeerLost(UnavailableError):
    """A task that takes part is gone or does not answer.

    Raised in sessions, trainings, calls and cells that needed it; `task` names it. The
    caller restarts the task (`cluster.restart`), and then makes a new session or
    resumes from a checkpoint, because its variables are lost. A retry helps after that.
    """


class ControllerLost(UnavailableError):
    """The process that starts and finds the engines is gone.

    Raised by a `Cluster` whose controller has died: no cell or call reaches the engines
    any more. The caller stops the cluster and makes a new one. A retry on the same
    cluster does not help.
    """


class StartFailed(UnavailableError):
    """The cluster, or one of its tasks, did not come up.

    Raised by a start or a restart, with what the processes printed if there was
    anything. The caller corrects what the message names; what had been started is
    ended. A retry helps if the machine was merely too busy.
    """


class Fenced(AbortedError):
    """This task belongs to an older epoch; what it sends is refused.

    Raised to a member that went on after the others had agreed to do without it, or
    whose task has a newer process. It must not touch the training any more, and joins
    again as a new member if it may. A retry in the old epoch never helps.
    """


class StepFailed(AbortedError):
    """The user's step raised on a task, or returned what is not a loss.

    Raised where the training is waited for, with the task's traceback; the other
    members were stopped, and the parameters are those of the step before. The caller
    corrects the step function and resumes from a checkpoint. A retry of the same code
    fails again.
    """


class ClusterBusy(FailedPreconditionError):
    """Something else is under way that does not go together with this.

    Raised for a second training on the same tasks, and for a restart or change of the
    cluster amid a training. The caller waits for the other one (`run.wait`) or ends it
    (`run.stop`). A retry helps after that.
    """


class VersionMismatch(FailedPreconditionError):
    """Two sides, or a file and its reader, have different versions.

    Raised by both ends of a handshake that have no version of the protocol in common,
    and for files of another format. The caller installs the same release on both sides.
    A retry helps only after that.
    """


class AuthenticationFailed(UnauthenticatedError):
    """The peer does not hold this cluster's key or certificate.

    Raised by both ends of a handshake, before anything else is read. The caller asks
    the running cluster for its addresses and credentials again: they usually belong to
    an earlier start. A retry with the same ones does not help.
    """


class AddressInUse(AlreadyExistsError):
    """The address is taken by another process.

    Raised by the process that would listen there; the message names the holder if it
    is known. The caller stops that process or takes port 0, which always finds a
    free one. A retry helps once the other one has ended.
    """


class CheckpointFailed(DataLossError):
    """A checkpoint could not be written, or is damaged.

    Raised by savers, which leave the checkpoints that are there as they were, and by
    readers, which return nothing of a damaged one. The caller takes an older checkpoint
    or another folder. A retry helps for a write, not for damage.
    """


class NotEnoughMemory(ResourceExhaustedError):
    """A cluster or a training would not fit into the memory of this machine.

    Raised before anything starts where it can be foreseen, else by the task that cannot
    get its shared memory. The caller starts fewer tasks or takes a smaller model. A
    retry helps when other programs have ended.
    """


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
