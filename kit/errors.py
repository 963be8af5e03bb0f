"""The one tree of errors: canonical codes as parents, plain names below them.

Pure. The codes and the parents are those of TensorFlow's status codes, so
`except UnavailableError` means the same here as there. Errors that users often meet
have a plain name below their code, for example `PeerLost`.

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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

_MOST_TEXT = 20_000  # characters of a message or a traceback that crosses a process
_NOTE = 50  # and at most of what stands for the others


class KitError(Exception):
    """Base of all errors of this package.

    Parameters
    ----------
    *args
        A message; or, as in TensorFlow, `node_def`, `op` and message, and for
        `KitError` itself an error code.
    task : str, optional
        The task where it happened, such as "/job:worker/task:1"; None if unknown.
    step : int, optional
        The step at which it happened.
    node : str, optional
        The op of a graph that failed.
    remote_traceback : str, optional
        The traceback on that task.

    Raises
    ------
    TypeError
        The number of arguments is wrong.
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
        """The canonical status code: the given one, else that of the class."""
        return self._code

    def __str__(self) -> str:
        if self.remote_traceback:
            return f"{self.message}\n\n{self.remote_traceback}"
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Past __init__: those of subclasses take other arguments.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class CancelledError(KitError):
    """An operation was cancelled, usually by its own caller.

    Raised in waiting callers when a session, cluster or server is closed, or when a
    `Cancellation` ends their runs. The caller stops: the result is no longer wanted.
    A retry needs a new session or cluster, unless only this one run was cancelled.
    """

    code = 1


class UnknownError(KitError):
    """Something failed for which there is no other code.

    Raised for exceptions of the user's own code on a task, with its traceback in
    `remote_traceback`, and for types of errors that this version does not know. The
    caller reads the traceback and corrects the code. A retry helps only if that code
    may succeed another time.
    """

    code = 2


class InvalidArgumentError(KitError):
    """A value that the caller gave is wrong in every state of the system.

    Raised by constructors, by tasks that check the fields of a message, and by ops
    that get wrong shapes. The caller corrects the value that the message names. A
    retry with the same value fails again.
    """

    code = 3


class DeadlineExceededError(KitError):
    """The deadline passed before the operation was finished.

    Raised by every wait; the message says for what it waited, and where. The operation
    may still have happened on the other side. A retry, or more time (`deadline_s`,
    `timeout_s`), helps if the other side is slow but not stuck.
    """

    code = 4


class NotFoundError(KitError):
    """Something that was asked for does not exist: a file, a task, a target, a name.

    Raised by the lookup; the message lists what exists if it can. The caller corrects
    the name, or creates the missing thing first. A retry helps only after that.
    """

    code = 5


class AlreadyExistsError(KitError):
    """Something that was to be created exists already.

    Raised as `AddressInUse`, for a folder or file that would be overwritten, and by
    programs written for TensorFlow themselves. The caller uses the existing thing or
    chooses another name. A retry helps once it is gone.
    """

    code = 6


class PermissionDeniedError(KitError):
    """This user is not allowed to do that.

    Raised for files, folders and sockets that belong to other users or are open to
    them, and for an address where other users could listen. The caller changes the path
    or its mode as the message says. A retry helps only after that.
    """

    code = 7


class ResourceExhaustedError(KitError):
    """Memory, a disk or another quota is used up.

    Raised by ops that cannot get memory, by writers on a full disk, and by tasks that
    limit what they keep for one client. The caller asks for less or frees some. A retry
    helps after that.
    """

    code = 8


class FailedPreconditionError(KitError):
    """The system is not in the state that the operation needs.

    Raised for a variable that has no value yet, a cluster that is not started, a run
    that has ended, and the like. The caller establishes the state that the message
    names. A retry helps only after that.
    """

    code = 9


class AbortedError(KitError):
    """The operation was abandoned because of something that happened elsewhere.

    Raised by a session's target that was restarted or reset, and as `Fenced` and
    `StepFailed` in trainings. The caller begins again at a higher level: with a new
    session, or from a checkpoint. A retry of the same call does not help.
    """

    code = 10


class OutOfRangeError(KitError):
    """A read went past the end of data, or of a closed queue.

    Raised by sources, by queues that are closed and empty, and by replays and steppers
    for a step that they do not have. The caller ends its loop: this is the normal end
    of the data. A retry raises it again.
    """

    code = 11


