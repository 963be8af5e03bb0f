"""The magics of the notebook: `%load_ext kit`, then `%%cluster`, `%%on`, `%topology`.

Importing this has no effect. Each magic has an equivalent in plain Python:
`kit.Cluster`, `cluster.on`, `run.topology`.
"""

from __future__ import annotations

from kit.magics.extension import load as load
from kit.magics.extension import unload as unload

__all__ = ["load", "unload"]
