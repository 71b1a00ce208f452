"""The commands of `pytest-nsight`: what each is called, takes and does, in the order of `--help`.

Every start of the program loads this module, so each command imports its own needs when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.compare.compare_command import add_compare_arguments, compare, write_changes
from pytest_nsight.controller.commands.command_arguments import (
    add_baselines_arguments,
    add_bisect_arguments,
    add_calibrate_arguments,
    add_folders,
    add_history_arguments,
    add_merge_arguments,
    add_report_arguments,
    add_script_arguments,
    add_verify_arguments,
)
from pytest_nsight.report.table import speaks_unicode, terminal_width
from pytest_nsight.show.show_command import add_show_arguments, write_shown

# ruff: noqa: PLC0415 - each command imports its own needs

Answer = tuple[str, int]
"""The text that a command prints, "" for none, and its exit code."""


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_MALLOC_SETTINGS = ((_TRIM_THRESHOLD, 2**31 - 1), (_MMAP_THRESHOLD, 2**30), (_ARENA_MAX, 1))
"""Parameters of mallopt(3) and their values: memory is given back from 2 GiB on, and all threads share one heap."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: what the user types.
        run: does the command's work.
        text: what it does, for the help; a phrase without a full stop.
        declare: adds its arguments to its parser.
        usage: replaces argparse's usage line, None for argparse's own.
        epilog: ends its help.
        starts_pytest: whether the arguments that it does not declare go to a pytest that it starts.
        failure_code: the exit code if it could not do its work.
    """

    name: str
    run: Callable[[argparse.Namespace], Answer]
    text: str
    declare: Callable[[argparse.ArgumentParser], object] = lambda _: None
    usage: str | None = None
    epilog: str | None = None
    starts_pytest: bool = False
    failure_code: int = 2

    def add_to(self, commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        """Adds the command's parser to those of the program."""
        parser = commands.add_parser(
            self.name,
            help=self.text,
            description=f"{self.text[0].upper()}{self.text[1:]}.",
            usage=self.usage,
            epilog=self.epilog,
            # An abbreviation may be one of pytest's own options.
            allow_abbrev=not self.starts_pytest,
        )
        self.declare(parser)
        parser.set_defaults(chosen=self)


def _model(_: argparse.Namespace) -> Answer:
    from pytest_nsight.baselines.store import model_slug
    from pytest_nsight.processes.machine import measured_product

    return model_slug(measured_product()), 0


def _doctor(_: argparse.Namespace) -> Answer:
    from pytest_nsight.collectors.doctor import can_measure, checks, render

    found = checks()
    return render(found), 0 if can_measure(found) else 1


def _init(_: argparse.Namespace) -> Answer:
    from pytest_nsight.setup_repository.initialise import render, set_up

    return render(set_up(Path.cwd())), 0


def _baselines_of(options: argparse.Namespace) -> Path:
    """The folder that a command is about: the one given, else that of the project around the current folder."""
    if options.baselines is not None:
        return Path(options.baselines)
    from pytest_nsight.controller.rootdir import find_baselines

    return find_baselines(Path.cwd())


def _clean(options: argparse.Namespace) -> Answer:
    from pytest_nsight.controller.abandoned_sessions import remove_abandoned

    return str(remove_abandoned(options.sessions, _baselines_of(options))), 0


def _show(options: argparse.Namespace) -> Answer:
    _keep_freed_memory()
    return write_shown(options), 0


def _compare(options: argparse.Namespace) -> Answer:
    _keep_freed_memory()
    changes = compare(options.before, options.after, options.band)
    return write_changes(changes, options.format, options.top), 1 if changes.regressions else 0


def _keep_freed_memory() -> None:
    """Makes glibc reuse the memory of freed arrays; other C libraries lack the function.

    By default it gives each back to the kernel and gets the next one page by page: a tenth of the CPU time of
    `show` on a million kernels.
    """
    import ctypes

    if sys.platform != "linux":
        return
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        for parameter, value in _MALLOC_SETTINGS:
            mallopt(parameter, value)


def _report(options: argparse.Namespace) -> Answer:
    from pytest_nsight.controller.commands.report_command import ReportRequest, report

    request = ReportRequest(tuple(options.sessions), options.html, tuple(options.report), options.table)
    done = report(request, terminal_width())
    return done.text, int(done.fails)


def _merge_baselines(options: argparse.Namespace) -> Answer:
    from pytest_nsight.baselines.merge import merge

    return merge(options.files), 0