class UnimplementedError(KitError):
    """The operation is not implemented.

    Raised for parts of TensorFlow that this package lacks, for ops without a kernel,
    and by tasks of another version for requests that they do not know. The caller uses
    an alternative, which the message usually names. A retry does not help.
    """

    code = 12


class InternalError(KitError):
    """An invariant of this package is broken.

    Raised where this package's own state is inconsistent; one known case is two
    programs that use one variable with different dtypes. Any other case is a bug in
    this package, which the caller reports with the message. A retry may help by chance.
    """

    code = 13


class UnavailableError(KitError):
    """A task or a connection is not available now.

    Raised when nothing answers at an address, when a listener has too many new
    connections, and as `PeerLost` or `LinkLost` when a task or connection is gone. The
    caller waits a little or restarts the task. This code means that a retry may help.
    """

    code = 14


class DataLossError(KitError):
    """Data are damaged beyond repair.

    Raised for files with inconsistent contents, and when the members of a training find
    that their parameters differ. The caller goes back to an older copy. A retry finds
    the same damage.
    """

    code = 15


class UnauthenticatedError(KitError):
    """The peer did not prove who it is.

    Raised as `AuthenticationFailed`; programs written for TensorFlow catch this class.
    The caller uses the credentials of the running cluster. A retry with the same ones
    does not help.
    """

    code = 16


class PlacementError(InvalidArgumentError):
    """A device string names a job, task or device that does not exist here.

    Raised when a graph is placed, when a cell or a call chooses tasks, and by a task
    that does not have the requested GPU. The caller corrects the name, adds tasks to
    the cluster, or allows `soft_placement`. A retry fails again.
    """


class UnknownTopology(InvalidArgumentError):
    """No topology has this name here.

    Raised where a topology is named, and by the tasks when one of the user's own is not
    registered in their programs. The caller corrects the name, or registers it there. A
    retry fails again.
    """


class GradientMismatch(InvalidArgumentError):
    """A gradient's name, shape or dtype is not that of its parameter.

    Raised on the worker whose step function returned it, before that gradient is sent;
    the step stops on all members, and no parameter changes. The caller corrects the
    step function. A retry fails again.
    """


class MemberMismatch(InvalidArgumentError):
    """Two members of one training disagree about what they train.

    Raised by the coordinator when it compares the members' arguments. The caller gives
    `kit.train` the same arguments on all workers. A retry fails again until then.
    """


class NotFinite(InvalidArgumentError):
    """A gradient, an initial value or a loss of `kit.evolve` holds NaN or infinity.

    Raised on the worker that found it; the step was refused on all members, so the
    parameters are those of the step before. An initial value is refused before anything
    has begun. The caller lowers the learning rate or checks the data of that step. A
    retry from the same state usually fails again.
    """


class ProtocolError(InvalidArgumentError):
    """The bytes on a link or in a message are not those of the protocol.

    Raised by the side that reads them; it closes the link, because nothing after them
    can be trusted. The caller checks the host, the port, and that both sides have the
    same release. A retry does not help if another program listens there.
    """


class LinkLost(UnavailableError):
    """A connection broke.

    Raised by reads and writes of a link; `may_have_happened` says whether the peer may
    have acted on what was sent. Callers inside this package turn it into `PeerLost`
    when they know the peer. A retry over a new link helps if the peer is alive.
    """

    may_have_happened: bool = True


class PeerLost(UnavailableError):
    """A task that takes part is gone or does not answer.

    Raised in sessions, trainings, calls and cells that needed it; `task` names it. The
    caller restarts the task (`cluster.restart`). Its variables are lost, so the caller
    then makes a new session or resumes from a checkpoint. A retry helps after that.
    """


class ControllerLost(UnavailableError):
    """The process that finds the engines and carries calls to them is gone.

    Raised by a `Cluster` whose controller has died: no cell or call reaches the engines
    any more. The caller stops the cluster and makes a new one. A retry on the same
    cluster does not help.
    """


class StartFailed(UnavailableError):
    """The cluster, or one of its tasks, did not come up.

    Raised by a start or a restart, with the output of the processes, if any. Everything
    that had been started is ended. The caller corrects the cause that the message
    names. A retry helps if the machine was only too busy.
    """


class Fenced(AbortedError):
    """This task belongs to an older epoch; the others refuse what it sends.

    Raised in a member that went on after the others had agreed to continue without it,
    or that has been replaced by a newer process. It must no longer affect the training,
    and joins again as a new member if it may. A retry in the old epoch never helps.
    """


