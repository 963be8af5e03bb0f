"""`psring demo`, or `python -m kit demo`: what the user types in a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kit.demo import check_installed
from kit.errors import KitError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    options = _parser().parse_args(arguments)
    chosen = vars(options)
    chosen.pop("command")
    if chosen["text_steps"] is None:
        chosen["text_steps"] = max(4, chosen["steps"] // 25)
    try:
        check_installed()
        from kit.demo.show import (  # the parser answers without loading it
            DemoOptions,
            show,
        )

        return show(DemoOptions(**chosen))
    except KitError as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the cluster was stopped.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="psring", description="Distributed training on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="train two models on a small cluster, switching topology while they run",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--ps", type=int, default=1, metavar="N", help="ps tasks")
    demo.add_argument("--worker", type=int, default=3, metavar="N", help="worker tasks")
    demo.add_argument(
        "--steps", type=int, default=600, metavar="N", help="steps for the digits"
    )
    demo.add_argument(
        "--text-steps",
        type=int,
        metavar="N",
        help="steps for the text; one for each 25 of the digits if not given",
    )
    demo.add_argument(
        "--link", default="1gbit", metavar="SPEED", help="links of the text model"
    )
    demo.add_argument("--seed", type=int, default=0, metavar="N", help="for all dice")
    demo.add_argument(
        "--out", type=Path, default=Path("build/demo"), metavar="DIR", help="for files"
    )
    demo.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
