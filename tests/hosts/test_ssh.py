"""A cluster whose tasks are on two hosts, brought there by ssh."""

from __future__ import annotations

import gc
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import permutations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import psutil
import pytest

import kit
from kit.checkpoint.files import Files
from kit.cluster.processes import host_calls
from kit.errors import AuthenticationFailed
from kit.testing.task_process import until
from kit.wire.handshake.credentials import Credentials
from tests.cluster.engine_training import assert_replayed, begin
from tests.cluster.hub import define, forget_topologies, titles
from tests.hosts import uses
from tests.hosts.two_hosts import TwoHosts
from widgets import TrafficBoard

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    pytest.mark.timeout(300),  # ssh is slow on a busy machine
]


def launcher(hosts: TwoHosts, *, slots: int = 2, **changes: Any) -> kit.launchers.SSH:
    options = {"ssh_args": hosts.ssh_args, "python": hosts.python} | changes
    return kit.launchers.SSH(dict.fromkeys(hosts.address.values(), slots), **options)


@pytest.fixture(scope="module")
def cluster(hosts: TwoHosts) -> Iterator[kit.Cluster]:
    """Server and first worker on one host, the other workers on the other one."""
    with kit.Cluster(ps=1, worker=3, launcher=launcher(hosts)) as running:
        yield running


@pytest.fixture(scope="module")
def other(hosts: TwoHosts) -> Iterator[kit.Cluster]:
    """A second cluster from the same folder, with a task on each host; insecure."""
    far = launcher(hosts, slots=1)
    with kit.Cluster(ps=0, worker=2, launcher=far, insecure=True) as running:
        yield running


def folder_of(cluster: kit.Cluster) -> Path:
    """Return the cluster's folder here; those on the hosts begin with its name."""
    there = Path(cluster.log_path("worker:0")).parents[1]
    return there.with_name(there.name.rsplit("-10-", 1)[0])


def left_of(folder: Path, hosts: TwoHosts) -> list[object]:
    """Return what is there of a cluster: processes anywhere, folders."""
    return [*hosts.processes(folder.name), *Path("/tmp").glob(f"{folder.name}*")]


@pytest.mark.lasting("process", "descriptor")  # the task has a new process
def test_cluster_over_ssh_is_used_as_one_of_this_machine(cluster: kit.Cluster) -> None:
    uses.use(cluster)
    uses.lose(cluster)


def test_times_of_tasks_whose_clocks_differ_are_told_by_the_notebooks(
    cluster: kit.Cluster,
) -> None:
    clocks = cluster.call("worker", time.monotonic)
    assert clocks[0] - clocks[1] > 3000  # two hosts, booted at different times
    before = time.monotonic_ns()

    training = begin(cluster, steps=60, checkpoint=f"/run/timed-{os.getpid()}").wait(60)

    slack, after = 50_000_000, time.monotonic_ns()  # of an answer that was on its way
    trace = training.trace
    times = [trace.steps, trace.spans, trace.transfers]
    lines = [
        *(int(rows[name].min()) for rows in times for name in ("start", "end")),
        *(int(rows[name].max()) for rows in times for name in ("start", "end")),
        *(row.at for row in trace.epochs),
        *(row.begin for row in trace.saves),
    ]
    assert min(lines) > before - slack
    assert max(lines) < after + slack


def note_files() -> None:
    """Have a task note the files that it makes for checkpoints itself."""
    real, made = Files.create, vars(sys.modules[__name__]).setdefault("made", [])

    def create(files: Files, path: Path) -> int:
        made.append(path.name)
        return real(files, path)

    Files.create = create  # type: ignore[assignment, method-assign]


def files_made() -> list[str]:
    """Return the shards that a task has made, and begin a new list."""
    made = vars(sys.modules[__name__])["made"]
    result = sorted(name for name in made if name.endswith(".safetensors"))
    made.clear()
    return result


def saved(cluster: kit.Cluster, folder: Path) -> dict[str, list[str]]:
    """Save a training and go on with it; return which task made which shards."""
    tasks = [task.short for task in cluster.tasks]
    cluster.call("all", files_made)
    training = begin(cluster, steps=30, checkpoint=str(folder))
    assert training.wait(60).checkpoints.refused == ""
    made = dict(zip(tasks, cluster.call("all", files_made), strict=True))

    again = begin(cluster, steps=60, topology="ps", checkpoint=str(folder)).wait(60)
    assert again.resumed_from is not None
    assert again.resumed_from.step == 30
    assert_replayed(again)
    return {task: item for task, item in made.items() if item}


WORKERS = [f"worker:{i}" for i in range(3)]
SHARDS = [f"worker-{i}.safetensors" for i in range(3)]


