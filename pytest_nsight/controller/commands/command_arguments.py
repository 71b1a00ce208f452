"""Arguments of `pytest-nsight`, and of its commands that work on baselines, commits, pools and sessions.

Apart from the commands themselves: every start of the program loads this module.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest_nsight
from pytest_nsight.model.argument_types import positive_minutes, positive_number, whole_number
from pytest_nsight.model.values import METRICS

_TEXTS_OF_BASELINES = {
    "list": "a line for each stored case",
    "show": "every save of the cases: when, from which commit, on which board, why",
    "prune": "name the stored cases whose tests no longer exist, exit code 1 if there are any; with --delete, "
    "remove them",
}


class VersionAction(argparse.Action):
    """`--version`, which looks the version up only if it is given: the look-up takes a tenth of a short command."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show program's version number and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Prints it, and exits."""
        sys.stdout.write(f"pytest-nsight {pytest_nsight.__version__}\n")
        parser.exit()


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The program's own arguments, and the command line of a script, which `run` takes behind the first dashes.

    Args:
        arguments: what follows the program's name.
    """
    given = list(arguments)
    end = given.index("--") if given[:1] == ["run"] and "--" in given else len(given)
    return given[:end], given[end + 1 :]


def add_baselines_arguments(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declares the actions of `pytest-nsight baselines`.

    Returns:
        The parser of each action.
    """
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    added = []
    for name, text in _TEXTS_OF_BASELINES.items():
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        words = ("CASE", "node ids of cases to remove; none to ask pytest which ones have no test")
        metavar, which = words if name == "prune" else ("WORD", "only cases with each WORD in their id")
        action.add_argument("words", nargs="*", metavar=metavar, help=which)
        where = "folder of all baselines (default: the project's)"
        action.add_argument("--baselines", type=Path, metavar="DIR", help=where)
        action.add_argument("--model", default="", metavar="NAME", help="only the baselines of this GPU model")
        action.set_defaults(action=name)
        added.append(action)
    action.add_argument("--delete", action="store_true", help="remove the cases; without it they are only named")
    return added


def add_bisect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what `pytest-nsight bisect` takes beside pytest's own arguments."""
    parser.add_argument("good", metavar="GOOD", help="a commit in which the case is as it should be")
    parser.add_argument("bad", metavar="BAD", help="a later commit in which it is not")
    text = "the case: its node id, its name, or as pytest's -k selects it"
    parser.add_argument("-k", dest="case", default="", metavar="CASE", help=text)
    text = "search for the commit that made BAD faster than GOOD"
    parser.add_argument("--improvement", action="store_true", help=text)
    text = "begin no further commit after M minutes, and say what is left"
    parser.add_argument("--minutes", type=positive_minutes, metavar="M", help=text)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the answer as JSON, too")


def add_calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what `pytest-nsight calibrate` takes beside pytest's own arguments."""
    parser.add_argument(
        "--runs", type=positive_number, default=10, metavar="N", help="fresh processes (default: 10)"
    )
    text = "then N processes of three random cases each, as a check measures suspects (default: 0)"
    parser.add_argument("--confirming", type=whole_number, default=0, metavar="N", help=text)
    parser.add_argument("--minutes", type=positive_minutes, metavar="M", help="stop before M minutes are over")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the pool's file (default: in .nsight/)")
    parser.add_argument(
        "--from", dest="pools", nargs="+", type=Path, default=[], metavar="POOL", help="measure nothing, read pools"
    )
    parser.add_argument("--stored", type=positive_number, default=5, metavar="K", help="stored runs (default: 5)")
    parser.add_argument(
        "--resamples",
        type=whole_number,
        default=200,
        metavar="N",
        help="random resamples of the runs (default: 200), 0 for none",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random resamples (default: 1)")


def add_script_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what `pytest-nsight run` takes before the dashes, beside pytest's own arguments."""
    parser.add_argument("--name", help="name to use in case ids in place of the script's arguments")


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what `pytest-nsight verify` takes beside pytest's own arguments."""
    where = "folder of a session that was measured with --nsight-keep, here or elsewhere"
    parser.add_argument("session", type=Path, metavar="SESSION", help=where)
    where = "top folder of the tree (default: the current folder)"
    parser.add_argument("--tree", type=Path, default=Path(), metavar="DIR", help=where)


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what `pytest-nsight report` takes."""
    parser.add_argument(
        "sessions",
        nargs="+",
        type=Path,
        metavar="SESSION",
        help="a session's folder below .nsight/, or its session.json",
    )
    parser.add_argument("--html", metavar="PATH", help="write one HTML page")
    text = "write a report, as --nsight-report does"
    parser.add_argument("--report", action="append", default=[], metavar="NAME=PATH", help=text)
    text = "write all verdicts as one table: .parquet or .csv"
    parser.add_argument("--table", type=Path, metavar="PATH", help=text)


def add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what `pytest-nsight merge-baselines` takes."""
    text = "one baseline file in conflict, or git's %%O %%A %%B %%P"
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=text)


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what `pytest-nsight history` takes."""
    parser.add_argument("words", nargs="*", metavar="CASE", help="cases with each CASE in their id (default: all)")
    add_folders(parser)
    text = f"the duration, one of {', '.join(METRICS)} (default: kernel)"
    parser.add_argument("--metric", default="kernel", metavar="NAME", help=text)
    parser.add_argument("--html", type=Path, metavar="PATH", help="write one HTML page with plots instead")


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Declares where baselines and sessions are."""
    where = "folder of all baselines, in git or not (default: the project's)"
    parser.add_argument("--baselines", type=Path, metavar="DIR", help=where)
    where = "folder of the sessions (default: .nsight)"
    parser.add_argument("--sessions", type=Path, default=Path(".nsight"), metavar="DIR", help=where)
