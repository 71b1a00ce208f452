"""The command line `pytest-nsight`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_nsight._version import __version__
from pytest_nsight.errors import NsightError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: what follows the program's name; the process's own where None.

    Returns:
        0 if all is well, 1 if the command found a fault, 2 if it could not do its work.
    """
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except NsightError as error:
        print(f"pytest-nsight: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-nsight", description="Tools beside `pytest --nsight`, the gate for GPU kernels."
    )
    parser.add_argument("--version", action="version", version=f"pytest-nsight {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    model = commands.add_parser("model", help="print the name of this machine's folder of baselines")
    model.set_defaults(run=_model)

    doctor = commands.add_parser("doctor", help="say whether this machine can measure, and what it lacks")
    doctor.set_defaults(run=_doctor)

    show = commands.add_parser("show", help="show kernels, ranges and gaps of an Nsight Systems export")
    show.add_argument("report", type=Path, help="an .sqlite export, or a .nsys-rep report")
    show.set_defaults(run=_show)
    return parser


def _model(_: argparse.Namespace) -> int:
    from pytest_nsight.baselines.store import model_slug  # noqa: PLC0415 - each command imports its own needs
    from pytest_nsight.measure.device import current_device  # noqa: PLC0415

    print(model_slug(current_device().name))
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from pytest_nsight.doctor import checks, render  # noqa: PLC0415

    found = checks()
    print(render(found))
    return 0 if all(check.ok for check in found) else 1


def _show(options: argparse.Namespace) -> int:
    from pytest_nsight.show import show  # noqa: PLC0415

    print(show(options.report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
