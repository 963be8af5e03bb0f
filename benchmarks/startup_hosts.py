"""Seconds until a cluster on two hosts is ready: `kit.Cluster` and plain ipyparallel.

    python -m benchmarks.startup_hosts [--quick] [--json FILE] [--launchers ssh]
        [--slots N]

Both use the same launcher of ipyparallel, over ssh or Slurm, with `--slots` engines on
each host, two if not told; seconds are from the call until the first answer of every
engine. The hosts are namespaces of this machine, which needs root, sshd, and Slurm for
its rows.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from benchmarks.rank_group import ROOT, RanksFailed
from benchmarks.results import Table, arguments, median, ratio, report
from tests.hosts.test_slurm import Slurm, why_no_slurm
from tests.hosts.two_hosts import TwoHosts, missing

SYSTEMS = ("kit.Cluster", "ipyparallel.Cluster")
LAUNCHERS = ("ssh", "slurm")
# The program of one start: a launcher's name and what is needed of it come as a dict.
_ONE = """
import ast, os, sys, time
told = ast.literal_eval(sys.argv[1])
system, launcher, here = told["system"], told["launcher"], told["here"]
slots = told["slots"]
n = slots * len(told["hosts"])
if system == "kit.Cluster":
    import kit
    if launcher == "ssh":
        by = kit.launchers.SSH(
            dict.fromkeys(told["hosts"], slots), ssh_args=told["ssh_args"],
            python=sys.executable, address=here)
    else:
        by = kit.launchers.Slurm(address=here)
    start = lambda: kit.Cluster(ps=1, worker=n - 1, launcher=by)
    call = lambda cluster: cluster.call("all", int)
else:
    import ipyparallel
    from traitlets.config import Config
    config = Config()
    os.chdir(told["folder"])  # it leaves its files where it is
    config.SSHEngineSetLauncher.engines = dict.fromkeys(told["hosts"], slots)
    for name in "SSHLauncher", "SSHEngineLauncher", "SSHEngineSetLauncher":
        config[name].ssh_args = told["ssh_args"]
        config[name].scp_args = told["ssh_args"]
        config[name].remote_python = sys.executable
    start = lambda: ipyparallel.Cluster(
        n=n, engines=launcher, config=config, controller_ip=here,
        controller_location=here, log_level=50)
    call = lambda client: client[:].apply_sync(int)
begin = time.monotonic()
with start() as started:
    answers = call(started)
    took = time.monotonic() - begin
    assert len(answers) == n, answers
print("took", took)
"""
Run = Callable[[str], str]


@contextmanager
def launchers(hosts: TwoHosts, wanted: Sequence[str]) -> Iterator[dict[str, Run]]:
    """Give what runs a program where each launcher is known, by its name."""

    def here(lines: str) -> str:
        command = [sys.executable, "-c", _ONE, lines]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        return done.stdout + done.stderr

    with ExitStack() as stack:
        result: dict[str, Run] = {"ssh": here} if "ssh" in wanted else {}
        if "slurm" in wanted and (why := why_no_slurm()):
            print(f"no rows of Slurm: {why}", file=sys.stderr)
        elif "slurm" in wanted:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            slurm = Slurm(hosts, folder)
            stack.callback(slurm.end)
            slurm.start()
            result["slurm"] = lambda output: slurm.python(_ONE, output)
        yield result


def seconds(run: Run, system: str, launcher: str, hosts: TwoHosts, slots: int) -> float:
    """Start once and return how long it took."""
    reply = {
        **{"system": system, "launcher": launcher, "here": hosts.here},
        **{"hosts": list(hosts.address.values()), "ssh_args": hosts.ssh_args},
        **{"slots": slots, "folder": str(hosts.folder)},
    }
    lines = run(repr(reply)).splitlines()
    took = [line for line in lines if line.startswith("took ")]
    if not took:
        raise RanksFailed(f"{system} over {launcher}: {' '.join(lines)[-2000:]}")
    return float(took[0].split()[1])


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--launchers", nargs="+", choices=LAUNCHERS, default=LAUNCHERS)
    parser.add_argument("--slots", type=int, default=2, help="engines on each host")
    options = parser.parse_args()
    if reason := missing():
        sys.exit(f"no two hosts: {reason}")
    rounds = options.rounds or (2 if options.quick else 5)
    result: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            hosts = stack.enter_context(TwoHosts(folder))
        except (OSError, psutil.Error) as error:
            sys.exit(f"no two hosts: {error}")
        runs = stack.enter_context(launchers(hosts, options.launchers))
        for name, run in runs.items():
            result[name] = {system: [] for system in SYSTEMS}
            for _ in range(rounds):
                for system in SYSTEMS:
                    took = seconds(run, system, name, hosts, options.slots)
                    result[name][system].append(took)
    table = Table(
        f"Seconds until {2 * options.slots} engines on two hosts answer",
        (
            f"Seconds, median of {rounds} starts of each in turn; ratio: the first / "
            "the second.",
        ),
        ("launcher", *SYSTEMS, "ratio"),
        tuple(_row(name, by_system) for name, by_system in result.items()),
    )
    report(table, {"seconds": result}, options.json)


def _row(name: str, result: dict[str, list[float]]) -> tuple[str, ...]:
    medians = [median(result[system]) for system in SYSTEMS]
    return (name, *(f"{item:.2f}" for item in medians), ratio(*medians))


if __name__ == "__main__":
    main()
