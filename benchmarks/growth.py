"""Seconds, bytes, threads and descriptors of a training, by number of tasks.

    python -m benchmarks.growth [--quick] [--json FILE] [--tasks N]... [--topology NAME]

Each size is a new process: it starts a `kit.Cluster` on this machine and begins a
training of 8 KiB of parameters with 2 MiB of data. *Ready* is the time of the start,
*first step* that from the call of `kit.train` until the notebook sees step 1.

Bytes are those of

* the step function and the data, pickled: *held* in memory once for all tasks of a
  host, by the size of that file; to each other host they are sent once;
* what the notebook *sent* until `kit.train` returned: what the kernel counted on its
  TCP connections (those of ipyparallel) and what was written to its own links;
* the *gradients* and parameters of a step, of all tasks together as they counted them,
  and by the topology's formula; another number than that ends the benchmark;
* the *news* that the notebook's own links read, over two seconds.

Threads and descriptors are read from /proc after that. The last row is computed for
1,000 tasks: seconds, threads and descriptors on the straight line nearest to all sizes;
what is sent and the news of a step on that of their bytes for each task, since each of
n tasks is told of all n, and on a ring has messages of all n; gradients by formula.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.rank_group import ROOT, RanksFailed
from benchmarks.results import Table, arguments, report
from kit.exchange.layout import lay_out, specs_of
from kit.exchange.plan import Group
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import by_name

if TYPE_CHECKING:
    import kit

SIZES, QUICK_SIZES = (8, 16, 32, 64), (2, 4)
FAR, _LEAST_FOR_A_LINE = 1000, 32  # below, a line is one through noise
_EXAMPLES, _INPUTS, _OUTPUTS, _STEPS = 4096, 64, 16, 1_000_000
PARAMS = {"w": np.zeros((_INPUTS, _OUTPUTS))}
_LIMIT_S, _NEWS_S = 300.0, 2.0
_KIB, _MIB = 1 << 10, 1 << 20
WHERE = ("notebook", "controller", "leader", "task")
SECONDS = ("ready_s", "first_s", "stop_s")
Found = dict[str, Any]  # the figures of one size; bytes where nothing else is said


# --------------------------------------------------------------------------------------
# What is counted in this process.


def held(pid: int) -> dict[str, int]:
    """Return the threads and descriptors of a process."""
    base = Path(f"/proc/{pid}")
    threads = len(list((base / "task").iterdir()))
    return {"threads": threads, "descriptors": len(list((base / "fd").iterdir()))}


def tcp_sent() -> Counter[str]:
    """Return the bytes that this process has sent over each of its TCP connections.

    As the kernel counts them: those that the other side has acknowledged.
    """
    from benchmarks.kernel_count import kernel_count

    result = Counter[str]()
    for path in Path("/proc/self/fd").iterdir():
        # What the listing itself had open is gone, and not every socket is of TCP.
        with suppress(OSError):
            name, number = str(path.readlink()), int(path.name)
            if name.startswith("socket:"):
                stream: Any = SimpleNamespace(kind="tcp", fileno=lambda n=number: n)
                result[name] = kernel_count(stream).acked
    return result


def count_links() -> Counter[str]:
    """Count the bytes "in" and "out" of all links of this process, from now on."""
    from kit.wire.sockets import SocketStream

    counts, guard = Counter[str](), threading.Lock()

    def count(name: str, way: str) -> None:
        plain = getattr(SocketStream, name)

        def counted(self: SocketStream, inputs: Any) -> int | None:
            n_bytes: int | None = plain(self, inputs)
            with guard:
                counts[way] += n_bytes or 0
            return n_bytes

        setattr(SocketStream, name, counted)

    ways = {"in": ("read_into", "read_waiting"), "out": ("write", "write_waiting")}
    for way, names in ways.items():
        for name in names:
            count(name, way)
    return counts


def count_holding() -> list[int]:
    """Note the bytes of each file in memory that holds a step function and its data."""
    from kit.cluster.training_start import MappedPickle, Pickled

    sizes, plain = list[int](), Pickled.hold

    def hold(self: Pickled) -> tuple[ExitStack, MappedPickle]:
        holder, mapped = plain(self)
        sizes.append(Path(mapped.path).stat().st_size)
        return holder, mapped

    setattr(Pickled, "hold", hold)  # noqa: B010 - mypy takes no method for assigned
    return sizes


# --------------------------------------------------------------------------------------
# One size.


def _step(params: dict[str, Any], batch: tuple[Any, Any]) -> tuple[float, Any]:
    x, y = batch
    error = x @ params["w"] - y
    return float((error**2).mean()), {"w": 2 * x.T @ error / error.size}


def measure_here(n_tasks: int, topology: str) -> Found:
    """Start a cluster of so many tasks here, train a little, and say what it took."""
    import kit

    servers = _servers(topology)
    data = np.ones((_EXAMPLES, _INPUTS)), np.ones((_EXAMPLES, 1))
    holding, links = count_holding(), count_links()
    begin = time.monotonic()
    with kit.Cluster(ps=servers, worker=n_tasks - servers) as cluster:
        result: Found = {"ready_s": time.monotonic() - begin}
        sent = tcp_sent()
        links.clear()
        begin = time.monotonic()
        run = kit.train(
            _step,
            PARAMS,
            data,
            steps=_STEPS,
            batch=4 * n_tasks,
            topology=topology,
            cluster=cluster,
        )
        result["sent"] = (tcp_sent() - sent).total() + links["out"]
        while run.step < 1 and not run.done:
            time.sleep(0.005)
        result["first_s"] = time.monotonic() - begin
        pids = [item.pid or 0 for item in cluster.status]
        lead = run.job.coordinator
        numbers = (os.getpid(), cluster.controller_pid, pids[lead], pids[-1])
        result |= _news(run, links)
        result |= {name: held(pid) for name, pid in zip(WHERE, numbers, strict=True)}
        run.stop()
        result |= gradients_of(run.wait(60))
        begin = time.monotonic()
    result["stop_s"] = time.monotonic() - begin
    return result | {"held": sum(holding), "times_held": len(holding)}


def _news(run: kit.Run, links: Counter[str]) -> Found:
    """Return steps and bytes of news a second, and such bytes for each step."""
    begin, step, came = time.monotonic(), run.step, links["in"]
    time.sleep(_NEWS_S)
    seconds, steps = time.monotonic() - begin, run.step - step
    n_bytes = links["in"] - came
    return {
        "steps_a_second": steps / seconds,
        "news_a_step": n_bytes / steps if steps else float("nan"),
        "news_a_second": n_bytes / seconds,
    }


def gradients_of(run: kit.Run) -> Found:
    """Return the bytes of a step, all tasks' and most of one; else `RanksFailed`."""
    wrong = [entry for entry in run.traffic if not entry.agrees]
    if wrong:
        raise RanksFailed(f"what the steps moved is not by formula: {wrong[0]}")
    each = [entry.received / max(1, entry.steps) for entry in run.traffic]
    return {"gradients": sum(each), "gradients_of_one": max(each)}


