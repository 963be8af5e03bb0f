"""The compiled parts of the kit: found where they were built, missed by nobody.

`pip install` builds them where there is a C compiler. Each is plain C, without Python's
headers, and each does what Python does as well, to the same bits: whatever stands in
the way of loading one, all is done in Python.
"""

from __future__ import annotations

import ctypes
from importlib.util import find_spec


def library(
    module: str, form: int, kind: type[ctypes.CDLL] = ctypes.CDLL
) -> ctypes.CDLL | None:
    """Load what was built under a module's name; None unless it is of this `form`.

    `kind`: `ctypes.PyDLL` keeps the interpreter during each call, `CDLL` lets it go.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    try:
        found = kind(spec.origin)
        found.kit_form.restype = ctypes.c_int64
    except (OSError, AttributeError):  # of another machine, or cut short
        return None
    return found if found.kit_form() == form else None
