"""`tf.errors`: the errors of `kit` under the original's names.

They are the same classes, so `except tf.errors.AbortedError` also catches what `kit`
raises with a plainer name, such as `PlacementError` or `PeerLost`.
"""

from __future__ import annotations

from typing import Any

from kit.errors import AbortedError as AbortedError
from kit.errors import AlreadyExistsError as AlreadyExistsError
from kit.errors import CancelledError as CancelledError
from kit.errors import DataLossError as DataLossError
from kit.errors import DeadlineExceededError as DeadlineExceededError
from kit.errors import FailedPreconditionError as FailedPreconditionError
from kit.errors import InternalError as InternalError
from kit.errors import InvalidArgumentError as InvalidArgumentError
from kit.errors import KitError
from kit.errors import NotFoundError as NotFoundError
from kit.errors import OutOfRangeError as OutOfRangeError
from kit.errors import PermissionDeniedError as PermissionDeniedError
from kit.errors import ResourceExhaustedError as ResourceExhaustedError
from kit.errors import UnauthenticatedError as UnauthenticatedError
from kit.errors import UnavailableError as UnavailableError
from kit.errors import UnimplementedError as UnimplementedError
from kit.errors import UnknownError as UnknownError
from kit.errors import error_code_from_exception_type as error_code_from_exception_type
from kit.errors import exception_type_from_error_code as exception_type_from_error_code
from kit.graph.array_protocol import (
    OperatorNotAllowedInGraphError as OperatorNotAllowedInGraphError,
)
from kit.tf1.session.fetching import InaccessibleTensorError as InaccessibleTensorError

OpError: Any = KitError

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16
