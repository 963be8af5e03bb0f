"""Which peers can be compared with here: asked of each interpreter, never assumed.

The own interpreter is asked first, then those given with `--python`: peers may live in
separate environments, since two MPI libraries do not fit into one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

PEERS = ("gloo", "mpich", "openmpi")  # those that reduce an array
TRAINERS = ("gloo", "tensorflow")  # those that train
_ASK_S = 60.0
_MPI = (
    "from mpi4py import MPI; name, v = MPI.get_vendor(); "
    "print(name.replace(' ', '').lower(), '.'.join(map(str, v)))"
)
_QUESTIONS = {
    "gloo": "import torch, torch.distributed as d; assert d.is_gloo_available(); "
    "print('gloo', torch.__version__)",
    "mpich": _MPI,
    "openmpi": _MPI,
    "torchft": "import torchft; from importlib.metadata import version; "
    "print('torchft', version('torchft'))",
    "tensorflow": "import sys; assert sys.version_info >= (3, 10); "
    "import tensorflow as tf, numpy; print('tensorflow', tf.__version__)",
    "tensorflow1": "import tensorflow as tf; assert tf.__version__ < '2'; "
    "print('tensorflow1', tf.__version__)",
}


class Peer(NamedTuple):
    """A system that others made, and the interpreter that has it."""

    name: str  # one of PEERS or TRAINERS
    version: str
    python: str

    def launcher(self, n_ranks: int) -> list[str] | None:
        """Return the command that starts all ranks at once; None: one by one."""
        if self.name in TRAINERS:
            return None
        beside = Path(self.python).parent / "mpiexec"
        result = (
            str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"
        )
        if self.name == "mpich":
            return [result, "-n", str(n_ranks)]
        return [result, "--allow-run-as-root", "--oversubscribe", "-n", str(n_ranks)]


def find_peers(
    pythons: Iterable[str] = (), names: Sequence[str] = PEERS
) -> dict[str, Peer]:
    """Return those of the names that were found; each interpreter is asked once."""
    result: dict[str, Peer] = {}
    questions = dict.fromkeys(_QUESTIONS[name] for name in names)
    for python in (sys.executable, *pythons):
        for question in questions:
            words = _ask(python, question).split()
            if len(words) == 2 and words[0] in names:
                result.setdefault(words[0], Peer(words[0], words[1], python))
    return result


def _ask(python: str, question: str) -> str:
    """Return what the interpreter prints; nothing if it lacks the peer."""
    try:
        done = subprocess.run(
            [python, "-c", question], capture_output=True, text=True, timeout=_ASK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
