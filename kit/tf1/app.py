"""`tf.app`: runs a program's `main`, with what its flags did not take.

tf.app.flags.DEFINE_integer("task_index", 0, "which task this is")
FLAGS = tf.app.flags.FLAGS

def main(_): print(FLAGS.task_index)

if __name__ == "__main__":
    tf.app.run()
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from kit.tf1 import flags as flags


def run(
    main: Callable[[Any], Any] | None = None, argv: Sequence[str] | None = None
) -> NoReturn:
    """Read the flags, call `main` with the rest of the arguments, and end the process.

    `main` is the `main` of the program unless given; what it returns is the exit
    status.
    """
    given = list(sys.argv if argv is None else argv)
    rest = flags.FLAGS(given, known_only=True)
    chosen = main or sys.modules["__main__"].main
    sys.exit(chosen(rest))
