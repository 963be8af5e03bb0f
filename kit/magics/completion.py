"""What Tab offers: flags, words, tasks and topologies of our magics, and devices.

One matcher for IPython's completer. It reads the line up to the cursor, and leaves all
other completions alone if it has none itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from kit.cluster.launchers import Launcher
from kit.cluster.launchers.fields import classes, fields
from kit.cluster.launchers.site import launcher_defaults
from kit.errors import KitError
from kit.exchange.topologies import topology
from kit.magics import running
from kit.magics.cluster_cell_magic import StartMagics
from kit.magics.cluster_line_magic import ClusterMagics
from kit.magics.launcher_options import flag, owners
from kit.magics.line_parsing import flags
from kit.magics.on_magics import OnMagics
from kit.regular_file import read_regular
from kit.task import Task

_MAGIC = re.compile(r"\s*(?P<name>%{1,2}\w+)\s+(?P<words>.*)$")
_DEVICE = re.compile(r"\bdevice\(\s*[rbu]?(?P<quote>['\"])(?P<text>[^'\"\n]*)$")
_SSH_HOSTS = re.compile(r"^\s*host\s+(.+)$", re.IGNORECASE | re.MULTILINE)
_IS_PATTERN = re.compile(r"[*?!\"]").search
_TRANSPORTS = ("auto", "unix", "tcp", "mpi")
_LINKS = ("100mbit", "1gbit", "10gbit", "1gbit,5ms")
_MOST_BYTES = 1 << 20  # of ssh's configuration
_NO_VARIABLES: Mapping[str, object] = MappingProxyType({})


class Known(NamedTuple):
    """The names that a line may use: tasks, and the notebook's variables."""

    tasks: Sequence[Task]
    variables: Mapping[str, object]


class Completion:
    """Completes the names of tasks and variables; `match` is a matcher for IPython."""

    def __init__(self, variables: Mapping[str, object] = _NO_VARIABLES) -> None:
        self._variables = variables

    @context_matcher(identifier="kit", priority=100)  # type: ignore[untyped-decorator]
    def match(self, context: CompletionContext) -> SimpleMatcherResult:
        """Return the completions at the cursor, and the text that they replace."""
        line = context.text_until_cursor.rsplit("\n", 1)[-1]
        cluster = running.find()
        tasks = cluster.tasks if cluster else ()
        fragment, offers = offered(line, tasks, self._variables)
        texts = [offer for offer in offers if offer.startswith(fragment)]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(text, type="param") for text in texts],
            matched_fragment=fragment,
            suppress=bool(texts),
            ordered=True,
        )


def offered(
    line: str, tasks: Sequence[Task], variables: Mapping[str, object] = _NO_VARIABLES
) -> tuple[str, list[str]]:
    """Return the word before the cursor, and all words that would fit there.

    >>> offered('with kit.device("/job:p', [Task("ps", 0)])
    ('/job:p', ['/job:ps', '/job:ps/task:0'])
    >>> offered("%topology ri", [])[0]
    'ri'
    """
    device = _DEVICE.search(line)
    if device is not None:
        return device["text"], _devices(device["text"], tasks)
    magic = _MAGIC.match(line)
    if magic is None or magic["name"] not in _TABLE:
        return "", []
    *before, word = magic["words"].split(" ")
    names = Known(tasks, variables)
    offers = _TABLE[magic["name"]]([item for item in before if item], word, names)
    prefix = word[: word.rindex(",") + 1] if "," in word else ""
    return word, [prefix + offer for offer in offers]


def _devices(text: str, tasks: Sequence[Task]) -> list[str]:
    jobs = [f"/job:{job}" for job in dict.fromkeys(task.job for task in tasks)]
    whole = [str(task) for task in tasks if text.startswith(f"{task}/")]
    kinds = [f"{name}/{kind}" for name in whole for kind in ("cpu:0", "gpu:0")]
    return [*jobs, *map(str, tasks), *kinds]


def _named(tasks: Sequence[Task]) -> list[str]:
    jobs = dict.fromkeys(task.job for task in tasks)
    return [*jobs, *(task.short for task in tasks), *(["all"] if tasks else [])]


def _start(before: Sequence[str], word: str, names: Known) -> Iterable[str]:
    last = before[-1] if before else ""
    if last in _VALUES:
        return _VALUES[last](names)
    launcher = before[before.index("--launcher") + 1] if "--launcher" in before else ""
    theirs = {flag(name) for name in owners()}
    if last in theirs:
        return ()
    kind = classes().get(launcher) or type(names.variables.get(launcher))
    own = fields(kind) if issubclass(kind, Launcher) else ()
    hidden = theirs - {flag(name) for name in own}
    every = flags(StartMagics.cluster)
    return [task for task in every if task not in before and task not in hidden]


def _launchers(names: Known) -> Iterable[str]:
    variables = names.variables.items()
    mine = [name for name, value in variables if isinstance(value, Launcher)]
    return [*classes(), *(name for name in mine if not name.startswith("_"))]


def _hosts(_: Known) -> Iterable[str]:
    """Offer the site's hosts, with numbers, and those in ssh's configuration."""
    with suppress(KitError):  # the error is shown when the line runs
        for host, n_tasks in launcher_defaults("ssh").get("hosts", {}).items():
            yield f"{host}:{n_tasks}"
    with suppress(KitError, OSError):
        path = Path("~/.ssh/config").expanduser().resolve()
        text = read_regular(path, _MOST_BYTES).decode("utf-8", "replace")
        for names in _SSH_HOSTS.findall(text):
            yield from (f"{name}:" for name in names.split() if not _IS_PATTERN(name))


_VALUES: dict[str, Callable[[Known], Iterable[str]]] = {
    "--transport": lambda _: _TRANSPORTS,
    "--link": lambda _: _LINKS,
    "--launcher": _launchers,
    "--hosts": _hosts,
}


def _look_after(before: Sequence[str], word: str, names: Known) -> Iterable[str]:
    if word.startswith("-") or (before and before[0].startswith("-")):
        return _start(before, word, names)
    if not before:
        return ClusterMagics.words
    if before[0] == "add":
        return dict.fromkeys(task.job for task in names.tasks)
    of_tasks = ("restart", "kill", "remove", "logs")
    return _named(names.tasks) if before[0] in of_tasks else ()


def _on(before: Sequence[str], word: str, names: Known) -> Iterable[str]:
    return flags(OnMagics.on) if word.startswith("-") else _named(names.tasks)


def _topology(before: Sequence[str], word: str, _: Known) -> Iterable[str]:
    return () if before else topology.names()


_TABLE: dict[str, Callable[[Sequence[str], str, Known], Iterable[str]]] = {
    "%%cluster": _start,
    "%cluster": _look_after,
    "%%on": _on,
    "%topology": _topology,
}
