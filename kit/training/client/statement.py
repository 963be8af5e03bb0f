"""What a run was computed with, and a paragraph about it for a paper."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from kit.arithmetic import Arithmetic

if TYPE_CHECKING:
    from kit.training.client.run import Run

_LOOK_S = 5.0


def environment_of(run: Run) -> dict[str, Any]:
    """Return versions, BLAS and its threads, the CPU, the commit and the tasks."""
    plain = run.source.leads().get("arithmetic")
    versions = run.source.versions()
    return {
        **{name: text for name, text in versions.items() if name != "commit"},
        **(Arithmetic.from_plain(plain).to_plain() if plain else {}),
        **run.source.leads().get("libraries", {}),
        "commit": versions.get("commit", ""),
        "tasks": [task.short for task in run.job.tasks],
    }


def versions_here() -> dict[str, str]:
    """Return the versions of psring and Python here, and the commit."""
    return {
        "psring": _version(),
        "python": platform.python_version(),
        "commit": commit(),
    }


def _version() -> str:
    try:
        return version("psring")
    except PackageNotFoundError:  # run from a checkout
        return "of a checkout"


@cache
def commit() -> str:
    """Return the commit of the folder that this process was in when first asked.

    With "and changes" where files that git knows have others; empty outside of a
    repository and without git.
    """
    with suppress(OSError, subprocess.SubprocessError):
        head = _git("rev-parse", "HEAD")
        is_changed = _git("status", "--porcelain", "--untracked-files=no")
        return f"{head[:12]}{' and changes' if is_changed else ''}"
    return ""


def _git(*words: str) -> str:
    ran = subprocess.run(
        ["git", *words], capture_output=True, check=True, timeout=_LOOK_S, text=True
    )
    return ran.stdout.strip()


def statement(run: Run) -> str:
    """Return one paragraph that says what is reproducible, and how."""
    job, of = run.job, environment_of(run)
    servers = f" and {len(job.ps)} parameter servers" if job.ps else ""
    how = f"{run.step:,} steps of mini-batches of {job.batch} with {job.optimizer}"
    if job.local_steps:
        how += f", of {job.local_steps} local steps each with {job.inner}"
    if job.compress:
        how += f", gradients compressed by {job.compress}"
    where = f"{len(job.workers)} workers{servers} ({run.topology})"
    names = {"psring": "psring", "python": "Python", "numpy": "numpy"}
    names |= {"torch": "torch", "jax": "jax"}
    versions = [f"{name} {of[key]}" for key, name in names.items() if of.get(key)]
    if of.get("blas"):
        versions.append(f"{of['blas']} with {of['threads']} of its threads")
    versions += [of["cpu"]] if of.get("cpu") else []
    versions += [f"commit {of['commit']}"] if of["commit"] else []
    return (
        f"The training made {how}, on {where}, from seed {job.seed}; it was computed "
        f"with {', '.join(versions)}. {_reproducible(run)}."
    )


def _reproducible(run: Run) -> str:
    epochs = run.trace.epochs
    if any(epoch.is_asynchronous for epoch in epochs) or not run.job.synchronous:
        replay = ", and its recording replays that of this one" * bool(run.recording)
        return (
            f"Its updates are asynchronous: another run applies them in another order "
            f"and gives other numbers{replay}"
        )
    if run.job.aggregate:
        return (
            "Each step takes the gradients that came first: another run may take others"
        )
    if run.unrepeatable:
        return "Its step function gave other values when it was called again"
    return (
        "Its steps are synchronous: if the step function depends on its arguments "
        "alone, the same seed, data, batch, numbers of workers, BLAS and threads give "
        "the same bits, whatever loses or moves its tasks; another BLAS or CPU may "
        "change the last bits"
    )
