"""The servers that `benchmarks.fuzz` sends nonsense to, in a separate process.

One parameter server and two workers, a training and a session that go on all the time:
what ends is begun again. Frames of each kind that are really sent meanwhile are kept,
the newest ones. Each line on the standard input is answered by a line: how all is.
"""

from __future__ import annotations

import base64
import ctypes
import faulthandler
import gc
import json
import logging
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil

import kit
from kit.errors import KitError, UnknownError
from kit.session.transport.message import Act
from kit.settings import Settings, current
from kit.testing.cluster import LocalCluster, local_cluster
from kit.training.core.member import Member
from kit.wire.frame import FrameKind
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.message import unpack_message

SETTINGS: dict[str, dict[str, Any]] = {
    "unix": {"transport": "auto"},
    "tcp": {"transport": "tcp", "insecure": True},
    "tls": {"transport": "tcp"},
}
# A member may keep the others waiting, by a false word, as long as these say.
_TRAINING: dict[str, Any] = {
    "trace_rows": 1000,
    "start_deadline_s": 5,
    "step_deadline_s": 10,
    "save_deadline_s": 10,
}
_SAMPLES = 6  # of each kind of frame
_LONGEST = 16_384
PS, W1 = "/job:ps/task:0", "/job:worker/task:1"


class Recorder:
    """Keeps the newest frames of each kind that links of this process have sent."""

    def __init__(self) -> None:
        self.kept: dict[str, deque[dict[str, Any]]] = {}
        plain = Link.send

        def send(link: Link, *payload: Any, **fields: Any) -> None:
            body = b"".join(bytes(part) for part in payload)
            if len(body) <= _LONGEST:
                self._keep(link, body, dict(fields))
            plain(link, *payload, **fields)

        Link.send = send  # type: ignore[method-assign, assignment]

    def _keep(self, link: Link, body: bytes, fields: dict[str, Any]) -> None:
        fields.pop("deadline_s")
        fields = {name: int(value) for name, value in fields.items()}
        what = _question(link, body, fields)
        if what:
            sample = {
                "role": int(link.role),
                "as": link.local.short,
                "to": link.peer.short,
                "run": link.run_id.hex(),
                "fields": fields,
                "body": base64.b64encode(body).decode(),
            }
            self.kept.setdefault(what, deque(maxlen=_SAMPLES)).append(sample)


def _question(link: Link, body: bytes, fields: dict[str, Any]) -> str:
    """Return the kind of a frame, empty for answers: nobody sends them unasked."""
    kind = fields.get("kind", int(FrameKind.CONTROL))
    if link.role is Role.SESSION:
        act = fields.get("epoch", 0)
        if act == Act.ASK:
            quoted = body[body.find(b'{"op":') :].split(b'"')  # arrays may be lent
            return f"session {b''.join(quoted[3:4]).decode('ascii', 'replace')}"
        return "" if act in (Act.DONE, Act.FAILED) else f"session {Act(act).name}"
    if kind != FrameKind.CONTROL:
        return f"{link.role.name} {FrameKind(kind).name}"
    op = unpack_message(bytearray(body))[0].get("op")
    return f"{link.role.name} {op}" if op else ""


