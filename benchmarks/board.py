"""What a live board costs the training that it shows.

    python -m benchmarks.board [--quick] [--json FILE]

A training of a digits classifier goes on in stretches with and without a board (off on,
on off, ...), in a real kernel: the board asks for news, draws, and sends to a page that
takes everything at once and draws nothing. Each pair gives one ratio of step rates. A
browser on the same machine costs what it draws, on top of that. The kernel's processor
time shows what a board takes even if other work disturbs the rates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jupyter_client.manager import KernelManager

from benchmarks.rank_group import ROOT
from benchmarks.results import Table, arguments, median, report

GOAL = 0.95
_PATIENCE_S, _READY_S = 600, 60


class Kernel:
    """A kernel that runs lines, and counts what it sends to the page of its widgets."""

    def __init__(self, client: Any) -> None:
        """Speak through a client of jupyter_client."""
        self._client = client  # Any: jupyter_client is not typed
        self._printed = ""
        self.n_bytes = 0

    def run(self, line: str) -> str:
        """Return what a line of Python prints; raises `RuntimeError` if it raises."""
        self._printed = ""
        reply = self._client.execute_interactive(
            line, timeout=_PATIENCE_S, output_hook=self._take
        )["content"]
        if reply["status"] != "ok":
            raise RuntimeError(f"{line}: {reply.get('ename')}: {reply.get('evalue')}")
        return self._printed

    def _take(self, message: Any) -> None:
        if message["msg_type"] == "stream":
            self._printed += message["content"]["text"]
        elif message["msg_type"].startswith("comm"):
            self.n_bytes += len(json.dumps(message["content"]))
            self.n_bytes += sum(len(item) for item in message["buffers"])


@contextmanager
def kernel() -> Iterator[Kernel]:
    """Start a kernel at the root of the repository, and end it with its cluster."""
    manager: Any = KernelManager(kernel_name="python3", transport="ipc")
    manager.start_kernel(cwd=str(ROOT))
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=_READY_S)
        yield Kernel(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def compare(
    topologies: Sequence[str], steps: int, rounds: int, workers: int = 3
) -> dict[str, dict[str, list[float]]]:
    """Return for each topology the figures of all rounds.

    They are those of `Notebook.turns`, and `sent`, the bytes a second to the page.
    """
    result: dict[str, dict[str, list[float]]] = {}
    with kernel() as notebook:
        notebook.run("from benchmarks.board_kernel import Notebook")
        notebook.run(f"book = Notebook(workers={workers})")
        for topology in topologies:
            before = notebook.n_bytes
            line = f"{topology!r}, {steps}, {rounds}"
            rates = json.loads(notebook.run(f"print(book.turns({line}))"))
            sent = notebook.n_bytes - before
            result[topology] = rates | {"sent": [sent / sum(rates["seconds on"])]}
        notebook.run("book.close()")
    return result


def pairs(rates: dict[str, list[float]]) -> list[float]:
    """Return the ratios on / off of the rounds.

    >>> pairs({"off": [2.0, 4.0], "on": [1.0, 4.0]})
    [0.5, 1.0]
    """
    both = zip(rates["on"], rates["off"], strict=True)
    return [on / off for on, off in both]


def rows(results: dict[str, dict[str, list[float]]]) -> tuple[tuple[str, ...], ...]:
    """Return a row of cells for each topology."""
    table = []
    for topology, rates in results.items():
        ratios = pairs(rates)
        cells = [f"{median(rates[word]):.0f}" for word in ("off", "on")]
        cells += [f"{median(ratios):.3f}", f"{min(ratios):.3f} to {max(ratios):.3f}"]
        costs = [100 * median(rates[f"cost {word}"]) for word in ("off", "on")]
        cells += [f"{costs[0]:.1f} % and {costs[1]:.1f} %"]
        cells += [f"{median(rates['sent']) / 1e3:.0f} kB"]
        table.append((topology, *cells))
    return tuple(table)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, help="of each stretch")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--topologies", nargs="+", default=["ps", "ring"])
    options = parser.parse_args()
    rounds = options.rounds or (5 if options.quick else 30)
    steps = options.steps or (500 if options.quick else 1000)
    result = compare(options.topologies, steps, rounds, options.workers)
    table = Table(
        "Cost of a live board, median steps a second",
        (
            f"on / off is the median of the ratios of paired stretches; the goal is "
            f"{GOAL} or more. 1 parameter server, {options.workers} workers, no "
            f"browser.",
        ),
        (
            *("topology", "board off", "board on", "on / off", "all pairs"),
            "of a processor, without and with a board",
            "sent to the page in a second",
        ),
        rows(result),
    )
    report(table, {"steps_per_second": result}, options.json)


if __name__ == "__main__":
    main()
