"""Which task this process is, according to its environment variables.

Pure: the variables are passed in, and nothing is opened.

    TF_CONFIG   {"cluster": {"ps": ["a:2222"], "worker": {"1": "c:2222"}},
                 "task": {"type": "worker", "index": 1}}
    Slurm       SLURM_PROCID=1  SLURM_NTASKS=3
                SLURM_STEP_NODELIST=n[01-02]  SLURM_STEP_TASKS_PER_NODE=2,1

TF_CONFIG is read first, as it says everything. Kubeflow's TFJob and Vertex AI write it.
Slurm says which task this is and where all of them run, but not their jobs and ports:
the first tasks of a step are the parameter servers, and each task listens at the base
port plus its number on its node.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kit.errors import InvalidArgumentError, NotFoundError
from kit.spec import ClusterSpec
from kit.wire.listening.address import parse_address

_EVALUATOR = "evaluator"
# One entry of a node list: commas separate entries, except within brackets.
_NODES = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_COUNT = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?", re.ASCII)
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)
_MOST = 100_000  # nodes or tasks: a typing mistake must not fill the memory


class FoundTask(NamedTuple):
    """A cluster and the task in it that this process is."""

    cluster: ClusterSpec
    job_name: str
    task_index: int


def task_from_environment(
    environment: Mapping[str, str], *, ps: int = 1, port: int = 2222
) -> FoundTask:
    """Return the cluster and the task that TF_CONFIG names, else those of a Slurm step.

    `ps` and `port` are for Slurm: how many of the first tasks are parameter servers,
    and the port of the first task of each node.
    Raises `NotFoundError` if neither is set, and `InvalidArgumentError`, naming the
    variable, its value and what is expected.

    >>> task_from_environment(
    ...     {"SLURM_PROCID": "1", "SLURM_NTASKS": "3",
    ...      "SLURM_STEP_NODELIST": "n[01-02]", "SLURM_STEP_TASKS_PER_NODE": "2,1"}
    ... ).cluster
    ClusterSpec({'ps': ['n01:2222'], 'worker': ['n01:2223', 'n02:2222']})
    """
    if environment.get("TF_CONFIG"):
        return _of_tf_config(environment["TF_CONFIG"])
    if environment.get("SLURM_PROCID"):
        return _of_slurm(environment, ps, port)
    raise NotFoundError(
        "the environment names no task: neither TF_CONFIG nor SLURM_PROCID is set. "
        "Start this with srun or as a TFJob, or with mpiexec and KIT_TRANSPORT=mpi, or "
        "say which cluster and task is meant."
    )


def _of_tf_config(text: str) -> FoundTask:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise _wrong("TF_CONFIG", text, "a JSON object with 'cluster' and 'task'")
    task, jobs = config.get("task"), config.get("cluster")
    if not isinstance(task, dict) or not isinstance(task.get("type"), str):
        raise _wrong(
            "TF_CONFIG", text, "a task such as {'type': 'worker', 'index': 0} in 'task'"
        )
    job = task["type"]
    if job == _EVALUATOR:
        raise InvalidArgumentError(
            "TF_CONFIG makes this process an evaluator, which is not a task of the "
            "cluster. Evaluate in a program without a server that reads the "
            "training's checkpoints with kit.load_checkpoint, or leave the evaluator "
            "out of the job."
        )
    if not isinstance(jobs, dict) or not jobs:
        raise _wrong("TF_CONFIG", text, "the jobs with their addresses in 'cluster'")
    tasks = {
        str(name): _addresses(name, jobs[name], text)
        for name in jobs
        if name != _EVALUATOR
    }
    index = _index(task.get("index", 0))
    if index is None or index not in tasks.get(job, {}):
        names = ", ".join(f"{item} {sorted(tasks[item])}" for item in tasks)
        raise _wrong(
            "TF_CONFIG", text, f"in 'task' the type and index of one of {names}"
        )
    return FoundTask(ClusterSpec(tasks), job, index)


def _addresses(job: str, value: Any, text: str) -> dict[int, str]:
    """Return a job's addresses by index; a sparse job is an object with its indices."""
    if not isinstance(value, list | dict):
        raise _wrong(
            "TF_CONFIG", text, f"for job {job!r} a list, or an object by index"
        )
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    addresses: dict[int, str] = {}
    for key, address in pairs:
        index = _index(key)
        if index is None or index in addresses or not _is_address(address):
            raise _wrong(
                "TF_CONFIG",
                text,
                f"for job {job!r} addresses 'host:port', each by an index of its own; "
                f"{key!r} has {address!r}",
            )
        addresses[index] = address
    return addresses


def _index(value: object) -> int | None:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


