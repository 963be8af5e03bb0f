"""The cluster as the original's messages spell it: `ClusterDef`, `JobDef`, their text.

Pure: no I/O and no protobuf. The text form is that of protobuf's printer, so it can be
exchanged with programs of the original in both directions:

    job {
      name: "worker"
      tasks {
        key: 0
        value: "10.0.0.7:2222"
      }
    }

The binary form is not offered; between our own processes a cluster travels as JSON.
Plain mistakes are `TypeError` and `ValueError`, as in the original, and not `KitError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_INT32 = range(-(2**31), 2**31)


def as_text(value: object, what: str) -> str:
    """Return a str or UTF-8 bytes as str; `what` names the value in the error.

    Raises `TypeError` for other types, `ValueError` for bytes that are not UTF-8.

    >>> as_text(b"worker", "a job name")
    'worker'
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, bytes):
        raise TypeError(
            f"{what} must be a str (or UTF-8 bytes), not {value!r} of type "
            f"{type(value).__name__}."
        )
    try:
        return value.decode()
    except UnicodeDecodeError as exc:
        raise ValueError(f"{what} must be UTF-8; {value!r} is not: {exc}.") from exc


@dataclass
class JobDef:
    """One job: its name, and the address of each task by task index.

    Bytes become str. Raises `TypeError` for other types and `ValueError` for an index
    that does not fit 32 bits. `tasks` is copied. Later changes are not checked.

    >>> JobDef("ps", {0: "a:1"}).tasks[0]
    'a:1'
    """

    name: str = ""
    tasks: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = as_text(self.name, "the name of a job")
        what = f"an address in job {self.name!r}"
        self.tasks = {
            _checked_index(index, self.name): as_text(address, what)
            for index, address in self.tasks.items()
        }

    def __str__(self) -> str:
        return "".join(_job_lines(self, indent=""))


class Jobs(list[JobDef]):
    """The jobs of a `ClusterDef`: a list that can also make its next element."""

    def add(self, name: str = "", tasks: Mapping[int, str] | None = None) -> JobDef:
        """Append a new job and return it.

        >>> ClusterDef().job.add("ps", {0: "a:1"})
        JobDef(name='ps', tasks={0: 'a:1'})
        """
        self.append(JobDef(name, dict(tasks or {})))
        return self[-1]


class ClusterDef:
    """A cluster: a list of jobs, in the order in which they were given.

    Equal to another one with equal jobs in equal order; mutable, so without a hash.
    `str()` is the text form: jobs in their own order, the tasks of each by ascending
    index. Raises `TypeError` for anything that is not a `JobDef`.

    >>> print(ClusterDef([JobDef("ps", {0: "a:1"})]), end="")
    job {
      name: "ps"
      tasks {
        key: 0
        value: "a:1"
      }
    }
    """

    def __init__(self, job: Iterable[JobDef] = ()) -> None:
        self.job = Jobs(job)
        for one in self.job:
            if not isinstance(one, JobDef):
                raise TypeError(f"a ClusterDef holds JobDefs, not {one!r}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterDef):
            return NotImplemented
        return self.job == other.job

    def __repr__(self) -> str:
        return f"ClusterDef({list(self.job)!r})"

    def __str__(self) -> str:
        return "".join(
            line
            for job in self.job
            for line in ("job {\n", *_job_lines(job, indent="  "), "}\n")
        )

    @classmethod
    def from_text(cls, text: str) -> ClusterDef:
        """Read the text form, in any layout and with `#` comments.

        A task without `key` has index 0 (older printers leave zeros out); of two tasks
        with one index the later counts. Numbers are decimal. Raises `ValueError` with
        the line number for anything else.

        >>> ClusterDef.from_text('job { name: "ps" tasks { value: "a:1" } }')
        ClusterDef([JobDef(name='ps', tasks={0: 'a:1'})])
        """
        if not isinstance(text, str):
            raise TypeError(f"the text of a ClusterDef is a str, not {text!r}.")
        tokens = _Tokens(text)
        jobs = Jobs()
        while tokens.next.kind != "end":
            tokens.field("job")
            jobs.append(_read_job(tokens))
            tokens.skip(",;")
        return cls(jobs)


def _checked_index(index: object, job: str) -> int:
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"a task index in job {job!r} must be an int, not {index!r}.")
    if index not in _INT32:
        raise ValueError(f"task index {index} in job {job!r} does not fit 32 bits.")
    return int(index)


