"""What Tab offers: flags, words, tasks and topologies of our magics, and devices.

One matcher for IPython's completer. It looks at the line up to the cursor and answers
nothing at all where it has nothing to offer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from kit.exchange.topologies import topology
from kit.magics import running
from kit.magics.cluster_magics import WORDS
from kit.magics.on_magics import OnMagics
from kit.magics.options import flags
from kit.magics.start_magics import StartMagics
from kit.task import Task

_MAGIC = re.compile(r"\s*(?P<name>%{1,2}\w+)\s+(?P<words>.*)$")
_DEVICE = re.compile(r"\bdevice\(\s*[rbu]?(?P<quote>['\"])(?P<text>[^'\"\n]*)$")
_KINDS = ("cpu:0", "gpu:0")
_TRANSPORTS = ("auto", "unix", "tcp")
_LINKS = ("100mbit", "1gbit", "10gbit", "1gbit,5ms")


class Completion:
    """Holds `match`, a matcher for IPython."""

    @context_matcher(identifier="kit", priority=100)  # type: ignore[untyped-decorator]
    def match(self, context: CompletionContext) -> SimpleMatcherResult:
        """Return what may stand at the cursor, and which text it replaces."""
        line = context.text_until_cursor.rsplit("\n", 1)[-1]
        cluster = running.find()
        fragment, offers = offered(line, cluster.tasks if cluster else ())
        found = [offer for offer in offers if offer.startswith(fragment)]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(text, type="param") for text in found],
            matched_fragment=fragment,
            suppress=bool(found),
            ordered=True,
        )


def offered(line: str, tasks: Sequence[Task]) -> tuple[str, list[str]]:
    """Return the word before the cursor, and all words that could stand there.

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
    offers = _TABLE[magic["name"]]([one for one in before if one], word, tasks)
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


def _start(before: Sequence[str], word: str, _: Sequence[Task]) -> Iterable[str]:
    last = before[-1] if before else ""
    if last == "--transport":
        return _TRANSPORTS
    if last == "--link":
        return _LINKS
    return [flag for flag in flags(StartMagics.cluster) if flag not in before]


def _look_after(
    before: Sequence[str], word: str, tasks: Sequence[Task]
) -> Iterable[str]:
    if word.startswith("-") or (before and before[0].startswith("-")):
        return _start(before, word, tasks)
    if not before:
        return WORDS
    return _named(tasks) if before[0] in ("restart", "logs") else ()


def _on(before: Sequence[str], word: str, tasks: Sequence[Task]) -> Iterable[str]:
    return flags(OnMagics.on) if word.startswith("-") else _named(tasks)


def _topology(before: Sequence[str], word: str, _: Sequence[Task]) -> Iterable[str]:
    return () if before else topology.names()


_TABLE: dict[str, Callable[[Sequence[str], str, Sequence[Task]], Iterable[str]]] = {
    "%%cluster": _start,
    "%cluster": _look_after,
    "%%on": _on,
    "%topology": _topology,
}
