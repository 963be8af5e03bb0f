"""The cluster as TensorFlow's messages: `ClusterDef`, `JobDef`, and their text form.

Pure: no I/O and no protobuf. The text form is that of protobuf's printer, so it can be
exchanged with TensorFlow programs in both directions:

    job {
      name: "worker"
      tasks {
        key: 0
        value: "10.0.0.7:2222"
      }
    }

There is no binary form; between our own processes a cluster travels as JSON. Wrong
arguments are a `TypeError` or `ValueError`, as in TensorFlow, and not a `KitError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kit.protobuf_text import TextReader, quoted

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
    """The jobs of a `ClusterDef`: a list with an `add` that makes the new element."""

    def add(self, name: str = "", tasks: Mapping[int, str] | None = None) -> JobDef:
        """Append a new job and return it.

        >>> ClusterDef().job.add("ps", {0: "a:1"})
        JobDef(name='ps', tasks={0: 'a:1'})
        """
        self.append(JobDef(name, dict(tasks or {})))
        return self[-1]


class ClusterDef:
    """A cluster: a list of jobs, in the given order.

    Equal to another one with equal jobs in the same order; mutable, so not hashable.
    `str()` is the text form: jobs in their order, the tasks of each by ascending index.
    Raises `TypeError` for anything that is not a `JobDef`.

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
        for entry in self.job:
            if not isinstance(entry, JobDef):
                raise TypeError(f"a ClusterDef holds JobDefs, not {entry!r}.")

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

        A task without `key` has index 0 (older printers omit zeros); of two tasks with
        the same index the later one counts. Numbers are decimal. Raises `ValueError`
        with the line number for anything else.

        >>> ClusterDef.from_text('job { name: "ps" tasks { value: "a:1" } }')
        ClusterDef([JobDef(name='ps', tasks={0: 'a:1'})])
        """
        if not isinstance(text, str):
            raise TypeError(f"the text of a ClusterDef is a str, not {text!r}.")
        reader = TextReader(text, "a ClusterDef")
        jobs = Jobs()
        while not reader.is_at_end:
            reader.field("job")
            jobs.append(_read_job(reader))
            reader.skip(",;")
        return cls(jobs)


def _checked_index(index: object, job: str) -> int:
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"a task index in job {job!r} must be an int, not {index!r}.")
    if index not in _INT32:
        raise ValueError(f"task index {index} in job {job!r} does not fit 32 bits.")
    return int(index)


def _job_lines(job: JobDef, indent: str) -> Iterator[str]:
    if job.name:
        yield f"{indent}name: {quoted(job.name)}\n"
    for index, address in sorted(job.tasks.items()):
        yield f"{indent}tasks {{\n{indent}  key: {index}\n"
        yield f"{indent}  value: {quoted(address)}\n{indent}}}\n"


def _read_job(reader: TextReader) -> JobDef:
    job = JobDef()
    for name in reader.block("name", repeated=("tasks",)):
        if name == "name":
            reader.colon()
            job.name = reader.string()
        else:
            index, address = _read_task(reader)
            job.tasks[_checked_index(index, job.name)] = address
    return job


def _read_task(reader: TextReader) -> tuple[int, str]:
    index, address = 0, ""
    for name in reader.block("key", "value"):
        reader.colon()
        if name == "key":
            index = reader.integer()
        else:
            address = reader.string()
    return index, address
