"""Send mutated frames to live servers, as a holder of the key could.

    python -m benchmarks.fuzz --frames 1000000 --transport unix,tcp,tls --seed 1

For each transport, side by side, a process with three servers, in which a training and
a session go on (`benchmarks.fuzz_server`), is sent frames that were recorded there a
moment before and changed (`benchmarks.fuzz_mutations`), over links that prove the key.
A case is one link and all that is sent over it; its dice are thrown by seed, transport
and number, so `--case N` sends like frames again. It fails when a server ends, does not
answer others within a deadline, raises an undeclared error, or takes and keeps memory.
The report then holds the stacks of all threads of the servers. A holder of the key may
end a training or a session, and keep it waiting for as long as its settings say.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import fuzz_mutations as mutations
from kit.errors import DeadlineExceededError, KitError, LinkLost, ProtocolError
from kit.server.directory import Directory
from kit.session.transport.message import Act, ask
from kit.session.transport.serialization import unpack
from kit.settings import Settings
from kit.task import Task
from kit.wire.frame import CHECKSUM, FrameKind, pack_fields
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.message import unpack_message
from kit.wire.rpc import Caller
from kit.wire.stream import write_all

TRANSPORTS = {
    "unix": Settings(),
    "tcp": Settings(transport="tcp", insecure=True),
    "tls": Settings(transport="tcp"),
}
MOST_GROWTH = 16 * 2**20
_LEAST_JUDGED = 50_000  # frames; before, a process grows by itself
# Servers that starve are late by minutes; only what hangs needs longer.
_PING_S, _PROGRESS_S = 60.0, 300.0
_CASE_FRAMES, _BATCH = 40, 8
_QUIET_S = 0.05  # no answer for so long: it waits for others, as it may
_MOST_STACKS = 100_000  # characters
_FINAL = ["session SEGMENT", "session lend"]
_ME = Task("client", 7)


@dataclass
class Report:
    """What became of the frames of one transport."""

    transport: str
    seed: int
    frames: int = 0
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest_ping_s: float = 0.0
    rss_warm: int = 0
    rss_end: int = 0
    growth_mib: float = 0.0
    server: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    stacks: list[str] = field(default_factory=list)  # of the servers, if it failed


class Servers:
    """The process with the servers, and the pipe through which it reports its state."""

    def __init__(self, transport: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.fuzz_server", transport],
                # Growth is to be what is kept. Python's allocator, or malloc with an
                # arena for each of some threads, keeps tens of MiB that nobody uses.
                env={**os.environ, "MALLOC_ARENA_MAX": "2", "PYTHONMALLOC": "malloc"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        hello = self._line()
        self.directory = Directory(
            {Task.parse(task): at for task, at in hello["addresses"].items()},
            Credentials.from_plain(hello["credentials"]),
            Path(hello["folder"]),
            TRANSPORTS[transport],
        )

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")  # so that nobody waits for one that cannot come

    def _line(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=_PROGRESS_S)
        except queue.Empty:
            raise DeadlineExceededError(
                f"the servers say nothing within {_PROGRESS_S:g} s: {self.words()}"
            ) from None
        if not line:
            raise self._ended()
        result: dict[str, Any] = json.loads(line)
        return result

    def _ended(self) -> LinkLost:
        self._lines.put("")  # for the next question
        status = self.process.wait(10)
        return LinkLost(f"the servers have ended ({status}): {self.words()}")

    def tell(self, what: str = "") -> dict[str, Any]:
        """Ask how the servers are: "frames" brings what was recorded, "rest" tidies."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{what}\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._ended() from error
        return self._line()

    def words(self) -> str:
        return self._log.read_text("utf-8", "replace")[-2000:]

    def stacks(self) -> list[str]:
        """Return what the servers have logged, then where all their threads are.

        They are asked in Python. If they do not answer, no thread gets to run Python,
        and a signal makes them write it from C: in a process whose threads go on, that
        reads frames that are just being freed.
        """
        try:
            result = "".join(self.tell("stacks")["stacks"])
        except DeadlineExceededError:
            self.process.send_signal(signal.SIGUSR1)
            with suppress(KitError):
                self.tell()  # answered once it is written, or never
            result = ""
        except LinkLost:
            result = ""
        log = self._log.read_text("utf-8", "replace")
        return f"{log}\n{result}"[-_MOST_STACKS:].splitlines()

    def ping(self) -> float:
        """Ask each task two questions over new links; returns the slowest's seconds."""
        slowest = 0.0
        for task in self.directory.addresses:
            begun = time.monotonic()
            link = self.directory.dial(task, _ME, Role.OBSERVER, deadline_s=_PING_S)
            with closing(Caller(link)) as caller:
                caller.call("run.begun", _PING_S, {"run": "ab" * 16})
            link = self.directory.dial(task, _ME, Role.SESSION, deadline_s=_PING_S)
            with link:
                ask(link, {"op": "status"}, _PING_S)
            slowest = max(slowest, time.monotonic() - begun)
        return slowest

    def wait_until(self, holds: Callable[[dict[str, Any]], bool], what: str) -> None:
        end, pause = time.monotonic() + _PROGRESS_S, threading.Event()
        while not holds(self.tell()):
            if time.monotonic() > end:
                raise DeadlineExceededError(f"{what} within {_PROGRESS_S:g} s.")
            pause.wait(0.2)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # a question that it ended before
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        self.process.stdout.close()


