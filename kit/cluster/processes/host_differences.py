"""Differences between the hosts of a cluster that are errors, or change the last bits.

OpenBLAS has a kernel for each family of CPUs, and numpy has some of its functions, such
as `exp`, once for each set of vector instructions. They sum and round in different
orders, so the same program may compute different last bits on different CPUs. Both
choose when they are loaded, and an environment variable restricts either choice.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace

from kit.arithmetic import DISABLED, KERNEL, differences
from kit.cluster.processes import host_calls
from kit.cluster.processes.host_calls import HostFacts
from kit.errors import StartFailed


def pins() -> list[str]:
    """Return the notebook's choice of kernels, as `NAME=VALUE` for all hosts."""
    values = {KERNEL: os.environ.get(KERNEL, "")}
    # numpy takes spaces and commas, but a launcher's command line splits at spaces.
    values[DISABLED] = ",".join(os.environ.get(DISABLED, "").replace(",", " ").split())
    return [f"{name}={value}" for name, value in values.items() if value]


def check_versions(facts: HostFacts) -> None:
    """Raise `StartFailed` for versions that cannot exchange functions and messages.

    Warns of a numpy that may compute different bits.
    """
    here = host_calls.versions()
    for name, mine in here.items():
        theirs = facts.versions[name]
        if name == "Python":  # pickled code travels between its patch releases
            mine, theirs = (version.rpartition(".")[0] for version in (mine, theirs))
        if mine == theirs:
            continue
        both = f"{facts.name} has {name} {theirs}, the notebook has {mine}"
        if name == "numpy":
            warnings.warn(f"{both}: results may differ in the last bits", stacklevel=2)
        else:
            raise StartFailed(
                f"{both}; install the same there, or name another python."
            )


def check_addresses(hosts: Sequence[HostFacts]) -> None:
    """Raise `StartFailed` for two machines with one address: tasks could not connect.

    So it is with virtual machines that each have a private network behind their host's.
    """
    first: dict[str, HostFacts] = {}
    for facts in hosts:
        earlier = first.setdefault(facts.address, facts)
        if earlier.machine != facts.machine:
            raise StartFailed(
                f"{earlier.name} and {facts.name} are two machines, and each of them "
                f"sees itself at {facts.address}, so neither can be reached there by "
                f"the other. Give them a network in which each has its own address."
            )


def compare_arithmetic(hosts: Sequence[HostFacts]) -> None:
    """Warn where two hosts compute with different machine code, and say what helps."""
    # Of another numpy than the notebook's, `check_versions` has warned.
    reference = hosts[0].arithmetic.numpy if hosts else ""
    named = [(host.name, replace(host.arithmetic, numpy=reference)) for host in hosts]
    for words in differences(named):
        warnings.warn(f"on the hosts, {words}", stacklevel=2)
