"""Programs of torch.distributed as users write them, to be run in tasks of a cluster.

Each is run with psring's process group and with Gloo's in the same processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Program = Callable[[], Any]


def with_both(program: Program, store: str) -> tuple[Any, Any]:
    """Return what a program gives with psring, and with Gloo."""
    import torch
    import torch.distributed as dist

    import kit.torch

    torch.set_num_threads(1)
    world = kit.torch.init()
    rank, size = dist.get_rank(), dist.get_world_size()
    ours = program()
    dist.barrier()
    counted = kit.torch.traffic()
    assert counted.measured == counted.formula, counted
    dist.barrier()
    dist.destroy_process_group()
    del world
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size
    )
    try:
        return ours, program()
    finally:
        dist.destroy_process_group()


def collectives() -> Any:
    """Make each collective call that torch has for dense tensors of a CPU."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    result: dict[str, Any] = {}

    def keep(name: str, *tensors: Any) -> None:
        result[name] = [tensor.float().tolist() for tensor in tensors]

    ops = dist.ReduceOp
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.int64,
        torch.uint8,
    ):
        for op in (ops.SUM, ops.PRODUCT, ops.MIN, ops.MAX):
            x = (torch.arange(7) + rank + 1).to(dtype)
            dist.all_reduce(x, op)
            keep(f"all_reduce {dtype} {op}", x)
    x = torch.arange(6.0).reshape(2, 3).t() + rank  # not contiguous
    dist.broadcast(x, src=1)
    keep("broadcast", x)
    x = torch.full((3,), float(rank), dtype=torch.bfloat16)
    dist.broadcast(x, src=1)
    keep("broadcast bfloat16", x)
    x = torch.tensor(rank + 1)
    dist.all_reduce(x)
    keep("all_reduce of a number", x)
    for dtype in (torch.float32, torch.bfloat16):  # the first is summed where it lies
        x = (torch.arange(600_001) % 7 + rank).to(dtype)
        dist.all_reduce(x)
        keep(f"all_reduce of much {dtype}", x[::50_000], x.double().sum())
    x = torch.arange(5.0) * (rank + 1)
    dist.reduce(x, dst=1)
    if rank == 1:
        keep("reduce", x)
    return result


def between_all() -> Any:
    """Make the collective calls in which each task has something for each."""
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    result: dict[str, Any] = {}

    def keep(name: str, *tensors: Any) -> None:
        result[name] = [tensor.float().tolist() for tensor in tensors]

    parts = [torch.zeros(2, 2) for _ in range(n)]
    dist.all_gather(parts, torch.full((2, 2), float(rank)))
    keep("all_gather", *parts)
    whole = torch.zeros(n * 4)
    dist.all_gather_into_tensor(whole, torch.arange(4.0) + 10 * rank)
    keep("all_gather_into_tensor", whole)
    parts = [torch.zeros(3) for _ in range(n)] if rank == 0 else []
    dist.gather(torch.full((3,), float(rank)), parts or None, dst=0)
    keep("gather", *parts)
    mine = torch.zeros(3)
    each = (
        [torch.full((3,), float(number)) for number in range(n)] if rank == 1 else None
    )
    dist.scatter(mine, each, src=1)
    keep("scatter", mine)
    mine = torch.zeros(3)
    dist.reduce_scatter(mine, [torch.arange(3.0) + item + rank for item in range(n)])
    keep("reduce_scatter", mine)
    mine = torch.zeros(2)
    dist.reduce_scatter_tensor(mine, torch.arange(2.0 * n) * (rank + 1))
    keep("reduce_scatter_tensor", mine)
    mine = torch.zeros(n * 2)
    dist.all_to_all_single(mine, torch.arange(2.0 * n) + 100 * rank)
    keep("all_to_all_single", mine)
    sizes = [item + 1 for item in range(n)]
    mine = torch.zeros(n * (rank + 1))
    dist.all_to_all_single(
        mine, torch.arange(float(sum(sizes))) + 100 * rank, [rank + 1] * n, sizes
    )
    keep("all_to_all_single of sizes", mine)
    x, mine = torch.arange(5.0) + rank, torch.full((3,), float(rank))
    work = dist.all_reduce(x, async_op=True)
    other = dist.all_reduce(mine, async_op=True)
    result["future"] = [array.tolist() for array in other.get_future().wait()]
    work.wait()
    assert work.is_completed()
    keep("async", x, mine)
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    listed = [f"of {rank}", rank]
    dist.broadcast_object_list(listed, src=1)
    result["objects"] = objects, listed
    dist.barrier()
    return result