@contextmanager
def servers(transport: str) -> Iterator[Servers]:
    """Give servers with life in them, and end them."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        result = Servers(transport, Path(folder) / "servers.log")
        try:
            yield result
        finally:
            result.close()


class Case:
    """One link, and what is sent over it."""

    def __init__(self, report: Report, where: Servers, frames: Any, number: int):
        self.report, self.where, self.number = report, where, number
        self.dice = random.Random(f"{report.seed}:{report.transport}:{number}")
        kinds = sorted(frames)
        first = self.dice.choice(frames[self.dice.choice(kinds)])
        self.role = Role(first["role"])
        # Questions may come over a link of either role; the others have their own.
        self.frames = {
            kind: [frame for frame in frames[kind] if _family(frame) == _family(first)]
            for kind in kinds
        }
        self.kinds = [kind for kind in kinds if self.frames[kind]]
        if self.dice.random() < 0.8 and self.kinds != _FINAL:
            # After these the servers mostly read nothing more on a link.
            self.kinds = [kind for kind in self.kinds if kind not in _FINAL]
        self.first = first
        self.n_waiting = 0

    def run(self) -> None:
        self.report.cases += 1
        dice, first = self.dice, self.first
        me = Task.parse(first["as"]) if dice.random() < 0.7 else _ME
        is_member = self.role is Role.CONTROL and dice.random() > 0.03
        run = "" if is_member else first["run"]
        task = Task.parse(first["to"])
        with self.where.directory.dial(task, me, self.role, run) as link:
            try:
                for number in range(_CASE_FRAMES):
                    if not self._send(link):
                        break
                    if number % _BATCH == _BATCH - 1 and not self._hear(link):
                        break  # it waits for others, and so would all that follows
                self._hear(link)
            except DeadlineExceededError:
                self.report.outcomes["slow"] += 1
            except KitError as error:  # the server has ended the link, as it should
                self.report.outcomes[f"closed {type(error).__name__}"] += 1
        self.report.outcomes["unanswered"] += self.n_waiting

    def _send(self, link: Link) -> bool:
        """Send a frame; whether the link may be good for another one."""
        dice = self.dice
        kind, other = dice.choice(self.kinds), dice.choice(self.kinds)
        first, two = (dice.choice(self.frames[name]) for name in (kind, other))
        body, theirs = (base64.b64decode(frame["body"]) for frame in (first, two))
        fields = dict(first["fields"])
        how, is_session = dice.random(), self.role is Role.SESSION
        self.report.frames += 1
        self.report.kinds[kind] += 1
        if how < 0.04:
            self._send_raw(link, fields, body, theirs)
            return False
        if how < 0.07:
            body = mutations.scrambled(body, dice)
        elif how < 0.85:
            change = mutations.session_message if is_session else mutations.message
            body = change(body, theirs, dice)
        if 0.75 < how < 0.95:
            fields = mutations.fields(fields, dice)
        fields["kind"] = FrameKind(fields.get("kind", FrameKind.CONTROL))
        link.send(body, deadline_s=2.0, **fields)
        is_expected = is_session and fields.get("epoch") in (Act.TENSOR, Act.LATER)
        self.n_waiting += self.role is not Role.DATA and not is_expected
        return True

    def _send_raw(
        self, link: Link, expected: dict[str, int], body: bytes, theirs: bytes
    ) -> None:
        """Send the bytes of a frame damaged, doubled, cut or mixed with another's."""
        dice, cluster = self.dice, self.where.directory.credentials.cluster_id
        names = ("kind", "flags", "epoch", "step", "tensor", "chunk")
        kind, flags, *rest = (expected.get(name, name == "kind") for name in names)
        numbers = (int(kind), flags | CHECKSUM, int.from_bytes(cluster[:8], "little"))
        fields = (*numbers, rest[0], 0, rest[1], dice.randrange(3), *rest[2:])
        frame = pack_fields((*fields, len(body), 0), (body,)) + body
        match dice.randrange(4):
            case 0:
                frame = mutations.scrambled(frame, dice)
            case 1:
                frame = frame[: dice.randrange(len(frame))] + theirs
            case 2:
                frame += frame
            case 3:
                frame = frame[: dice.randrange(1, len(frame))]
        write_all(link.stream, (frame,), time.monotonic() + 2.0)
        self.report.outcomes["raw"] += 1

    def _hear(self, link: Link) -> bool:
        """Take the answers that come by themselves; whether all have come."""
        while self.n_waiting:
            try:
                header, body = link.recv(deadline_s=_QUIET_S)
            except DeadlineExceededError:
                return False
            self.n_waiting -= 1
            self._note(header.epoch, body)
        return True

    def _note(self, act: int, body: bytearray) -> None:
        try:
            if self.role is Role.SESSION:
                plain = unpack(body)[0].get("error") if act == Act.FAILED else None
            else:
                answer = unpack_message(body)[0]
                plain = answer["error"] if answer.get("failed") else None
        except ProtocolError as error:
            self.report.failures.append(f"case {self.number}: {error}")
            return
        name = plain["type"] if plain else "answered"
        self.report.outcomes[name] += 1
        # On a control link it may be what somebody has reported of a training; what is
        # a server's own is in its log.
        if name == "UnknownError" and plain and self.role is Role.SESSION:
            text = f"case {self.number} was answered: {plain['message'][:500]}"
            self.report.failures.append(text)