def _is_address(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(parse_address(value))
    except InvalidArgumentError:
        return False


def _of_slurm(environment: Mapping[str, str], ps: int, port: int) -> FoundTask:
    # A step may have fewer tasks than its job, whose number SLURM_NTASKS may be.
    total = "SLURM_STEP_NUM_TASKS"
    total = total if environment.get(total) else "SLURM_NTASKS"
    n_tasks, rank = _number(environment, total), _number(environment, "SLURM_PROCID")
    if rank >= n_tasks:
        raise _wrong("SLURM_PROCID", str(rank), f"a number below {total}={n_tasks}")
    if ps < 0:
        raise InvalidArgumentError(f"ps is {ps}; give how many tasks, 0 or more.")
    if ps >= n_tasks:
        raise _wrong(
            total, str(n_tasks), f"more tasks than ps={ps}, as one at least computes"
        )
    places = _places(environment, n_tasks, total)
    _check_node(environment, rank, [node for node, _ in places])
    addresses = [f"{node}:{port + local}" for node, local in places]
    for address in addresses:
        parse_address(address)  # a port may be out of range
    jobs = {"ps": addresses[:ps], "worker": addresses[ps:]}
    job, index = ("ps", rank) if rank < ps else ("worker", rank - ps)
    return FoundTask(
        ClusterSpec({name: jobs[name] for name in jobs if jobs[name]}), job, index
    )


def _places(
    environment: Mapping[str, str], n_tasks: int, total: str
) -> list[tuple[str, int]]:
    """Return each task's node and number there: node by node, as srun places them."""
    nodes = list(
        itertools.islice(_expanded(_text(environment, "SLURM_STEP_NODELIST")), _MOST)
    )
    name = "SLURM_STEP_TASKS_PER_NODE"
    counts = list(itertools.islice(_counts(_text(environment, name)), _MOST))
    if len(counts) != len(nodes) or sum(counts) != n_tasks:
        raise _wrong(
            name,
            environment[name],
            f"{n_tasks} tasks ({total}) on {len(nodes)} nodes (SLURM_STEP_NODELIST)",
        )
    return [
        (node, local)
        for node, count in zip(nodes, counts, strict=True)
        for local in range(count)
    ]


def _check_node(environment: Mapping[str, str], rank: int, nodes: list[str]) -> None:
    """Refuse a step whose tasks were not placed node by node, if Slurm tells.

    Every task would have the wrong addresses, and none could say why.
    """
    if not environment.get("SLURM_NODEID"):
        return
    expected = list(dict.fromkeys(nodes)).index(nodes[rank])
    if _number(environment, "SLURM_NODEID") != expected:
        raise _wrong(
            "SLURM_NODEID",
            environment["SLURM_NODEID"],
            f"{expected} ({nodes[rank]}) for task {rank}; start the step with 'srun "
            f"--distribution=block'",
        )


def _expanded(text: str) -> Iterator[str]:
    """Yield the nodes of a list such as `gpu7,node[01-03,7]`."""
    parts = _NODES.findall(text)
    if ",".join(parts) != text:
        raise _wrong_nodes(text)
    for part in parts:
        # name, inside of brackets, name, inside of brackets, ..., name
        pieces = _BRACKETS.split(part)
        for numbers in itertools.product(
            *(_numbers(inside, text) for inside in pieces[1::2])
        ):
            rest = zip(numbers, pieces[2::2], strict=True)
            yield pieces[0] + "".join(number + name for number, name in rest)


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise _wrong_nodes(text)
        low, high = int(match[1]), int(match[2] or match[1])
        if not low <= high < low + _MOST:
            raise _wrong_nodes(text)
        numbers += [str(n).zfill(len(match[1])) for n in range(low, high + 1)]
    return numbers


def _counts(text: str) -> Iterator[int]:
    """Yield how many tasks each node has, of a text such as `2(x3),1`."""
    for part in text.split(","):
        match = _COUNT.fullmatch(part)
        if match is None or int(match[1]) > _MOST:
            raise _wrong(
                "SLURM_STEP_TASKS_PER_NODE",
                text,
                "counts such as '2(x3),1' for 2,2,2,1",
            )
        yield from itertools.repeat(int(match[1]), int(match[2] or 1))


def _number(environment: Mapping[str, str], name: str) -> int:
    text = _text(environment, name)
    if not _WHOLE.fullmatch(text) or int(text) > _MOST:
        raise _wrong(name, text, f"a whole number up to {_MOST}")
    return int(text)


def _text(environment: Mapping[str, str], name: str) -> str:
    text = environment.get(name, "")
    if not text:
        raise InvalidArgumentError(
            f"SLURM_PROCID is set, and {name} is not: a task of a Slurm step has both. "
            f"Start it with srun."
        )
    return text


def _wrong_nodes(text: str) -> InvalidArgumentError:
    return _wrong(
        "SLURM_STEP_NODELIST", text, "names of nodes such as 'gpu7,node[01-03,7]'"
    )


def _wrong(name: str, value: str, expected: str) -> InvalidArgumentError:
    shown = value if len(value) <= 400 else f"{value[:400]}..."
    return InvalidArgumentError(f"{name} is {shown!r}; expected {expected}.")
