"""What this package can do beside its core, feature by feature; each can be deleted.

The core trains: members, boundaries, exchanges, losses. A feature stands beside it, in
files of its own, and no file of the core imports one (`tests/test_features.py`). Where
the core comes to something that a feature does, it asks for that here, by name. So a
copy of the package without some of them works, and says in a sentence what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final, NamedTuple

from kit.errors import UnimplementedError


class Feature(NamedTuple):
    """One feature; each list is a text of names.

    Attributes:
        name: what it is called in a sentence.
        modules: its modules and packages; nothing else is in their files.
        tests: its tests, in `tests`.
        exports: its public names in `kit`.
        needs: the features without which it does not work.
    """

    name: str
    modules: str
    tests: str
    exports: str = ""
    needs: tuple[str, ...] = ()

    def has(self, module: str) -> bool:
        """Whether a module, or what is in it, is of this feature."""
        return f"{module}.".startswith(
            tuple(f"{item}." for item in self.modules.split())
        )


FEATURES: Final = (
    Feature("gossiping", "kit.exchange.topologies.gossip", "training/test_gossip.py"),
    Feature(
        "sums by trees",
        "kit.exchange.topologies.tree kit.exchange.topologies.recursive_doubling",
        "exchange/test_trees.py",
    ),
    Feature(
        "asynchronous training",
        "kit.training.features.asynchronous",
        "training/test_training_pace.py",
    ),
    Feature(
        "backup workers",
        "kit.training.features.backup_workers",
        "training/test_backup_workers.py",
        needs=("asynchronous training",),
    ),
    Feature(
        "local steps",
        "kit.training.features.local_steps",
        "training/test_local_steps.py",
    ),
    Feature(
        "compression",
        "kit.exchange.compression.feedback kit.exchange.compression.top_k "
        "kit.exchange.compression.clipping kit.exchange.compression.gathering "
        "kit.exchange.compression.loss_scale kit.exchange.compression.whole "
        "kit.exchange.compression.power_sgd kit.exchange.compression.quantization "
        "kit.training.features.compressed_steps kit.testing.contracts.compressor",
        "training/test_compression.py training/test_gathering.py "
        "training/test_loss_scale.py",
        "ClipByNorm Gathered Krum LossScale MajorityVote Median PowerSGD TopK "
        "TrimmedMean testing.check_compressor",
    ),
    Feature(
        "hooks in trainings",
        "kit.training.features.hooks",
        "training/test_hooks.py",
        needs=("checkpoints", "graphs in trainings"),
    ),
    Feature(
        "graphs in trainings",
        "kit.training.features.graph_step",
        "training/test_graph_step.py training/test_graph_training.py",
        "load_variables",
    ),
    Feature(
        "rehearsals",
        "kit.rehearsal",
        "rehearsal",
        "Recommendation Rehearsal recommend rehearse",
        needs=("compression",),
    ),
    Feature(
        "recordings",
        "kit.recording",
        "recording",
        "Recording diff load_run replay",
        needs=("compression", "graphs in trainings"),
    ),
    Feature(
        "evolution",
        "kit.training.features.evolve",
        "training/test_evolve.py",
        "evolve",
        needs=("checkpoints", "elastic trainings"),
    ),
    Feature(
        "transport over MPI",
        "kit.wire.mpi kit.server.rank",
        "server/test_ranks.py server/rank_programs.py",
    ),
    Feature(
        "training on GPUs",
        "kit.training.features.on_gpu",
        "training/test_on_gpu.py training/test_fused.py",
    ),
    Feature(
        "checkpoints",
        "kit.training.features.checkpointing",
        "training/test_checkpoints.py training/test_savers.py",
        "Checkpoints load_checkpoint",
    ),
    Feature(
        "elastic trainings",
        "kit.training.features.elastic kit.server.elastic",
        "elastic",
        "Elastic",
    ),
)


class FeatureOptions:
    """How a feature is to do its work, such as `kit.Checkpoints` or `kit.Elastic`."""


def load(where: str) -> Any:
    """Return what is called so: "kit.training.features.evolve:evolve".

    Raises `UnimplementedError` if it is of a feature that this copy does not have.
    """
    module, _, name = where.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise _lacks(error) from None


def load_if_there(where: str) -> Any:
    """Return the same; None for what this copy does not have."""
    with suppress(UnimplementedError):
        return load(where)
    return None


@contextmanager
def if_there() -> Iterator[None]:
    """Import the names of a feature, if this copy has it."""
    try:
        yield
    except ModuleNotFoundError as error:
        _lacks(error)


def lacking(package: str, name: str) -> Exception:
    """Return what a package says of a name that it does not have."""
    wanted = f"{package}.{name}".removeprefix("kit.")
    for feature in FEATURES:
        if wanted in feature.exports.split():
            return _missing(feature)
    return AttributeError(f"module {package!r} has no attribute {name!r}")


def _lacks(error: ModuleNotFoundError) -> Exception:
    for feature in FEATURES:
        if feature.has(error.name or ""):
            return _missing(feature)
    raise error


def _missing(feature: Feature) -> UnimplementedError:
    return UnimplementedError(
        f"this copy of psring has no {feature.name}; install the whole package."
    )
