"""The tags by which those who load a SavedModel choose a graph."""

from __future__ import annotations

from typing import Final

SERVING: Final = "serve"
TRAINING: Final = "train"
GPU: Final = "gpu"
TPU: Final = "tpu"
