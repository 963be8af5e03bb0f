"""`tf.errors`: the errors of `kit` under the original's names, and their codes.

They are the same classes, so `except tf.errors.AbortedError` also catches what `kit`
raises with a plainer name, such as `PlacementError` or `PeerLost`. The code of
`DataLossError` is `DATA_LOSS`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kit.errors import KitError
from kit.errors import error_code_from_exception_type as error_code_from_exception_type
from kit.errors import exception_type_from_error_code as exception_type_from_error_code
from kit.graph.array_protocol import (
    OperatorNotAllowedInGraphError as OperatorNotAllowedInGraphError,
)
from kit.tf1.session.fetching import InaccessibleTensorError as InaccessibleTensorError

OpError: Any = KitError

OK = 0
for _kind in KitError.__subclasses__():
    if _kind.__module__ == KitError.__module__:
        _words = re.findall("[A-Z][a-z]+", _kind.__name__.removesuffix("Error"))
        globals().update({_kind.__name__: _kind, "_".join(_words).upper(): _kind.code})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
