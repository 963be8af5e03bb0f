"""Whether a checkpoint belongs to a graph or model, and what differs if it does not.

Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kit.checkpoint.manifest import Manifest

# Of a tensor: its shape, and its dtype by name.
Specs: TypeAlias = Mapping[str, tuple[Sequence[int], Any]]


def graph_hash(specs: Specs) -> str:
    """Return a digest of names, shapes and dtypes, whatever their order.

    >>> graph_hash({"w": ((2, 3), "float32")})[:8]
    'ff5f9038'
    """
    plain = sorted(
        [name, list(one), str(dtype)] for name, (one, dtype) in specs.items()
    )
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def differences(manifest: Manifest, specs: Specs) -> list[str]:
    """Return what a checkpoint holds otherwise than it is wanted; empty if nothing.

    >>> differences(Manifest(step=1), {"w": ((2, 3), "float32")})
    ["'w' (float32[2, 3]) is not in the checkpoint"]
    """
    held, found = manifest.tensors(), []
    for name, (shape, dtype) in specs.items():
        wanted = _words(shape, dtype)
        if name not in held:
            found.append(f"{name!r} ({wanted}) is not in the checkpoint")
        elif _words(*held[name]) != wanted:
            found.append(f"{name!r} is {_words(*held[name])} there and {wanted} here")
    extra = [name for name in held if name not in specs]
    return found + [
        f"{name!r} ({_words(*held[name])}) is only in the checkpoint" for name in extra
    ]


def _words(shape: Sequence[int], dtype: Any) -> str:
    return f"{dtype}{list(shape)}"