def _family(frame: dict[str, Any]) -> Role:
    role = Role(frame["role"])
    return Role.CONTROL if role is Role.OBSERVER else role


def fuzz(
    transport: str,
    n_frames: int,
    seed: int,
    *,
    case: int | None = None,
    tell: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Send `n_frames` frames, or those of one case, and return what became of them."""
    report, begun = Report(transport, seed), time.monotonic()
    with servers(transport) as where:
        try:
            _send_all(report, where, n_frames, case, tell)
            _see_that_it_goes_on(report, where)
        except (KitError, subprocess.TimeoutExpired) as error:
            report.failures.append(f"case {report.cases}: {error}")
        if report.failures:
            report.stacks = where.stacks()
    report.seconds = round(time.monotonic() - begun, 1)
    return report


def _send_all(
    report: Report,
    where: Servers,
    n_frames: int,
    case: int | None,
    tell: Callable[[Report], None],
) -> None:
    where.wait_until(
        lambda result: result["steps"] > 5 and result["runs"] > 5, "no life"
    )
    frames: Any = {}
    looked, warm = 0.0, max(n_frames // 10, min(n_frames // 2, 20_000))
    number = case or 0
    while report.frames < n_frames and not report.failures:
        if time.monotonic() - looked > 2.0:
            frames = _look(report, where)
            looked = time.monotonic()
            tell(report)
        Case(report, where, frames, number).run()
        number += case is None
        if not report.rss_warm and report.frames >= warm:
            report.rss_warm = where.tell("rest")["rss"]
    _look(report, where)


def _look(report: Report, where: Servers) -> Any:
    """See that all is well; returns the newest frames."""
    report.slowest_ping_s = max(report.slowest_ping_s, round(where.ping(), 2))
    result = where.tell("frames")
    frames = result.pop("frames")
    expected, report.server = report.server.get("faults", {}), result
    for text, times in result["faults"].items():
        if times > expected.get(text, 0):
            report.failures.append(f"before case {report.cases}, {times} times: {text}")
    return frames


def _is_more(what: str, than: int) -> Callable[[dict[str, Any]], bool]:
    return lambda result: bool(result[what] > than)


def _see_that_it_goes_on(report: Report, where: Servers) -> None:
    begun = where.tell("rest")
    for what, count in ("training", "steps"), ("session", "runs"):
        where.wait_until(
            _is_more(count, begun[count]),
            f"the {what} did not go on from {begun[count]} {count}",
        )
    _look(report, where)
    report.rss_end = where.tell("rest")["rss"]
    report.growth_mib = round((report.rss_end - report.rss_warm) / 2**20, 1)
    is_warm = report.frames >= _LEAST_JUDGED
    if is_warm and report.rss_end - report.rss_warm > MOST_GROWTH:
        report.failures.append(f"the servers grew by {report.growth_mib} MiB.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="of all links")
    parser.add_argument("--transport", default="unix,tcp,tls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="send the frames of one case alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures here")
    options = parser.parse_args()
    transports = options.transport.split(",")
    n_frames = -(-options.frames // len(transports))

    def tell(report: Report) -> None:
        now = report.server
        text = f"{report.frames:,} frames, {report.cases:,} links, {now['threads']}"
        text += f" threads, {now['descriptors']} files, {now['rss'] >> 20} MiB"
        print(f"{report.transport}: {text}", file=sys.stderr)

    def run(transport: str) -> Report:
        return fuzz(transport, n_frames, options.seed, case=options.case, tell=tell)

    with ThreadPoolExecutor(len(transports)) as pool:  # most of their time is waiting
        reports = list(pool.map(run, transports))
    text = json.dumps([vars(report) for report in reports], indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