def messages() -> Any:
    """Send and receive, blocking and not, and between some of the ranks."""
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % n, (rank - 1) % n
    result: dict[str, Any] = {}
    sends = [dist.isend(torch.full((4,), rank + 10.0 * k), after) for k in range(3)]
    mine = [torch.zeros(4) for _ in range(3)]
    receives = [dist.irecv(each, before) for each in mine]
    for work in (*receives[::-1], *sends):
        work.wait()
    result["in order"] = [array.tolist() for array in mine]
    if rank == 0:
        for work in [dist.isend(torch.arange(3) + tag, 1, tag=tag) for tag in (5, 6)]:
            work.wait()
    if rank == 1:
        first, second = torch.zeros(3, dtype=torch.int64), torch.zeros(3).long()
        dist.recv(second, 0, tag=6)
        dist.recv(first, 0, tag=5)
        result["tags"] = first.tolist(), second.tolist()
    if rank:
        dist.send(torch.tensor([float(rank)]), 0)
    else:
        item = torch.zeros(1)
        sources = [(dist.recv(item), item.item()) for _ in range(n - 1)]
        result["anyone"] = sorted(sources)
    pair = dist.new_group([0, n - 1])
    x = torch.tensor([rank + 1.0])
    if rank in (0, n - 1):
        dist.all_reduce(x, group=pair)
    result["pair"] = x.item()
    ops = [
        dist.P2POp(dist.isend, torch.tensor([float(rank)]), after),
        dist.P2POp(dist.irecv, x, before),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    result["batch"] = x.item()
    dist.barrier()
    return result


def ddp() -> list[float]:
    """Train a small network as torch's tutorials on DDP do; returns the losses."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    torch.manual_seed(7)
    inputs = torch.randn(96, 20)
    data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    sampler = DistributedSampler(data, shuffle=True, seed=1)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    torch.manual_seed(dist.get_rank())  # DDP hands out the weights of rank 0
    layers = nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2)
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.001)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for rows, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(rows), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def sharded() -> list[float]:
    """Train with sharded optimizer states, sharded parameters, and in a pipeline."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    from torch.nn.parallel import DistributedDataParallel

    rank, n = dist.get_rank(), dist.get_world_size()
    losses = []

    def network() -> Any:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2))

    def train(model: Any, optimizer: Any) -> None:
        torch.manual_seed(rank)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 10)).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    model: Any = DistributedDataParallel(network())
    adam = torch.optim.Adam
    train(model, ZeroRedundancyOptimizer(model.parameters(), adam, lr=0.01))
    model = fully_shard(network(), mesh=init_device_mesh("cpu", (n,)))
    train(model, adam(model.parameters(), lr=0.01))

    torch.manual_seed(0)
    parts = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(n)]
    stage = PipelineStage(parts[rank], rank, n, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=nn.MSELoss())
    options = [torch.randn(8, 6)] if rank == 0 else []
    last: list[Any] = []
    if rank == n - 1:
        schedule.step(target=torch.ones(8, 6), losses=last)
    else:
        schedule.step(*options)
    return losses + [loss.item() for loss in last]


def compressed(compress: Any) -> tuple[list[float], int, bool]:
    """Train with a compressor as DDP's hook: losses, bytes, and whether as computed."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    import kit.torch

    torch.set_num_threads(1)
    kit.torch.init()
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 2))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.005)
    if compress is not None:
        model.register_comm_hook(None, kit.torch.Compress(compress))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    torch.manual_seed(2 + dist.get_rank())
    inputs = torch.randn(64, 40)
    labels, losses = (inputs[:, 0] > 0).long(), []
    for _ in range(40):
        optimizer.zero_grad()
        loss: Any = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    dist.barrier()
    counted = kit.torch.traffic()
    dist.barrier()
    dist.destroy_process_group()
    return losses, counted.measured, counted.measured == counted.formula