def _servers(topology: str) -> int:
    return 1 if by_name(topology).needs_ps else 0


def measure(n_tasks: int, topology: str) -> Found:
    """Measure in a new process; raises `RanksFailed` when it fails."""
    command = [sys.executable, "-m", "benchmarks.growth", "--single"]
    command += ["--tasks", str(n_tasks), "--topology", topology]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S
    )
    if done.returncode:
        raise RanksFailed(f"{n_tasks} tasks: {done.stderr[-2000:]}")
    result: Found = json.loads(done.stdout.splitlines()[-1])
    return result


# --------------------------------------------------------------------------------------
# What is computed.


def formula(topology: str, n_tasks: int) -> Found:
    """Return the bytes that a step moves by the topology's formula.

    `gradients` are those of all tasks together, `gradients_of_one` what the task
    receives that receives most.

    >>> formula("ring", 64) == {
    ...     "gradients": 2 * 63 * 8192, "gradients_of_one": 2 * 63 * 128}
    True
    """
    n_ps = _servers(topology)
    workers = tuple(range(n_ps, n_tasks))
    layout = lay_out(specs_of(PARAMS), len(workers))
    group = Group(tuple(range(n_ps)), workers, shards_of(layout, n_ps))
    moved = by_name(topology).traffic(layout, group)
    received = Counter[int]()
    for (_, target, _), size in moved.items():
        received[target] += size
    return {
        "gradients": received.total(),
        "gradients_of_one": max(received.values(), default=0),
    }


