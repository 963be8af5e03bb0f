"""Record what the original does in the cases.

    python tests/tf1/record.py v1 [topic ...]           with a Python that has 1.15
    python tests/tf1/record.py v2 [topic ...] --check   one that has a 2.x

The topics named, or all, are recorded anew; what the other version gave stays as it is.
With `--check` nothing is written, and the exit status tells whether it would change.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 20.0  # a case that takes longer is taken to wait for ever


def load(version: str) -> Any:
    """Import the original, quietly; its successor has no `contrib`."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # rounding that depends on the machine
    if version == "v1":
        import tensorflow as tf
    else:
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        tf.contrib = _Nothing()
    tf.logging.set_verbosity(tf.logging.FATAL)
    return tf


class _Nothing:
    """Stands for a package that this version does not have."""

    def __getattr__(self, name: str) -> Any:
        from tests.tf1.outcome import Absent

        raise Absent(name)


def record(tf: Any, case: Any) -> Any:
    """Run one case and return the part of its outcome that is kept."""
    from tests.tf1.outcome import outcome_of

    result: list[Any] = []
    thread = threading.Thread(
        target=lambda: result.append(outcome_of(case, tf)), daemon=True
    )
    thread.start()
    thread.join(BOUND_S)
    if thread.is_alive():
        return {"blocks": True}
    if not result:
        raise SystemExit("the case is wrong; its error stands above.")
    return {key: value for key, value in result[0].items() if not key.startswith("_")}


def main(arguments: list[str]) -> int:
    """Record the topics; return the exit status."""
    is_check = "--check" in arguments
    version, *chosen = [
        argument for argument in arguments if not argument.startswith("--")
    ]
    original = load(version)
    sys.path.insert(0, str(ROOT))
    from tests.tf1 import gallery
    from tests.tf1.look import tf

    tf.module = original

    n_changed = 0
    for topic in chosen or gallery.topics():
        book: Any = gallery.recorded(topic)
        before = json.dumps(book, sort_keys=True)
        cases = gallery.cases_of(topic)
        book[version] = {name: record(tf, case) for name, case in cases.items()}
        changed = json.dumps(book, sort_keys=True) != before
        n_changed += changed
        print(f"{topic}: {len(cases)} cases{', changed' if changed else ''}")
        if not is_check:
            gallery.record_path(topic).write_text(gallery.written(book), "utf-8")
    return int(is_check and n_changed > 0)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # the original's servers cannot be stopped
