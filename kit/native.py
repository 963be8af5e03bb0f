"""Load the compiled parts of the kit, which are optional.

`pip install` builds them if there is a C compiler. Each is plain C, without Python's
headers, and gives the same bits as Python code that exists as well: if one cannot be
loaded for any reason, Python does its work.
"""

from __future__ import annotations

import ctypes
from importlib.util import find_spec


def library(
    module: str, form: int, kind: type[ctypes.CDLL] = ctypes.CDLL
) -> ctypes.CDLL | None:
    """Load the library built as a module; None if there is none of this `form`.

    As `kind`, `ctypes.PyDLL` holds the interpreter's lock during each call, and `CDLL`
    releases it.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    try:
        found = kind(spec.origin)
        found.kit_form.restype = ctypes.c_int64
    except (OSError, AttributeError):  # for another architecture, or truncated
        return None
    # Next to new code there may be an old build, whose functions take other arguments.
    return found if found.kit_form() == form else None
