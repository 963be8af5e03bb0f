"""A byte-level next-character model over Python's own source code, in plain numpy.

The text is in every installation: the source files of the standard library. The
model is large enough (2.3 million parameters) that its gradients are worth watching.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.demo.digits import softmax_loss

Array = npt.NDArray[Any]
Batch = tuple[Array, ...]

CONTEXT = 32  # bytes that the model sees
_EMBEDDING, _HIDDEN = 32, 1792


@dataclass(frozen=True)
class TextStep:
    """The step function. It has the text, so an example is only a position in it."""

    text: Array

    def __call__(
        self, params: Mapping[str, Array], batch: Batch
    ) -> Generator[tuple[str, Array], None, float]:
        """Yield each gradient once it is ready, last layer first; return the loss.

        What was yielded is sent while the rest is computed.
        """
        (starts,) = batch
        contexts = self.text[starts[:, None] + np.arange(CONTEXT)]
        seen = params["embedding"][contexts].reshape(len(starts), -1)
        hidden = np.maximum(seen @ params["w1"] + params["b1"], 0)
        logits = hidden @ params["w2"] + params["b2"]
        loss, error = softmax_loss(logits, self.text[starts + CONTEXT])
        yield "b2", error.sum(0)
        yield "w2", hidden.T @ error
        back = (error @ params["w2"].T) * (hidden > 0)
        yield "b1", back.sum(0)
        yield "w1", seen.T @ back
        embedded = np.zeros_like(params["embedding"])
        shape = (*contexts.shape, embedded.shape[1])
        # Not `+=`: that counts a byte once, however often it occurs in the batch.
        np.add.at(embedded, contexts, (back @ params["w1"].T).reshape(shape))
        yield "embedding", embedded
        return loss


@dataclass
class TextModel:
    """32 bytes, embedded, one hidden layer, then a guess at the next byte.

    An example is a position in the text; `train` holds all of them.
    """

    params: dict[str, Array]
    step: TextStep
    train: Batch


def text_model(seed: int = 0, max_bytes: int = 1_000_000) -> TextModel:
    """Read up to `max_bytes` of source text and draw the initial parameters."""
    text = np.frombuffer(_source_text(max_bytes), np.uint8)
    dice = np.random.default_rng(seed)

    def weights(*shape: int) -> Array:
        drawn = dice.standard_normal(shape) * np.sqrt(2 / shape[0])
        return np.asarray(drawn, np.float32)

    params = {
        "embedding": dice.standard_normal((256, _EMBEDDING)).astype(np.float32),
        "w1": weights(CONTEXT * _EMBEDDING, _HIDDEN),
        "b1": np.zeros(_HIDDEN, np.float32),
        "w2": weights(_HIDDEN, 256),
        "b2": np.zeros(256, np.float32),
    }
    starts = np.arange(len(text) - CONTEXT, dtype=np.int32)
    return TextModel(params, TextStep(text), (starts,))


def _source_text(max_bytes: int) -> bytes:
    folder = Path(sysconfig.get_path("stdlib"))
    texts: list[bytes] = []
    size = 0
    for path in sorted(folder.glob("*.py")):
        texts.append(path.read_bytes())
        size += len(texts[-1])
        if size >= max_bytes:
            break
    return b"".join(texts)[:max_bytes]
