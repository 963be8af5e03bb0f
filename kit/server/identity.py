"""The credentials that the processes of one user share unless they are given others.

Servers that are started by hand, one process for each task, must hold the same key. The
first one makes it, in a file that only this user can read; to use several hosts, copy
that file, or name another one with `KIT_CREDENTIALS`. A named file is never made here:
with a wrong name, each host would make its own key, and none would fit another.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from kit.errors import NotFoundError
from kit.wire.handshake.credentials import Credentials


def shared_credentials() -> Credentials:
    """Return this user's credentials; makes them the first time.

    Raises `NotFoundError` where `KIT_CREDENTIALS` names a file that is not there, and
    what `Credentials.load` raises.
    """
    named = os.environ.get("KIT_CREDENTIALS", "")
    path = Path(named) if named else _own_path()
    if named and not path.exists():
        raise NotFoundError(
            f"KIT_CREDENTIALS names {path}, where there is no file. Copy the cluster's "
            f"credentials there, or make new ones with 'python -m kit credentials new "
            f"{path}' and give them to every task."
        )
    if not path.exists():
        _make(path)
    return Credentials.load(path)


def _own_path() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "psring" / "credentials.json"


def _make(path: Path) -> None:
    # Several tasks may start at once: only one of them can link its finished file to
    # the name, and none ever reads a file that is half written.
    draft = path.with_name(f".draft-{secrets.token_hex(8)}")
    Credentials.new().save(draft)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
