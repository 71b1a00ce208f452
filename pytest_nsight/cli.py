"""The command line `pytest-nsight`: parses it, runs the command, and turns whatever ends it into an exit code."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence

from pytest_nsight.controller.commands.command_arguments import VersionAction, split_command
from pytest_nsight.controller.commands.command_table import COMMANDS, Command
from pytest_nsight.model.argument_types import refuse_end_of_options
from pytest_nsight.model.errors import NsightError, explain_os_error
from pytest_nsight.processes.signals import interrupted_by_signals


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: what follows the program's name; the process's own where None.

    Returns:
        0 if all is well, 1 if the command found a fault, 2 if it could not do its work (`run` and `verify`: 4, as 2
        is pytest's code for an interrupted session); 128 and the number of the signal that ended it: 130 for
        Ctrl-C, 141 if nobody reads on.
    """
    parser = _parser()
    given, command = split_command(sys.argv[1:] if arguments is None else arguments)
    options, others = parser.parse_known_args(given)
    chosen: Command = options.chosen
    if others and not chosen.starts_pytest:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    options.others, options.command = others, command
    try:
        refuse_end_of_options(given)
        with interrupted_by_signals():
            text, code = chosen.run(options)
            if text:
                _print(text)
        # None where the caller has closed it.
        if sys.stdout is not None:
            sys.stdout.flush()
    except NsightError as error:
        print(f"pytest-nsight: {error}", file=sys.stderr)
        return chosen.failure_code
    except KeyboardInterrupt as interrupt:
        print("pytest-nsight: interrupted", file=sys.stderr)
        return 128 + getattr(interrupt, "signal", signal.SIGINT)
    except BrokenPipeError:
        # The reader, `head` say, has had enough.
        _discard_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        print(f"pytest-nsight: {explain_os_error(error)}", file=sys.stderr)
        _discard_output()
        return chosen.failure_code
    return code


def _discard_output() -> None:
    """Sends what is left of the output nowhere: Python would try again to write it, at its end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-nsight", description="Tools beside `pytest --nsight`, the gate for GPU kernels."
    )
    parser.add_argument("--version", action=VersionAction)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return parser


def _print(text: str) -> None:
    """Prints names of the traced program, which the terminal may lack characters for."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(text)


if __name__ == "__main__":
    sys.exit(main())
