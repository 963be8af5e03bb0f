"""A replica whose steps go on without one that is lost, by torchft.

    python -m benchmarks.losses_torchft FOLDER             # the lighthouse
    python -m benchmarks.losses_torchft FOLDER PROBLEM N   # replica N, a process

The lighthouse knows which replicas are alive, and writes its address into the folder.
Each replica writes a line there for each step that was committed: its number, and when
it ended. A step that a loss breaks off is left out, with its examples; one that is
started again takes the parameters of another.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.losses_rank import RATE
from benchmarks.problem import load
from benchmarks.training_rank import network

N_REPLICAS = 3


def lighthouse(folder: Path) -> None:
    """Serve until this process is killed, with the values of torchft's own example."""
    from torchft.coordination import LighthouseServer

    server = LighthouseServer(
        bind="0.0.0.0:0", min_replicas=1, quorum_tick_ms=100, join_timeout_ms=10_000
    )
    (folder / "address.new").write_text(server.address())
    (folder / "address.new").replace(folder / "address")
    while True:
        time.sleep(60)


def replica(folder: Path, problem_path: str, number: int) -> None:
    """Train until this process is killed."""
    import torch
    import torch.distributed as dist
    import torchft

    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    problem = load(problem_path)
    net = network(torch, problem)
    plain, loss_of = (
        torch.optim.Adam(net.parameters(), RATE),
        torch.nn.CrossEntropyLoss(),
    )

    def give() -> dict[str, Any]:
        return {"net": net.state_dict(), "optimizer": plain.state_dict()}

    def take(kept: dict[str, Any]) -> None:
        net.load_state_dict(kept["net"])
        plain.load_state_dict(kept["optimizer"])

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(),
        load_state_dict=take,
        state_dict=give,
        min_replica_size=1,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=(folder / "address").read_text(),
        replica_id=f"replica-{number}-",
        hostname="127.0.0.1",
    )
    optimizer = torchft.Optimizer(manager, plain)
    (folder / f"{number}.pid").write_text(str(os.getpid()))
    with (folder / f"steps-{number}").open("a", buffering=1) as reply:
        while True:
            step = manager.current_step()
            batch = problem.inputs(problem.part(step, number, N_REPLICAS))
            x, y = (torch.from_numpy(part) for part in batch)
            optimizer.zero_grad()
            loss_of(net(x), y).backward()
            # Its own DDP ends a replica by an assertion when an all-reduce fails.
            sums = [manager.allreduce(parameter.grad) for parameter in net.parameters()]
            for item in sums:
                item.wait()
            optimizer.step()
            if manager.current_step() > step:
                reply.write(f"{manager.current_step()} {time.monotonic_ns()}\n")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if len(sys.argv) == 2:
        lighthouse(folder)
    replica(folder, sys.argv[2], int(sys.argv[3]))