_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", '"': '"', "'": "'", "\\": "\\"}


def _job_lines(job: JobDef, indent: str) -> Iterator[str]:
    if job.name:
        yield f"{indent}name: {_quoted(job.name)}\n"
    for index, address in sorted(job.tasks.items()):
        yield f"{indent}tasks {{\n{indent}  key: {index}\n"
        yield f"{indent}  value: {_quoted(address)}\n{indent}}}\n"


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return "\\" + _ESCAPES[letter]
    if letter < " " or letter == "\x7f":
        return f"\\{ord(letter):03o}"
    return letter


_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>-?(?:0|[1-9]\d*)(?![\w.]))
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark>[{}<>:;,])""",
    re.VERBOSE | re.ASCII,
)
# Escapes count bytes of UTF-8, not letters: other printers write "\303\251" for "é".
_BYTE = re.compile(rb"\\(?:([0-3]?[0-7]{1,2})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_LETTERS = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _scan(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].split("\n", 1)[0]
            raise ValueError(f"line {line}: no field of a ClusterDef reads {rest!r}.")
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match.group(), line)
        line += match.group().count("\n")
        at = match.end()
    yield _Token("end", "", line)


class _Tokens:
    """The tokens of a text, taken one after the other."""

    def __init__(self, text: str) -> None:
        self._rest = _scan(text)
        self.next = next(self._rest)

    def fail(self, wanted: str) -> ValueError:
        found = repr(self.next.text) if self.next.text else "the end of the text"
        return ValueError(f"line {self.next.line}: expected {wanted}, found {found}.")

    def take(self, kind: str, wanted: str) -> str:
        if self.next.kind != kind:
            raise self.fail(wanted)
        taken, self.next = self.next, next(self._rest)
        return taken.text

    def skip(self, marks: str) -> bool:
        found = self.next.kind == "mark" and self.next.text in marks
        if found:
            self.next = next(self._rest)
        return found

    def field(self, *known: str) -> str:
        if self.next.text not in known:
            raise self.fail(" or ".join(known))
        return self.take("word", " or ".join(known))

    def block(self, *once: str, repeated: tuple[str, ...] = ()) -> Iterator[str]:
        """Yield the name of each field of a block; the caller takes its value."""
        self.skip(":")
        closing = ">" if self.next.text == "<" else "}"
        if not self.skip("{<"):
            raise self.fail("'{'")
        awaited = [*once, *repeated]
        while not self.skip(closing):
            name = self.field(*awaited, closing)
            if name in once:
                awaited.remove(name)
            yield name
            self.skip(",;")

    def number(self) -> int:
        self.colon()
        return int(self.take("number", "a decimal number"))

    def string(self) -> str:
        self.colon()
        what = f"the string on line {self.next.line}"
        parts = [self.take("string", "a quoted string")]
        while self.next.kind == "string":  # neighbours are one string, as in C
            parts.append(self.take("string", "a quoted string"))
        raw = b"".join(_BYTE.sub(_unescaped, part[1:-1].encode()) for part in parts)
        return as_text(raw, what)

    def colon(self) -> None:
        if not self.skip(":"):
            raise self.fail("':'")


def _unescaped(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal or hexadecimal:
        return bytes([int(octal, 8) if octal else int(hexadecimal, 16)])
    if letter[0] not in _LETTERS:
        raise ValueError(f"{match[0].decode(errors='replace')!r} is not an escape.")
    return bytes([_LETTERS[letter[0]]])


def _read_job(tokens: _Tokens) -> JobDef:
    job = JobDef()
    for name in tokens.block("name", repeated=("tasks",)):
        if name == "name":
            job.name = tokens.string()
        else:
            index, address = _read_task(tokens)
            job.tasks[_checked_index(index, job.name)] = address
    return job


def _read_task(tokens: _Tokens) -> tuple[int, str]:
    index, address = 0, ""
    for name in tokens.block("key", "value"):
        if name == "key":
            index = tokens.number()
        else:
            address = tokens.string()
    return index, address