def line(xs: Sequence[float], ys: Sequence[float], at: float) -> float:
    """Return the height at `at` of the straight line nearest to points.

    Nearest by least squares; of two points, the one through both.

    >>> round(line([16, 32], [2.0, 4.0], 64), 9)
    8.0
    """
    slope, height = np.polyfit(xs, ys, 1)
    return float(slope * at + height)


def computed(results: Mapping[int, Found], at: int, topology: str) -> Found:
    """Return the figures of so many tasks, from those of the sizes; see above.

    None is below that of the largest size, where noise would have a line fall.
    The news of a second are those of one step, since what such a machine could do in a
    second is not known.
    """
    every = list(results.values())

    def far(ys: Iterable[float]) -> float:
        ys = list(ys)
        return max(ys[-1], line(list(results), ys, at))

    made: Found = {name: far(row[name] for row in every) for name in SECONDS}
    for name in WHERE:
        made[name] = {
            what: far(row[name][what] for row in every) for what in every[0][name]
        }
    for name in ("sent", "news_a_step"):
        made[name] = at * far(row[name] / n for n, row in results.items())
    made |= {"steps_a_second": 1.0, "news_a_second": made["news_a_step"]}
    return made | formula(topology, at) | {"held": every[-1]["held"]}


# --------------------------------------------------------------------------------------
# The table.

_HEADS = (
    *("tasks", "ready s", "first step s", "stop s", "held MiB", "sent KiB"),
    *("gradients KiB a step", "by formula", "of one task"),
    *("steps/s", "news KiB a step", "news KiB/s"),
    *(f"{what}: {', '.join(WHERE)}" for what in ("threads", "descriptors")),
)


def _row(name: str, row: Found, said: Found) -> tuple[str, ...]:
    gradients = (row["gradients"], said["gradients"], row["gradients_of_one"])
    return (
        name,
        *(f"{row[what]:.2f}" for what in SECONDS),
        f"{row['held'] / _MIB:.2f}",
        f"{row['sent'] / _KIB:,.0f}",
        *(f"{size / _KIB:,.1f}" for size in gradients),
        f"{row['steps_a_second']:.1f}",
        *(f"{row[f'news_a_{what}'] / _KIB:,.0f}" for what in ("step", "second")),
        *(
            ", ".join(f"{row[where][what]:,.0f}" for where in WHERE)
            for what in ("threads", "descriptors")
        ),
    )


def table(results: Mapping[int, Found], topology: str) -> Table:
    """Return the table of all sizes, with a computed row if they are large enough."""
    rows = [_row(str(n), item, formula(topology, n)) for n, item in results.items()]
    notes = [
        "Ready: the start; first step: from kit.train to step 1 in the notebook. Held: "
        "step function and data, in memory once for the host. Sent: by the notebook "
        "until kit.train returned. Gradients: all tasks together, and the task that "
        "receives most. News: what the notebook's links read."
    ]
    if len(results) > 1 and max(results) >= _LEAST_FOR_A_LINE:
        far = computed(results, FAR, topology)
        rows.append(_row(f"{FAR:,} (computed)", far, formula(topology, FAR)))
        notes.append(
            f"For {FAR:,} tasks: seconds, threads and descriptors on the straight line "
            "nearest to all sizes; sent and the news of a step on that of their "
            "bytes for each task; gradients by formula; news of one step a second."
        )
    title = f"Growth of a cluster and its training, {topology}"
    return Table(title, tuple(notes), _HEADS, tuple(rows))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--tasks", type=int, nargs="+")
    parser.add_argument("--topology", default="ring")
    parser.add_argument("--single", action="store_true", help="print one's figures")
    options = parser.parse_args()
    sizes = options.tasks or list(QUICK_SIZES if options.quick else SIZES)
    if options.single:
        print(json.dumps(measure_here(sizes[0], options.topology)))
        return
    result = {n_tasks: measure(n_tasks, options.topology) for n_tasks in sizes}
    report(table(result, options.topology), {"growth": result}, options.json)


if __name__ == "__main__":
    main()