def _baselines(options: argparse.Namespace) -> Answer:
    from pytest_nsight.controller.commands import baselines_command as command

    query = command.BaselinesQuery(_baselines_of(options), options.model, tuple(options.words))
    if options.action == "prune":
        return command.prune(query, is_wanted=options.delete)
    write = command.list_stored if options.action == "list" else command.show_stored
    return write(query, terminal_width()), 0


def _history(options: argparse.Namespace) -> Answer:
    from pytest_nsight.history.history_page import write_page
    from pytest_nsight.history.history_report import find_histories, render_text
    from pytest_nsight.report.registry import describe_written

    found = find_histories(_baselines_of(options), options.sessions, options.words, options.metric)
    if options.html:
        write_page(found, options.html)
        return describe_written(options.html), 0
    return render_text(found, terminal_width(), unicode=speaks_unicode(sys.stdout.encoding)), 0


def _bisect(options: argparse.Namespace) -> Answer:
    from pytest_nsight.controller.bisection.bisect_plugin import BisectRequest
    from pytest_nsight.controller.commands.bisect_command import bisect

    given = options.good, options.bad, options.case, options.improvement, options.minutes, options.json
    return bisect(BisectRequest(*given), options.others, terminal_width())


def _run(options: argparse.Namespace) -> Answer:
    from pytest_nsight.controller.commands.script_command import run

    return "", run(options.others, options.command, options.name)


def _verify(options: argparse.Namespace) -> Answer:
    from pytest_nsight.controller.commands.verify_command import verify

    found = verify(options.session, options.tree, options.others)
    return found.text, found.code


def _calibrate(options: argparse.Namespace) -> Answer:
    from pytest_nsight.calibrate.command import calibrate, find_pools

    pools, code = find_pools(options)
    text = calibrate(pools, stored=options.stored, resamples=options.resamples, seed=options.seed)
    return text, 0 if code == 0 else 1


COMMANDS = (
    Command("model", _model, "print the name of this machine's folder of baselines"),
    Command("doctor", _doctor, "say whether this machine can measure, and what it lacks; exit code 1 if it cannot"),
    Command("init", _init, "set this repository up: a first perf test, settings, workflows; overwrite nothing"),
    Command("clean", _clean, "remove files that killed sessions and commands left behind", add_folders),
    Command(
        "show",
        _show,
        "show where the time of a recording goes: devices, ranges, kernels, copies, idle time",
        add_show_arguments,
    ),
    Command(
        "compare",
        _compare,
        "two sessions, baseline files or traces side by side; exit code 1 on a regression or other launches",
        add_compare_arguments,
    ),
    Command(
        "report",
        _report,
        "show recorded sessions, or judge all shards of one; exit code 1 if a verdict fails",
        add_report_arguments,
    ),
    Command(
        "merge-baselines",
        _merge_baselines,
        "unite the runs of two branches that both saved: git's merge driver, or by hand",
        add_merge_arguments,
        epilog="`pytest-nsight init` makes it git's merge driver. By hand: pytest-nsight merge-baselines FILE.",
    ),
    Command("baselines", _baselines, "list, show or remove stored cases", add_baselines_arguments),
    Command("history", _history, "show a case over the commits that measured it", add_history_arguments),
    Command(
        "bisect",
        _bisect,
        "find the first commit in which a case launches other kernels or is slower",
        add_bisect_arguments,
        epilog="Other arguments go to pytest. Exit code 0: one commit; 1: several may be it; 2: no search.",
        starts_pytest=True,
    ),
    Command(
        "run",
        _run,
        "measure what a benchmark script passes to do_bench, Timer and the like, and gate it like tests",
        add_script_arguments,
        usage="pytest-nsight run [-h] [--name NAME] [options of pytest --nsight] -- python bench.py ...",
        starts_pytest=True,
        # As of a pytest that could not begin: its code 2 is for an interrupted session.
        failure_code=4,
    ),
    Command(
        "verify",
        _verify,
        "say whether a kept session belongs to this very tree, and judge it again; needs no GPU",
        add_verify_arguments,
        epilog="Other arguments go to pytest. Exit code 0: the session belongs to this tree and the gate "
        "passes; 1: it does not, or the gate fails; 4: cannot say.",
        starts_pytest=True,
        failure_code=4,
    ),
    Command(
        "calibrate",
        _calibrate,
        "measure unchanged code: its noise, and how often the gate fails it (false alarms)",
        add_calibrate_arguments,
        epilog="Other arguments go to pytest; without a path, perf_tests/ is measured.",
        starts_pytest=True,
    ),
)