class StepFailed(AbortedError):
    """The user's step function raised, or gave no usable loss, measures or state.

    Raised in the caller that waits for the training, with the task's traceback; the
    other members were stopped, and the parameters are those of the step before. The
    caller corrects the step function and resumes from a checkpoint. A retry of the same
    code fails again.
    """


class ClusterBusy(FailedPreconditionError):
    """Something else is under way that excludes this operation.

    Raised for a second training on the same tasks, and for a restart or change of the
    cluster during a training. The caller waits for the training (`run.wait`) or ends it
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

    Raised by both ends of a handshake, before anything else is read. The credentials
    usually belong to an earlier start: the caller asks the running cluster for its
    addresses and credentials again. A retry with the same ones does not help.
    """


class AddressInUse(AlreadyExistsError):
    """The address is taken by another process.

    Raised by the process that tries to listen there; the message names the other
    process if it is known. The caller stops that process, or uses port 0, which always
    finds a free port. A retry helps once the other process has ended.
    """


class CheckpointFailed(DataLossError):
    """A checkpoint could not be written, or is damaged.

    Raised by savers, which leave existing checkpoints as they were, and by readers,
    which return nothing of a damaged one. The caller uses an older checkpoint or
    another folder. A retry may help a failed write, but not a damaged file.
    """


class NotEnoughMemory(ResourceExhaustedError):
    """A cluster or a training would not fit into the memory of this machine.

    Raised before anything starts if that is certain, else by the task that cannot get
    its shared memory. The caller starts fewer tasks or uses a smaller model. A retry
    helps when other programs have ended.
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


@contextmanager
def noted_at(first: BaseException) -> Iterator[None]:
    """Note what goes wrong in a clean-up at the error that led to it, and go on.

    Otherwise the error of the clean-up would hide the first one from the caller.

    >>> error = PeerLost("worker:1 is gone")
    >>> with noted_at(error):
    ...     raise OSError("no space left")
    >>> error.__notes__
    ['The clean-up failed too: OSError: no space left']
    """
    try:
        yield
    except Exception as error:
        first.add_note(f"The clean-up failed too: {type(error).__name__}: {error}")


def _tree(root: type[KitError]) -> dict[str, type[KitError]]:
    errors = {root.__name__: root}
    for child in root.__subclasses__():
        errors |= _tree(child)
    return errors


def shortened(text: str, most: int = _MOST_TEXT) -> str:
    """Return a text, or, if it has more than `most` characters, both of its ends.

    What a task says may be of any length; what is shown and kept of it is not.

    >>> shortened("a" * 50 + "z" * 50, 70)
    'aaaaaaaaaa[80 characters are left out here]zzzzzzzzzz'
    """
    if len(text) <= most:
        return text
    half = (most - _NOTE) // 2  # so that the result is short enough for another time
    left_out = len(text) - 2 * half
    return f"{text[:half]}[{left_out:,} characters are left out here]{text[-half:]}"


def to_plain(error: BaseException) -> dict[str, Any]:
    """Return the error as plain data that JSON can carry; of long texts both ends.

    >>> to_plain(PeerLost("ps:0 is gone", task="/job:ps/task:0"))["type"]
    'PeerLost'
    """
    if isinstance(error, KitError):
        return {
            "type": shortened(type(error).__name__),
            "message": shortened(error.message),
            "task": error.task and shortened(str(error.task)),
            "step": error.step,
            "node": error.node and shortened(str(error.node)),
            "traceback": error.remote_traceback and shortened(error.remote_traceback),
        }
    text = shortened(f"{type(error).__name__}: {error}")
    return {"type": "UnknownError", "message": text, "task": None, "step": None}


def from_plain(plain: Any) -> KitError:
    """Rebuild an error from `to_plain`; an unknown type becomes `UnknownError`.

    So does anything that is not such data: it may come from an untrusted process.

    >>> from_plain({"type": "PeerLost", "message": "ps:0 is gone"})
    PeerLost('ps:0 is gone')
    """
    if not isinstance(plain, dict):
        plain = {"message": f"an error came that cannot be read: {plain!r:.80}"}
    kind = _tree(KitError).get(str(plain.get("type")), UnknownError)
    step = plain.get("step")
    task, node, printed = (
        shortened(value) if isinstance(value := plain.get(name), str) else None
        for name in ("task", "node", "traceback")
    )
    return kind(
        shortened(str(plain.get("message", ""))),
        task=task,
        step=step if isinstance(step, int) else None,
        node=node,
        remote_traceback=printed,
    )
