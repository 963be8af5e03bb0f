"""The notebook's own modules: tasks find those that it finds, and run the same code.

A function of a module travels by name: a task imports the module itself. So each call
says where the notebook looks for modules that are not installed, and the digest of each
one's file, as it was when the notebook imported or reloaded it. A task with another one
reads the file anew; what differs even then is refused by name. What modules hold is not
compared, and nothing here executes code that a plain import would not.
"""

from __future__ import annotations

import hashlib
import importlib
import platform
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from kit.errors import FailedPreconditionError

_INSTALLED = ("site-packages", "dist-packages")
_DIGITS = 16  # of a digest: edits are told apart, and each call carries them all
_OURS = frozenset({"kit", "widgets", "__main__", "__mp_main__"})
_PREFIXES = tuple(
    str(Path(path))
    for path in (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        site.getusersitepackages(),
        f"{sys.base_prefix}/lib/python3",
        f"{sys.prefix}/lib/python3",
    )
)


def is_installed(path: str) -> bool:
    """Return whether a file or folder belongs to Python or to an installed package.

    >>> is_installed("/data/src/model.py"), is_installed("/x/site-packages/a.py")
    (False, True)
    """
    parts = Path(path).parts
    return path.startswith(_PREFIXES) or any(folder in parts for folder in _INSTALLED)


@dataclass(frozen=True)
class UserCode:
    """Where a notebook looks for its own modules, and which code it has of each.

    `first` are the folders that it searches before installed packages, `last` those
    after that; `digests` are by the name of the module.
    """

    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)


class Loaded:
    """The digest of each own module's file, as it was when it was imported here."""

    def __init__(self) -> None:
        # A reload gives a module another spec: its file is read again then.
        self._known: dict[str, tuple[object, str]] = {}

    def digests(self) -> dict[str, str]:
        """Return the digests of all own modules that are imported now."""
        result: dict[str, str] = {}
        for name, module in list(sys.modules.items()):
            spec = getattr(module, "__spec__", None)
            kept = self._known.get(name)
            if kept is None or kept[0] is not spec:
                kept = self._known[name] = spec, _digest(name, module)
            if kept[1]:
                result[name] = kept[1]
        return result


def _digest(name: str, module: ModuleType) -> str:
    """Return the digest of a module's file; empty if it is not one of the user's."""
    path = getattr(module, "__file__", None)
    is_ours = name.partition(".")[0] in _OURS
    if is_ours or not isinstance(path, str) or is_installed(path):
        return ""
    if not path.endswith(".py"):
        return ""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:_DIGITS]
    except OSError:  # it was removed, or lies in an archive
        return ""


_here = Loaded()
_taken = UserCode()  # in a task: what the notebook said last


def of_this_process() -> UserCode:
    """Return what this process, the notebook's, tells its tasks."""
    folders = list(_folders())
    split = _first_of_packages(folders)
    own = [(n, folder) for n, folder in enumerate(folders) if not is_installed(folder)]
    return UserCode(
        tuple(folder for n, folder in own if n < split),
        tuple(folder for n, folder in own if n > split),
        _here.digests(),
    )


def _folders() -> Iterator[str]:
    for folder in sys.path:
        with suppress(OSError):  # the working folder may be gone
            yield str(Path(folder or ".").absolute())


def _first_of_packages(folders: Sequence[str]) -> int:
    """Return the index of the first folder of installed packages."""
    marks = [Path(folder).name in _INSTALLED for folder in folders]
    return marks.index(True) if True in marks else len(folders)


def take(code: UserCode) -> None:
    """Look for modules where the notebook does, and bring old ones up to date."""
    global _taken  # a process has one `sys.path`
    before, _taken = {*_taken.first, *_taken.last}, code
    now = {*code.first, *code.last}
    rest = [folder for folder in sys.path if folder not in before and folder not in now]
    # After Python's own modules, as in a notebook: its working folder may hold a file
    # called `random.py`.
    split = _first_of_packages(rest)
    wanted = [*rest[:split], *code.first, *rest[split:], *code.last]
    if sys.path != wanted:
        sys.path[:] = wanted
    importlib.invalidate_caches()  # files may have come since the last look
    if _other():
        _reload()


def check() -> None:
    """Raise `FailedPreconditionError` for a module with other code than the notebook's.

    Call it when what needs the modules has been unpickled: that imports them.
    """
    if not _other():
        return
    _reload()
    for name in _other():
        path = getattr(sys.modules[name], "__file__", "its file")
        raise FailedPreconditionError(
            f"the module {name!r} in the notebook is not what {path} holds now on "
            f"{platform.node()}, so the task would run other code. After an edit "
            f"reload it in the notebook: importlib.reload({name}), or %autoreload 2; "
            f"on other hosts copy the file there."
        )


def _other() -> list[str]:
    """Return the modules that both processes have imported with different code."""
    if not _taken.digests:
        return []
    mine, theirs = _here.digests(), _taken.digests
    return [name for name in theirs if mine.get(name, theirs[name]) != theirs[name]]


def _reload() -> None:
    """Read the own modules anew.

    A module takes its place when its import ends: what it has imported is before it.
    """
    modules: Iterable[str] = _here.digests()
    for name in [module for module in sys.modules if module in modules]:
        with suppress(Exception):  # `check` says which one is not the notebook's
            importlib.reload(sys.modules[name])


def not_found(error: ModuleNotFoundError) -> FailedPreconditionError:
    """Return what to raise where a module of the notebook cannot be imported."""
    name = error.name or "?"
    own: list[Any] = [*_taken.first, *_taken.last]
    return FailedPreconditionError(
        f"a task on {platform.node()} cannot import the module {name!r}, which the "
        f"notebook's function or data needs. It looks where the notebook does "
        f"({', '.join(own) or 'in no folder of its own'}), and for what is installed "
        f"in {sys.prefix}. Put the module there on that host, or let its code travel: "
        f"cloudpickle.register_pickle_by_value({name.partition('.')[0]})."
    )
