"""What comes out of one case, as plain data that JSON can hold.

    {"value": ...}                          it returned
    {"raises": "ValueError", "is": [...]}   it raised; "is" names what it also is
    {"absent": true}                        it needs what this module does not offer

Keys that begin with `_` are for the reader of a failed test and are not recorded.
"""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.tf1.gallery import Plain
    from tests.tf1.look import Case

KINDS = (
    *(ValueError, TypeError, RuntimeError, KeyError),
    *(IndexError, AttributeError, LookupError),
)


class Absent(Exception):
    """The case asked for a part that this version of the original does not have."""


def outcome_of(case: Case, tf: Any) -> dict[str, Plain]:
    """Run the case in a default graph of its own and tell what came out.

    A value that is not plain data is a mistake of the case: `TypeError` to the caller.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with tf.Graph().as_default():
                value = case()
    except Absent:
        return {"absent": True}
    except Exception as error:
        return _raised(error, tf)
    return {"value": plain(value)}


def _raised(error: Exception, tf: Any) -> dict[str, Plain]:
    kinds = [kind.__name__ for kind in KINDS if isinstance(error, kind)]
    if isinstance(error, tf.errors.OpError):
        kinds.append("OpError")
    return {
        "raises": type(error).__name__,
        "is": sorted(kinds),
        "_classes": [item.__name__ for item in type(error).__mro__],
        "_traceback": "".join(
            traceback.format_exception(type(error), error, error.__traceback__)
        ),
    }


def plain(value: Any) -> Plain:
    """Turn what a case returned into plain data; the kind of a container is kept.

    A numpy scalar and an array of rank 0 look alike, and so do equal arrays in other
    orders of memory.

    >>> plain((1, b"a"))
    {'sequence': 'tuple', 'items': [1, {'bytes': 'a'}]}
    >>> plain(np.float32(0.5))
    {'dtype': 'float32', 'shape': [], 'values': [0.5]}
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, bytes):  # before numpy's scalars: one of them is bytes too
        return {"bytes": value.decode("latin-1")}
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain_array(np.asarray(value))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    return _plain_container(value)


def _plain_array(array: Any) -> Plain:
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "values": [plain(item) for item in array.ravel().tolist()],
    }


def _plain_container(value: Any) -> Plain:
    kind = type(value).__name__
    if isinstance(value, Mapping):
        items = [[plain(key), plain(item)] for key, item in value.items()]
        return {"mapping": kind, "items": items}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = [[name, plain(getattr(value, name))] for name in value._fields]
        return {"namedtuple": kind, "items": fields}
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return items if type(value) is list else {"sequence": kind, "items": items}
    if isinstance(value, (set, frozenset)):
        return {"set": [plain(item) for item in sorted(value)]}
    raise TypeError(
        f"a case returned {value!r} of type {kind}; return numbers, text, bytes, "
        f"arrays, None, or containers of these."
    )
