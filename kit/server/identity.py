"""The credentials that the processes of one user share when nobody hands them any.

Servers that are started by hand, one process a task, must hold the same key. The
first one makes it, in a file that this user alone can read; to use several hosts,
copy that file, or name another one with `KIT_CREDENTIALS`.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from kit.wire.handshake.credentials import Credentials


def shared_credentials() -> Credentials:
    """Return this user's credentials; makes them the first time."""
    path = credentials_path()
    if not path.exists():
        _make(path)
    return Credentials.load(path)


def credentials_path() -> Path:
    """Return where this user's credentials are kept."""
    named = os.environ.get("KIT_CREDENTIALS", "")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "psring" / "credentials.json"


def _make(path: Path) -> None:
    # Four tasks start at once: a link to a finished file is made by exactly one.
    draft = path.with_name(f".draft-{secrets.token_hex(8)}")
    Credentials.new().save(draft)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
