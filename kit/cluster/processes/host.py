"""The first process on a host that is not the notebook's; it becomes the fork server.

    launcher --starts--> host.py =becomes=> fork server --forks--> the host's own engine
                                                        --forks--> tasks, as ordered

ipyparallel's launchers start it in the place of an engine: the controller's connection
is in the environment. It makes the cluster's folder on this host, and a reaper, which
ends all and removes the folder when the fork server is gone. The host's own engine is
no task: the notebook calls there what concerns the host (`host_calls.py`), and it ends
when the controller is gone for long; with it, all others end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from kit import machine
from kit.cluster.processes.fork_server import HOST_ENGINE
from kit.cluster.processes.forks import Forks
from kit.cluster.processes.processes import ReaperHandle
from kit.cluster.runtime import (
    engine_environment,
    make_folder,
    prepared,
    threads_per_engine,
)

_CONNECTION = "IPP_CONNECTION_INFO"
_LEASE_S = 0.01  # of the fork server: nobody waits for its return


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="psring host", description=__doc__)
    parser.add_argument("--label", default="", help="what the launcher calls the host")
    parser.add_argument("--slots", type=int, default=1, help="tasks that it may hold")
    parser.add_argument("--threads", type=int, default=0, help="of BLAS; 0 for a share")
    parser.add_argument("--deadline", type=float, required=True)
    parser.add_argument("--preload", default="")
    return parser.parse_args()


def _folder(launched_in: Path) -> Path:
    """Use the folder that was made for the launch alone, if one was; else a new one."""
    if launched_in.name.startswith("psring-") and not launched_in.is_symlink():
        launched_in.chmod(0o700)  # fails for a folder of somebody else
        return prepared(launched_in.resolve())
    return make_folder()


def main() -> None:
    """Prepare the folder, and become the fork server."""
    arguments = _arguments()
    folder = _folder(Path(os.environ.get("IPP_PROFILE_DIR", "")))
    forks = Forks(folder)
    connection = forks.connection("engine")
    connection.touch(mode=0o600)
    connection.write_text(os.environ.pop(_CONNECTION))
    facts = {"label": arguments.label, "slots": arguments.slots}
    (folder / "host.json").write_text(json.dumps(facts))
    forks.order(HOST_ENGINE, "host")
    threads = arguments.threads or threads_per_engine(arguments.slots, machine.cores())
    ReaperHandle(folder, _LEASE_S)
    command = [sys.executable, "-P", "-m", "kit.cluster.processes.fork_server"]
    told = [f"--folder={folder}", f"--deadline={arguments.deadline}"]
    os.execve(
        sys.executable,
        [*command, *told, f"--preload={arguments.preload}"],
        os.environ | engine_environment(folder, threads),
    )


if __name__ == "__main__":
    main()
