"""Run ipyparallel's controller in this process, without ipyparallel's launchers.

A controller launches nothing, and to import what does takes a quarter of its start: it
looks through all packages that are installed. The controller is ipyparallel's own. It
runs as a script (`python -P controller.py`), since importing kit would take longer.
"""

from __future__ import annotations

import sys
from types import ModuleType


def main() -> None:
    """Run the controller to its end; its arguments are those of the command line."""
    launchers = ModuleType("ipyparallel.cluster")
    vars(launchers).update(Cluster=None, ClusterManager=None)  # what ipyparallel shows
    sys.modules[launchers.__name__] = launchers
    from ipyparallel.controller.app import IPController

    IPController.launch_instance()


if __name__ == "__main__":
    main()
