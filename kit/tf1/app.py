"""`tf.app`: runs a program's `main` with the arguments that are not flags.

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

    `main` defaults to that of the program; its result is the exit status. A flag that
    is not defined is one of the rest, as in the original: programs read it themselves.
    """
    arguments = list(sys.argv if argv is None else argv)
    rest = flags.FLAGS(arguments, known_only=True)
    chosen = main or sys.modules["__main__"].main
    sys.exit(chosen(rest))