class Faults(logging.Handler):
    """Collects undeclared errors: in the log, in threads, and that end a training.

    The last are taken before they become an `UnknownError`: so does every error of an
    unknown type that a holder of the key may report.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: Counter[str] = Counter()
        logging.getLogger().addHandler(self)
        threading.excepthook = lambda args: self.note(args.exc_value)
        plain = Member._fail

        def fail(member: Member, error: BaseException) -> None:
            if not isinstance(error, KitError):
                self.note(error)
            plain(member, error)

        Member._fail = fail  # type: ignore[method-assign, assignment]

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            self.seen[record.getMessage()[:500]] += 1
        else:
            self.note(error)

    def note(self, error: BaseException | None) -> None:
        lines = traceback.format_exception(error)
        self.seen["".join([*lines[-4:-1], lines[-1]])[-1500:]] += 1


class Life:
    """A training and a session that go on; whatever ends them is counted."""

    def __init__(self, cluster: LocalCluster, folder: str, faults: Faults) -> None:
        self.cluster, self.faults, self.folder = cluster, faults, folder
        self._folder = folder
        self.steps, self.runs = 0, 0
        self.ends: Counter[str] = Counter()
        self.last: dict[str, str] = {}  # what was said at the last end of each kind
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._again, args=(what,), daemon=True)
            for what in (self._train, self._compute)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(20)

    def _again(self, what: Any) -> None:
        while not self._is_over.is_set():
            try:
                what()
            except KitError as error:
                self._count(what.__name__, error)
            except Exception as error:
                self.faults.note(error)
            self._is_over.wait(0.05)

    def _count(self, where: str, error: KitError) -> None:
        end = f"{where}: {type(error).__name__}"
        self.ends[end] += 1
        self.last[end] = str(error)[:500]
        if type(error) is UnknownError and where == "_compute":
            self.faults.note(error)  # Python's own, in an op

    def _train(self) -> None:
        self._folder = tempfile.mkdtemp(dir=self.folder)
        self._free_servers()
        workers = self.cluster.servers[1:]
        with ThreadPoolExecutor(2) as pool:
            begun = [pool.submit(self._begin, worker) for worker in workers]
            runs = [future.result(60) for future in begun]
        run, seen, dice = runs[0], 0, np.random.default_rng(len(self.ends))
        try:
            while not run.done and not self._is_over.wait(0.1):
                self._steer(run, int(dice.integers(8)))
                self.steps += max(0, run.step - seen)
                seen = max(run.step, seen)
            if self._is_over.is_set():
                run.stop()
            run.wait(30)
        finally:
            for item in runs:
                item.stop()
            shutil.rmtree(self._folder, ignore_errors=True)
        self.ends["_train: done"] += 1

    def _free_servers(self) -> None:
        """End trainings that a fuzzed question began: they wait as long as it said."""
        for server in self.cluster.servers:
            there = server.trainings.member
            if there is None or there.is_over:
                continue
            if there.job.settings != current().replace(**_TRAINING):
                server.trainings.give_up(there.job.run)

    def _begin(self, server: kit.Server) -> kit.Run:
        fails = sum(self.ends.values()) % 5 == 4

        def step(params: Any, batch: Any) -> Any:
            self._is_over.wait(0.01)
            if fails and server.task.index and 40 in batch[0]:
                raise ValueError("one training in five fails")
            return 0.0, {name: np.ones_like(value) for name, value in params.items()}

        with kit.settings(**_TRAINING):
            return kit.train(
                step,
                {"w": np.zeros(300, np.float32), "b": np.zeros(3)},
                np.arange(64, dtype=np.float32),
                topology="ps",
                steps=150,
                batch=8,
                checkpoint=kit.Checkpoints(self._folder, every_steps=50, keep=2),
                cluster=server,
            )

    def _steer(self, run: kit.Run, what: int) -> None:
        try:
            match what:
                case 0:
                    run.switch("ring", at=run.step + 3)
                case 1:
                    run.topology = "ps"
                case 2:
                    run.pause()
                case 3:
                    run.advance(2)
                case 4:
                    run.save()
                case 5:
                    run.link = "10gbit"
            run.resume()
        except KitError as error:
            self._count("command", error)

    def _compute(self) -> None:
        """Make a session and some runs of it: variables, transfers and a queue."""
        target = self.cluster.target("worker:0")
        with kit.Session(target) as session:
            session.reset(deadline_s=10)  # others may have filled the queue
        with kit.Graph().as_default() as graph:
            with kit.device(PS):
                total = kit.Variable(np.zeros(8, np.float32), name="total")
            x = kit.placeholder("float32", (8,))
            with kit.device(W1):
                doubled = x + x
            with kit.device(PS):
                added = total.assign_add(doubled)
                # Beyond 256 KiB, memory is lent where both are on one host.
                large = kit.identity(kit.constant(np.zeros(70_000, np.float32)))
                put, element = _queue(graph)
            with kit.Session(target, graph=graph) as session:
                session.run(kit.initialize_all(), deadline_s=10)
                session.list_devices(10)
                for _ in range(30):
                    session.run(added, {x: np.ones(8, np.float32)}, deadline_s=10)
                    session.run(put, deadline_s=10)
                    session.run([large, element], deadline_s=10)
                    self.runs += 2
                    if self._is_over.wait(0.02):
                        return


def _queue(graph: kit.Graph) -> tuple[Any, Any]:
    """Return what puts an element into a queue, and what takes it out."""
    attrs: dict[str, Any] = {"dtypes": [np.dtype("float32")], "shapes": [()]}
    queue = graph.create("FIFOQueueV2", capacity=9, shared_name="queue", **attrs)
    handle, item = queue.outputs[0], kit.constant(np.float32(1))
    put = graph.create("QueueEnqueueV2", handle, item, **attrs)
    return put, graph.create("QueueDequeueV2", handle, **attrs).outputs[0]


def main() -> None:
    transport = sys.argv[1]
    faulthandler.enable()
    # From C: for when no thread gets to run Python any more.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.getLogger("kit").setLevel(logging.WARNING)
    faults, recorder = Faults(), Recorder()
    chosen = Settings(**SETTINGS[transport])
    with (
        tempfile.TemporaryDirectory(prefix="fz-") as folder,
        local_cluster(1, 2, settings=chosen) as cluster,
    ):
        directory = cluster.servers[0].directory
        hello = {
            "addresses": {t.short: a for t, a in directory.addresses.items()},
            "credentials": directory.credentials.to_plain(),
            "folder": str(directory.runtime_dir),
        }
        print(json.dumps(hello), flush=True)
        life = Life(cluster, folder, faults)
        for line in sys.stdin:
            answer(line.strip(), life, recorder, faults)
        life.close()


def answer(line: str, life: Life, recorder: Recorder, faults: Faults) -> None:
    if line == "rest":
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # gives back what is free
    graphs = [server.graphs for server in life.cluster.servers]
    result: dict[str, Any] = {
        "sessions": sum(len(graph.master) for graph in graphs),
        "segments": sum(graph.worker.n_segments for graph in graphs),
        "rss": psutil.Process().memory_info().rss,
        "threads": threading.active_count(),
        "descriptors": psutil.Process().num_fds(),
        "steps": life.steps,
        "runs": life.runs,
        "ends": dict(life.ends),
        "last": dict(life.last),
        "faults": dict(faults.seen),
    }
    if line == "stacks":
        names = {item.ident: item.name for item in threading.enumerate()}
        result["stacks"] = [
            "".join([f"Thread {names.get(ident)}:\n", *traceback.format_stack(frame)])
            for ident, frame in sys._current_frames().items()
        ]
    if line == "frames":
        result["frames"] = {what: [*kept] for what, kept in recorder.kept.items()}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
