"""The server of an engine: one for each process, started and called by ipyparallel.

Bare processes of tests call the same functions (`kit.testing.task_process`).
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Mapping
from typing import Any

from kit import arithmetic, machine
from kit.errors import AddressInUse, FailedPreconditionError
from kit.features import load
from kit.server import cards, task_log
from kit.server.server import Server
from kit.settings import Settings
from kit.training.core.job import Job, Work
from kit.wire.handshake.credentials import Credentials
from kit.wire.listening.address import TcpAddress
from kit.wire.stream import MPI

LEAVE_S, _LOOK_S = 5.0, 0.05  # until a process that is being ended frees its port
_GOODBYE_S = 0.5  # of the ranks of MPI, which all stop at the same time
_server: Server | None = None


def start(config: dict[str, Any]) -> dict[str, Any]:
    """Start this engine's server; returns its address, pid, host and GPUs."""
    global _server  # an engine is one task: this is its state
    job, index = str(config["job"]), int(config["index"])
    folder = str(config["runtime_dir"])
    if config.get("address"):
        address = str(config["address"])  # of the process before: others know that one
    elif config.get("host"):
        address = str(TcpAddress(str(config["host"]), 0))
    elif config["transport"] == "tcp":
        address = "127.0.0.1:0"
    else:
        address = f"unix:{folder}/{job}-{index}.sock"
    settings = Settings.from_plain(config["settings"]).replace(
        transport=config["transport"],
        insecure=bool(config["insecure"]),
        runtime_dir=folder,
    )
    task_log.write_what_no_cell_prints()
    stop()
    if config.get("threads"):  # the same on all hosts, also after a restart
        arithmetic.set_threads(int(config["threads"]))
    name, seen = f"{job}:{index}", list[str]()
    if "gpus" in config:  # it is a worker's
        seen = cards.see(name, config["gpus"], int(config["number_on_host"]))
    machine.raise_descriptors()  # here, as another host may have a lower limit
    credentials = Credentials.from_plain(config["credentials"])
    give_up_at = time.monotonic() + (LEAVE_S if config.get("address") else 0)
    while _server is None:
        try:
            spec = {job: {index: address}}
            _server = Server(
                spec, job, index, credentials=credentials, settings=settings
            )
        except AddressInUse:
            # The process before this one was lost, but may not have ended yet.
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(_LOOK_S)
    return {
        "address": str(_server.address),
        "pid": os.getpid(),
        "host": platform.node(),
        "gpus": seen,
    }


def connect(spec: Mapping[str, list[str]]) -> None:
    """Tell the server where all tasks are."""
    current().connect(spec)


def stop() -> None:
    """Stop the server, if there is one."""
    global _server  # as above
    if _server is not None:
        _server.stop()
        if _server.settings.transport == MPI:
            load("kit.wire.mpi:leave")(_GOODBYE_S)
        _server = None


def current() -> Server:
    """Return this process's server."""
    if _server is None:
        raise FailedPreconditionError("this process hosts no task.")
    return _server


def end_at_once() -> None:
    """Kill this process, as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def prepare(job: Job) -> dict[int, str]:
    """Listen for an elastic training's members in this process; return addresses."""
    return current().trainings.prepare(job)


def begin(job: Job, work: Work | None) -> None:
    """Begin this task's part in a training."""
    if job.generation.is_followed:
        current().trainings.begin_elastic(job, work)
    else:
        current().trainings.begin(job, work)


def join(job: Job, work: Work | None) -> None:
    """Ask to take part in a training that is under way, from its next generation on."""
    current().trainings.join_elastic(job, work)


def give_up(run: str) -> None:
    """End a training that could not begin on all tasks, if it has begun here."""
    current().trainings.give_up(run)
