"""How many steps a second torch's DDP makes through psring, beside Gloo.

    python -m benchmarks.ddp --workers 2 --quick

Trained are two networks of dense layers and a small transformer on letters. Printed is
also how far the last losses are apart, which come from the same seeds. With
`--batches 0` a step is an all-reduce of the gradients and nothing else.

The same script in the same tasks of one cluster, in turns: a process group of psring,
one of Gloo, again and again. So both meet the same machine, with torch loaded once and
one thread for each.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise, product
from typing import Any

import kit
from benchmarks import mlp
from benchmarks.results import Table, arguments, median, ratio, report

PEERS = "psring", "gloo"
TRANSFORMER = "transformer"  # 0.8 million parameters
_LETTERS = 96
_WAIT_S = 120.0  # torch imports much in its first step
STEPS = {"small": 300, "large": 40, TRANSFORMER: 60}


def turn(peer: str, store: str, size: str, batch: int, steps: int) -> list[float]:
    """Train for some steps: seconds of each, of a processor for one, the last loss."""
    import time

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import kit.torch

    torch.set_num_threads(1)
    if peer == "psring":
        kit.torch.init()
    else:
        if dist.is_initialized():
            dist.destroy_process_group()
        me = kit.group()
        where = {"rank": me.rank, "world_size": me.size}
        dist.init_process_group("gloo", init_method=f"file://{store}", **where)
    torch.manual_seed(0)
    shape, n_classes = [batch], 10
    if size == TRANSFORMER:
        shape, n_classes = [batch, 64], _LETTERS
    model = DistributedDataParallel(torch.nn.Sequential(*_layers(size)))
    optimizer = torch.optim.SGD(model.parameters(), lr=mlp.RATE)
    torch.manual_seed(dist.get_rank())
    labels = torch.randint(n_classes, shape)
    inputs = labels.roll(1, -1)
    if size != TRANSFORMER:
        inputs = torch.randn(batch, mlp.SIZES[size][0])
    labels = labels.flatten()
    gradients = torch.zeros(sum(each.numel() for each in model.parameters()))
    times, loss, worked = [], torch.zeros(()), 0.0
    for number in range(steps):
        if number == steps // 5:
            worked = time.process_time()
        begun = time.perf_counter()
        if batch:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        else:
            dist.all_reduce(gradients)
        times.append(time.perf_counter() - begun)
    worked = (time.process_time() - worked) / (steps - steps // 5)
    last = loss.item()
    del model, optimizer, loss  # Gloo may hang where they outlive its process group
    dist.barrier()
    dist.destroy_process_group()
    return [*times[steps // 5 :], worked, last]


def _layers(size: str) -> list[Any]:
    from torch import nn

    layers = list[Any]()
    if size == TRANSFORMER:
        how = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        layers = [nn.TransformerEncoderLayer(128, 4, 512, **how) for _ in range(4)]
        ends = nn.Linear(128, _LETTERS), nn.Flatten(0, 1)
        return [nn.Embedding(_LETTERS, 128), *layers, *ends]
    for rows, columns in pairwise(mlp.SIZES[size]):
        layers += [nn.Linear(rows, columns), nn.ReLU()]
    return layers[:-1]


def measure(
    cluster: kit.Cluster, size: str, batch: int, steps: int, turns: int
) -> dict[str, Any]:
    """Return medians of both, and how far their losses are apart."""
    times: dict[str, list[float]] = {peer: [] for peer in PEERS}
    worked: dict[str, list[float]] = {peer: [] for peer in PEERS}
    losses: dict[str, float] = {}
    for _ in range(turns):
        for peer in PEERS:
            store = tempfile.mkdtemp() + "/gloo"
            result = cluster.call(
                "worker", turn, peer, store, size, batch, steps, deadline_s=_WAIT_S
            )
            times[peer].append(median(result[0][:-2]))
            worked[peer].append(result[0][-2])
            losses[peer] = result[0][-1]
    is_apart = abs(losses["psring"] - losses["gloo"])
    return {
        "seconds": {peer: median(each) for peer, each in times.items()},
        "worked": {peer: median(each) for peer, each in worked.items()},
        "apart": is_apart,
    }


def main() -> None:
    parser = arguments("torch's DDP through psring, beside Gloo")
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--batches", type=int, nargs="+", default=[8, mlp.BATCH])
    options = parser.parse_args()
    turns = 3 if options.quick else 7
    rows, figures = list[tuple[str, ...]](), dict[str, Any]()
    for n in options.workers:
        with kit.Cluster(worker=n) as cluster:
            for size, batch in product(STEPS, options.batches):
                steps = STEPS[size] // (2 if options.quick else 1)
                result = measure(cluster, size, batch, steps, turns)
                ours, theirs = (result["seconds"][peer] for peer in PEERS)
                rates = f"{1 / ours:.1f}", f"{1 / theirs:.1f}", ratio(theirs, ours)
                work = [f"{1000 * result['worked'][peer]:.2f}" for peer in PEERS]
                work.append(f"{result['apart']:.1e}")
                rows.append((str(n), size, str(batch), *rates, *work))
                figures["/".join(rows[-1][:3])] = result
    work_head = "psring, ms", "gloo, ms", "losses apart"
    head = "workers", "model", "batch", *PEERS, "ratio", *work_head
    notes = (
        "Steps a second, medians of turns, and milliseconds of a processor for a step "
        "of one worker; batch: examples a worker.",
    )
    report(Table("DDP", notes, head, tuple(rows)), figures, options.json)


if __name__ == "__main__":
    main()
