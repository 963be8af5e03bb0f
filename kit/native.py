"""Load a compiled part of the kit that is plain C, without Python's headers.

`pip install` builds it if there is a C compiler. It gives the same bits as Python code
that exists as well: if it cannot be loaded for any reason, Python does its work.
"""

from __future__ import annotations

import ctypes
from importlib.util import find_spec


def library(
    module: str, form: int, kind: type[ctypes.CDLL] = ctypes.CDLL
) -> ctypes.CDLL | None:
    """Load the library built as a module; None if there is none of this `form`.

    With `ctypes.PyDLL` its functions keep the interpreter's lock, and take less time.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    try:
        compiled = kind(spec.origin)
        compiled.kit_form.restype = ctypes.c_int64
    except (OSError, AttributeError):  # for another architecture, or truncated
        return None
    # Next to new code there may be an old build, whose functions take other arguments.
    return compiled if compiled.kit_form() == form else None
