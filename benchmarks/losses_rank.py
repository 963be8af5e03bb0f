"""A rank of PyTorch's DDP that `torch.distributed.run` starts again after a loss.

    python -m torch.distributed.run ... -m benchmarks.losses_rank FOLDER PROBLEM

The first rank writes a checkpoint into the folder as often as an elastic training of
ours copies, and a line for each step: its number, and when it ended. After a loss all
ranks are started again and go on from the checkpoint.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from benchmarks.problem import load
from benchmarks.training_rank import network

SAVE_S = 0.2
RATE = 1e-3


def main() -> None:
    """Train until this process is killed."""
    import torch
    import torch.distributed as dist

    folder, problem = Path(sys.argv[1]), load(sys.argv[2])
    torch.set_num_threads(1)
    rank, n_ranks, number, port = (
        int(os.environ[name])
        for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT")
    )
    # The store outlives a restart, with the addresses of ranks that are gone.
    store = dist.TCPStore(os.environ["MASTER_ADDR"], port, is_master=False)
    store = dist.PrefixStore(f"restart-{number}", store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=n_ranks)
    net = torch.nn.parallel.DistributedDataParallel(network(torch, problem))
    optimizer, loss_of = (
        torch.optim.Adam(net.parameters(), RATE),
        torch.nn.CrossEntropyLoss(),
    )
    step, path = 0, folder / "checkpoint"
    if path.exists():
        kept = torch.load(path)
        step = kept["step"]
        net.load_state_dict(kept["net"])
        optimizer.load_state_dict(kept["optimizer"])
    dist.barrier()  # nobody writes while another one reads
    (folder / f"{rank}.pid").write_text(str(os.getpid()))
    saved = time.monotonic()
    with (folder / "steps").open("a", buffering=1) as reply:
        while True:
            batch = problem.inputs(problem.part(step, rank, n_ranks))
            x, y = (torch.from_numpy(part) for part in batch)
            optimizer.zero_grad()
            loss_of(net(x), y).backward()
            optimizer.step()
            step += 1
            if rank > 0:
                continue
            reply.write(f"{step} {time.monotonic_ns()}\n")
            if time.monotonic() > saved + SAVE_S:
                kept = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**kept, "step": step}, folder / "new")
                (folder / "new").replace(path)
                saved = time.monotonic()


if __name__ == "__main__":
    main()
