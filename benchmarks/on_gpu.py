"""How long a step takes whose workers share a GPU, by size and by size of messages.

    python -m benchmarks.on_gpu [--quick] [--json FILE] [--device cpu]

Two workers in processes of their own exchange gradients of one array on a ring, and
update it. Their step function multiplies, so that nearly all time is the exchange's and
the optimizer's. `--device cpu` measures the same in the memory of the host.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np

import kit
from benchmarks.results import Table, arguments, report

MIB = 2**20
SIZES = (1, 16, 64)  # MiB of parameters
BUCKETS = (0, 4 * MIB, 16 * MIB)  # 0: as by default
OPTIMIZERS: dict[str, Any] = {
    "gradient descent": kit.GradientDescent(0.01),
    "Adam": kit.Adam(0.001),
}
_WAIT_S = 120.0


def step(params: Mapping[str, Any], batch: Any) -> Any:
    """Return gradients that cost one multiplication, by numpy or by cupy."""
    return 0.0, {"w": params["w"] * np.float32(1e-3)}


def measure(
    cluster: Any, device: str, mib: int, bucket: int, optimizer: Any, steps: int
) -> float:
    """Return the median milliseconds from the end of a step to that of the next."""
    params = {"w": np.ones(mib * MIB // 4, np.float32)}
    with kit.settings(bucket_bytes=bucket):
        run = kit.train(
            *(step, params, (np.zeros((8, 1), np.float32),)),
            optimizer=optimizer,
            topology="ring",
            steps=steps,
            batch=2,
            device=device,
            cluster=cluster,
        ).wait(_WAIT_S)
    rows = run.trace.steps
    ends = np.sort(rows["end"][rows["task"] == rows["task"][0]])
    return float(statistics.median(np.diff(ends)[steps // 3 :].tolist()) / 1e6)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    options = parser.parse_args()
    sizes, steps = (SIZES[:1], 30) if options.quick else (SIZES, 60)
    figures, rows = dict[str, float](), list[tuple[str, ...]]()
    with kit.Cluster(ps=0, worker=2) as cluster:
        for mib in sizes:
            for name, optimizer in OPTIMIZERS.items():
                times = [
                    measure(cluster, options.device, mib, bucket, optimizer, steps)
                    for bucket in BUCKETS
                ]
                for bucket, time in zip(BUCKETS, times, strict=True):
                    figures[f"{mib} MiB, {name}, {bucket}"] = time
                rows.append((f"{mib} MiB", name, *(f"{time:.2f}" for time in times)))
    notes = ("Milliseconds a step, by the size of a bucket.",)
    heads = "by default", "4 MiB", "16 MiB"
    title = f"Two workers on a ring, device={options.device!r}"
    head = ("parameters", "optimizer", *heads)
    report(Table(title, notes, head, tuple(rows)), figures, options.json)


if __name__ == "__main__":
    main()