def test_training_is_saved_by_all_where_hosts_share_the_folder_else_by_the_first(
    cluster: kit.Cluster, tmp_path: Path
) -> None:
    cluster.call("all", note_files)
    folder = Path("/run", f"saved-{os.getpid()}")  # each host has a /run of its own

    assert saved(cluster, folder) == {"worker:0": SHARDS}
    assert not cluster.call("worker:2", folder.exists)

    made = saved(cluster, tmp_path)
    assert made == {task: [shard] for task, shard in zip(WORKERS, SHARDS, strict=True)}


def test_a_topology_of_ones_own_reaches_the_tasks_of_all_hosts(
    cluster: kit.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_topologies(monkeypatch)
    define("circle", "of a cell")

    training = begin(cluster, steps=20, topology="circle").wait(60)

    assert cluster.call("all", titles, "circle") == ["of a cell"] * 4
    assert_replayed(training)


SVG = "{http://www.w3.org/2000/svg}"


def rectangle(group: Xml.Element) -> tuple[str, list[float]]:
    """Return the name beside a picture's first rectangle, and its four edges."""
    result, name = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
    assert result is not None
    assert name is not None
    x, y, wide, high = (float(result.get(k, "")) for k in ("x", "y", "width", "height"))
    return str(name.text), [x, y, x + wide, y + high]


def test_a_board_shows_each_task_on_its_host_and_which_links_lead_to_the_other(
    cluster: kit.Cluster, tmp_path: Path
) -> None:
    training = begin(cluster, steps=60, topology="ps").wait(60)

    TrafficBoard(training).save(tmp_path / "board.html")
    page = (tmp_path / "board.html").read_text("utf-8")
    picture = re.search(r'<svg class="ps-scene".*?</svg>', page, re.DOTALL)
    assert picture is not None
    groups = list(Xml.fromstring(picture[0]).iter(f"{SVG}g"))

    def of(kind: str) -> list[Xml.Element]:
        return [group for group in groups if kind in group.get("class", "").split()]

    panels, boxes = dict(map(rectangle, of("ps-host"))), map(rectangle, of("ps-task"))
    inside = {
        task: host
        for task, (left, top, right, bottom) in boxes
        for host, edges in panels.items()
        if edges[0] < left < right < edges[2] and edges[1] < top < bottom < edges[3]
    }
    # Two that share a line have short names.
    tasks, there = ("ps:0", "worker:0", "w:1", "w:2"), ("nodea",) * 2 + ("nodeb",) * 2
    assert set(panels) == {"nodea", "nodeb"}
    assert inside == dict(zip(tasks, there, strict=True))
    links = {element.get("data-link") for element in of("ps-arrow")}
    assert links == {"0-1", "1-0", "0-2", "2-0", "0-3", "3-0"}
    far = {element.get("data-link") for element in of("ps-far")}
    assert far == {"0-2", "2-0", "0-3", "3-0"}


# -- what passes between the hosts -----------------------------------------------------

# As large as to be seen among all else that passes; parameters that nobody changes.
DATA = (np.zeros((1 << 20, 1)), np.zeros(1 << 20))
PARAMS = {"w": np.full(4096, np.float32(1.2345678))}


def still(params: dict[str, Any], batch: Any) -> tuple[float, dict[str, Any]]:
    return 0.0, {name: np.zeros_like(value) for name, value in params.items()}


def files_in_memory(kind: str) -> set[int]:
    """Return which of them a task has mapped, by inode; `kind` begins their names."""
    gc.collect()  # a training that is over may hold some for a while
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {int(line.split()[4]) for line in lines if f"/memfd:{kind}" in line}


def arenas() -> set[int]:
    return files_in_memory("kit-") - files_in_memory("kit-work")


def lines_to_tasks() -> set[tuple[Any, Any]]:
    """Return both ends of each TCP connection of a task, its own one first."""
    result = psutil.Process().net_connections("tcp")
    return {(tuple(item.laddr), tuple(item.raddr)) for item in result if item.raddr}


@pytest.mark.parametrize(
    ("topology", "exchanging"),
    [("ps", {(0, 1), (0, 2), (0, 3)}), ("mesh", {(1, 2), (1, 3), (2, 3)})],
)
def test_tasks_of_one_host_share_memory_and_those_of_two_are_connected_by_tcp(
    cluster: kit.Cluster, topology: str, exchanging: set[tuple[int, int]]
) -> None:
    training = begin(cluster, steps=10**6, topology=topology)
    until(lambda: training.step > 3, 30)
    memory = cluster.call("all", arenas)
    lines = cluster.call("all", lines_to_tasks)
    training.stop()
    training.wait(60)

    def are_connected(item: int, other: int) -> bool:
        return bool({(there, here) for here, there in lines[item]} & lines[other])

    pairs = {(item, other) for item, other in permutations(range(4), 2) if item < other}
    of_one_host = {(0, 1), (2, 3)}
    shared = {(item, other) for item, other in pairs if memory[item] & memory[other]}
    connected = {pair for pair in pairs if are_connected(*pair)}
    assert exchanging & of_one_host <= shared <= of_one_host
    assert connected >= exchanging - of_one_host
    assert not connected & of_one_host


def overheard(hosts: TwoHosts, cluster: kit.Cluster) -> bytes:
    """Return all that passes between the second host and others in a training."""
    with hosts.overheard("nodeb") as packets:
        options: Any = {"steps": 20, "batch": 24, "topology": "ring"}
        rows = (DATA[0][:72],)
        kit.train(still, PARAMS, rows, cluster=cluster, **options).wait(60)
    return b"".join(packets)


def test_parameters_cannot_be_read_between_the_hosts_unless_insecure_is_asked_for(
    cluster: kit.Cluster, other: kit.Cluster, hosts: TwoHosts
) -> None:
    words, least = PARAMS["w"][:8].tobytes(), 20 * PARAMS["w"].nbytes

    result = overheard(hosts, cluster)

    assert len(result) > least
    assert words not in result
    assert words in overheard(hosts, other)


# pyzmq has a thread from the first message on that it sends without a copy.
@pytest.mark.lasting("thread", "descriptor")
def test_step_function_and_data_travel_once_to_each_host_and_its_tasks_share_them(
    cluster: kit.Cluster, hosts: TwoHosts
) -> None:
    before = {name: hosts.bytes_to(name) for name in hosts.address}

    options: Any = {"steps": 10**6, "batch": 24, "topology": "ring"}
    training = kit.train(still, PARAMS, DATA, cluster=cluster, **options)
    sent = {name: hosts.bytes_to(name) - before[name] for name in hosts.address}
    until(lambda: training.step > 3, 30)
    held = cluster.call("worker", files_in_memory, "kit-work")
    training.stop()
    training.wait(60)

    size = sum(array.nbytes for array in DATA)
    for name, n_bytes in sent.items():  # with one worker, and with two
        assert size < n_bytes < 1.5 * size, name
    assert len(held[0]) == len(held[1]) == 1
    assert held[1] == held[2]
    assert held[0] != held[1]


def test_two_clusters_from_one_folder_train_side_by_side_and_end_one_by_one(
    cluster: kit.Cluster, other: kit.Cluster, hosts: TwoHosts
) -> None:
    for run in [begin(cluster), begin(other)]:
        assert_replayed(run.wait(60))
    folder = folder_of(other)
    assert left_of(folder, hosts)

    other.stop()

    assert left_of(folder, hosts) == []
    assert cluster.call("worker:2", platform.node) == "nodeb"


def test_firewall_that_drops_silently_is_noticed_in_time(
    cluster: kit.Cluster, hosts: TwoHosts
) -> None:
    address = str(cluster.spec.task_address("worker", 2))
    with hosts.swallowing("nodea", "nodeb"):
        reply = cluster.call("worker:0", host_calls.unreachable, [address], 0.5)

    assert list(reply) == [address]
    assert "no answer within" in reply[address]


# -- from here to hosts on which others have started the tasks ------------------------


@contextmanager
def serving(
    hosts: TwoHosts, name: str, spec: dict[str, list[str]], job: str, secrets: Path
) -> Iterator[None]:
    """Have one task of a cluster served at a host, as its user would by hand."""
    message = ["--job", job, "--index", "0", "--credentials", str(secrets)]
    command = [sys.executable, "-m", "kit", "serve", "--cluster", json.dumps(spec)]
    # Its sockets for those of its own host are where no other host sees them.
    at_host = hosts.at(name, "env", "XDG_RUNTIME_DIR=/run", *command, *message)
    with subprocess.Popen(at_host, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        (server,) = psutil.Process(process.pid).children()
        try:
            assert line.startswith(f"{job}:0 serves at {spec[job][0]}")
            yield
            server.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            with suppress(psutil.NoSuchProcess):
                server.kill()


def test_servers_on_two_hosts_are_looked_at_and_used_from_a_third_one(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    secrets, here = tmp_path / "cluster.json", f"{hosts.address['nodea']}:2222"
    credentials = Credentials.new()
    credentials.save(secrets)
    spec = {"ps": [here], "worker": [f"{hosts.address['nodeb']}:2222"]}
    with (
        serving(hosts, "nodea", spec, "ps", secrets),
        serving(hosts, "nodeb", spec, "worker", secrets),
        kit.Graph().as_default(),
    ):
        attached = kit.attach(here, credentials=credentials)
        status = [str(item) for item in attached.status]
        assert status == ["ps:0 ready", "worker:0 ready"]

        with kit.device("/job:worker/task:0"):
            doubled = kit.constant(np.arange(3.0), name="three") * 2.0
        metadata = kit.RunMetadata()
        with kit.Session(attached.session_target) as session:
            values = session.run(doubled, metadata=metadata)
        np.testing.assert_array_equal(values, [0.0, 2.0, 4.0])
        places = {node.device for node in metadata.nodes}
        assert places == {"/job:worker/replica:0/task:0/device:CPU:0"}

        with pytest.raises(AuthenticationFailed) as caught:
            kit.attach(here, credentials=Credentials.new())
        assert here in str(caught.value)
