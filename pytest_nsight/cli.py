"""The command line `pytest-nsight`."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_nsight.compare.compare_command import add_compare_arguments, compare, write_changes
from pytest_nsight.controller.commands.command_arguments import (
    VersionAction,
    add_baselines_arguments,
    add_bisect_arguments,
    add_calibrate_arguments,
    add_folders,
    add_history_arguments,
    add_merge_arguments,
    add_report_arguments,
    add_verify_arguments,
    split_command,
)
from pytest_nsight.model.argument_types import refuse_end_of_options
from pytest_nsight.model.errors import NsightError, explain_os_error
from pytest_nsight.processes.signals import interrupted_by_signals
from pytest_nsight.report.table import speaks_unicode, terminal_width
from pytest_nsight.show.show_command import add_show_arguments, write_shown

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_MALLOC_SETTINGS = ((_TRIM_THRESHOLD, 2**31 - 1), (_MMAP_THRESHOLD, 2**30), (_ARENA_MAX, 1))
"""Parameters of mallopt(3): memory is given back from 2 GiB on, and all threads share it."""


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
    if others and options.run not in (_bisect, _calibrate, _run, _verify):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    # What these do not know is pytest's.
    options.others, options.command = others, command
    try:
        refuse_end_of_options(given)
        with interrupted_by_signals():
            code: int = options.run(options)
        # None where the caller has closed it.
        if sys.stdout is not None:
            sys.stdout.flush()
    except NsightError as error:
        print(f"pytest-nsight: {error}", file=sys.stderr)
        return int(options.failure_code)
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
        return int(options.failure_code)
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

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str, **more: Any) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", **more)
        command.set_defaults(run=run, failure_code=4 if name in ("run", "verify") else 2)
        return command

    add("model", _model, "print the name of this machine's folder of baselines")
    add("doctor", _doctor, "say whether this machine can measure, and what it lacks; exit code 1 if it cannot")
    add("init", _init, "set this repository up: a first perf test, settings, workflows")
    add_folders(add("clean", _clean, "remove files that killed sessions and commands left behind"))
    add_show_arguments(
        add("show", _show, "show where the time of a recording goes: devices, ranges, kernels, copies, idle time")
    )
    add_compare_arguments(
        add("compare", _compare, "two sessions, baseline files or traces side by side; exit code 1 on a regression")
    )
    add_report_arguments(add("report", _report, "show recorded sessions, or judge all shards of one"))
    add_merge_arguments(
        add(
            "merge-baselines",
            _merge_baselines,
            "unite the runs of two branches that both saved: git's merge driver, or by hand",
            epilog="`pytest-nsight init` makes it git's merge driver. By hand: pytest-nsight merge-baselines FILE.",
        )
    )
    add_baselines_arguments(add("baselines", _baselines, "list, show or remove stored cases"))
    add_history_arguments(add("history", _history, "show a case over the commits that measured it"))
    add_bisect_arguments(
        add(
            "bisect",
            _bisect,
            "find the commit after which a case launches other kernels or is slower",
            allow_abbrev=False,
            epilog="Other arguments go to pytest. Exit code 0: one commit; 1: several may be it; 2: no search.",
        )
    )
    run = add(
        "run",
        _run,
        "measure what a benchmark script passes to do_bench, Timer and the like, and gate it like tests",
        allow_abbrev=False,
        usage="pytest-nsight run [-h] [--name NAME] [options of pytest --nsight] -- python bench.py ...",
    )
    run.add_argument("--name", help="name to use in case ids in place of the script's arguments")
    add_verify_arguments(
        add(
            "verify",
            _verify,
            "say whether a kept session belongs to this very tree, and judge it again; needs no GPU",
            allow_abbrev=False,
            epilog="Other arguments go to pytest. Exit code 0: the session belongs to this tree and the gate "
            "passes; 1: it does not, or the gate fails; 4: cannot say.",
        )
    )
    add_calibrate_arguments(
        add(
            "calibrate",
            _calibrate,
            "measure unchanged code: its noise, and how often the gate fails it (false alarms)",
            allow_abbrev=False,
            epilog="Other arguments go to pytest; without a path, perf_tests/ is measured.",
        )
    )
    return parser


def _model(_: argparse.Namespace) -> int:
    from pytest_nsight.baselines.store import model_slug  # noqa: PLC0415 - each command imports its own needs
    from pytest_nsight.collectors.machine import measured_product  # noqa: PLC0415

    _print(model_slug(measured_product()))
    return 0


def _init(_: argparse.Namespace) -> int:
    from pytest_nsight.setup_repository.initialise import render, set_up  # noqa: PLC0415

    _print(render(set_up(Path.cwd())))
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from pytest_nsight.collectors.doctor import can_measure, checks, render  # noqa: PLC0415

    found = checks()
    _print(render(found))
    return 0 if can_measure(found) else 1


def _clean(options: argparse.Namespace) -> int:
    from pytest_nsight.controller.abandoned_sessions import sweep  # noqa: PLC0415

    _print(str(sweep(options.sessions, options.baselines)))
    return 0


def _baselines(options: argparse.Namespace) -> int:
    from pytest_nsight.controller.commands import baselines_command as command  # noqa: PLC0415

    query = command.BaselinesQuery(options.baselines, options.model, tuple(options.words))
    if options.action == "prune":
        text, code = command.prune(query, is_wanted=options.delete)
        _print(text)
        return code
    write = command.list_stored if options.action == "list" else command.show_stored
    _print(write(query, terminal_width()))
    return 0


def _bisect(options: argparse.Namespace) -> int:
    from pytest_nsight.controller.commands.bisect_command import BisectRequest, bisect  # noqa: PLC0415

    given = options.good, options.bad, options.case, options.improvement, options.minutes, options.json
    text, code = bisect(BisectRequest(*given), options.others, terminal_width())
    _print(text)
    return code


def _report(options: argparse.Namespace) -> int:
    from pytest_nsight.controller.commands.report_command import ReportRequest, report  # noqa: PLC0415

    request = ReportRequest(tuple(options.sessions), options.html, tuple(options.report), options.table)
    done = report(request, terminal_width())
    if done.text:
        _print(done.text)
    return int(done.fails)


def _merge_baselines(options: argparse.Namespace) -> int:
    from pytest_nsight.baselines.merge import merge  # noqa: PLC0415

    if said := merge(options.files):
        _print(said)
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    from pytest_nsight.calibrate.command import calibrate, find_pools  # noqa: PLC0415

    pools, code = find_pools(options)
    _print(calibrate(pools, stored=options.stored, resamples=options.resamples, seed=options.seed))
    return 0 if code == 0 else 1


def _run(options: argparse.Namespace) -> int:
    from pytest_nsight.controller.commands.script_command import run  # noqa: PLC0415

    return run(options.others, options.command, options.name)


def _verify(options: argparse.Namespace) -> int:
    from pytest_nsight.controller.commands.verify_command import verify  # noqa: PLC0415

    found = verify(options.session, options.tree, options.others)
    _print(found.text)
    return found.code


def _history(options: argparse.Namespace) -> int:
    from pytest_nsight.history.history_page import write_page  # noqa: PLC0415
    from pytest_nsight.history.history_report import find_histories, render_text  # noqa: PLC0415
    from pytest_nsight.report.registry import describe_written  # noqa: PLC0415

    found = find_histories(options.baselines, options.sessions, options.words, options.metric)
    if options.html:
        write_page(found, options.html)
        _print(describe_written(options.html))
        return 0
    _print(render_text(found, terminal_width(), unicode=speaks_unicode(sys.stdout.encoding)))
    return 0


def _show(options: argparse.Namespace) -> int:
    _keep_freed_memory()
    _print(write_shown(options))
    return 0


def _compare(options: argparse.Namespace) -> int:
    _keep_freed_memory()
    changes = compare(options.before, options.after, options.band)
    _print(write_changes(changes, options.format, options.top))
    return 1 if changes.regressions else 0


def _keep_freed_memory() -> None:
    """Makes glibc reuse the memory of freed arrays; other C libraries lack the function.

    By default it gives each back to the kernel and gets the next one page by page: a tenth of the CPU time of
    `show` on a million kernels.
    """
    import ctypes  # noqa: PLC0415

    if sys.platform != "linux":
        return
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        for parameter, value in _MALLOC_SETTINGS:
            mallopt(parameter, value)


def _print(text: str) -> None:
    """Prints names of the traced program, which the terminal may lack characters for."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(text)


if __name__ == "__main__":
    sys.exit(main())
