"""After a failed comparison: where its baseline comes from, and the commands to accept a change or check again."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.model.units import count, short_commit
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report.escapes import visible

_ACCEPTABLE = (VerdictKind.STRUCTURE, VerdictKind.REGRESSION)
_MOST_CASES = 8
_TYPED_DIGITS = 10
"""Of a commit in a command: fewer may be ambiguous in a large repository."""

_BOARD = 12
_LONGEST_LINE = 80


@dataclass(frozen=True, slots=True)
class NextSteps:
    """What a user may do about cases that failed against their baselines.

    Attributes:
        origin: date, commit, boards and reason of the newest baseline among them.
        accept: the command that makes the new runs the baseline, in several lines where it is long; a shell takes
            them as one.
        check: the command that measures again, against the baseline's commit where that is known and holds all
            that was measured, else against the stored runs again.
        is_against_commit: which of the two it is.
        caution: a sentence on what `accept` does beyond these cases, "" for nothing.
    """

    origin: str
    accept: str
    check: str
    is_against_commit: bool
    caution: str = ""

    @property
    def lines(self) -> list[str]:
        """The origin in a line, and each command in lines of its own below the words about it."""
        return [
            f"baseline: {self.origin}",
            "to accept the change, and then commit the baselines with it:",
            *self.accept.splitlines(),
            *([self.caution] if self.caution else []),
            "to check it again:",
            *self.check.splitlines(),
        ]


def plan_next_steps(verdicts: Sequence[Verdict], result: SessionResult, root: str = "") -> NextSteps | None:
    """The next steps for failed cases; None where none failed against stored runs.

    Args:
        verdicts: of the cases that the steps are for; only regressions and structure changes count.
        result: the session, with the runs that the cases were compared with.
        root: path to pytest's root folder, where ids of tests start, from the folder in which the commands will be
            typed; "" if they are the same, or if that is not known.
    """
    cases = list(dict.fromkeys(verdict.subject.case for verdict in verdicts if verdict.kind in _ACCEPTABLE))
    if not cases:
        return None
    stored = _list_stored(verdicts, cases, result)
    if not stored:
        return None
    newest = max(stored, key=lambda run: run.recorded)
    start, targets = "pytest --nsight", [shlex.quote(visible(target)) for target in _targets(cases)]
    folder, caution = result.baselines_option, ""
    if result.script:
        total = len({verdict.subject.case for verdict in result.verdicts})
        caution = f"This saves all {total} cases of the script, changed or not." if total > len(cases) else ""
        # A script runs as a whole, and where it was started: its own arguments may be paths from there.
        start, targets = "pytest-nsight run", [f"-- {visible(result.script)}"]
        folder, root = os.path.normpath(Path(root, folder)) if folder else "", ""
    # The ini file sets it for every command; the command line sets it once.
    where = [f"--nsight-baselines {shlex.quote(visible(folder))}"] if folder else []
    # Of a tree with uncommitted changes the commit alone may lack what was measured.
    is_known = _is_commit(newest.commit)
    again = [f"{start} --nsight-against {newest.commit[:_TYPED_DIGITS]}"] if is_known else [start, *where]
    return NextSteps(
        origin=describe_origin(stored),
        accept=_command([f'{start} --nsight-save --nsight-reason "why"', *where, *targets], root),
        check=_command([*again, *targets], root),
        is_against_commit=is_known,
        caution=caution,
    )


def _list_stored(verdicts: Sequence[Verdict], cases: Sequence[str], result: SessionResult) -> list[RunSummary]:
    """The stored runs that the cases were compared with."""
    # The runs of another tree are of this session: there is no baseline to accept anything for.
    own = {run.session for run in result.runs}
    stored = [run for run in result.baseline_runs if run.subject.case in cases and run.session not in own]
    # Where sessions were joined, the runs of the older ones stand beside the baseline.
    bases = [one.comparison.basis for one in verdicts if one.comparison is not None]
    compared = {level.run for basis in bases if basis is not None for level in basis.runs if not level.is_new}
    return [run for run in stored if not compared or run.run in compared]


def describe_origin(runs: Sequence[RunSummary]) -> str:
    """Where stored runs come from: "10 runs on 2 boards, the newest of 2026-11-21 from commit 3382a4+ on GPU-1".

    Args:
        runs: at least one.
    """
    newest = max(runs, key=lambda run: run.recorded)
    boards = count(len({run.board for run in runs}), "board")
    each = count(len({run.run for run in runs}), "run")
    day = f" of {visible(newest.recorded)[:10]}" if newest.recorded else ""
    commit = f" from commit {short_commit(visible(newest.commit))}" if newest.commit else ""
    reason = f" ({visible(newest.reason)})" if newest.reason else ""
    return f"{each} on {boards}, the newest{day}{commit} on {_shorten_board(newest.board)}{reason}"


def _command(parts: Sequence[str], root: str) -> str:
    """The command in one line where that is short, else with each part in a line of its own."""
    if root:
        first, *others = parts
        parts = [f"(cd {shlex.quote(visible(root))} && {first}", *others]
        parts[-1] += ")"
    line = " ".join(parts)
    return line if len(line) <= _LONGEST_LINE else " \\\n    ".join(parts)


def _shorten_board(board: str) -> str:
    """The beginning of a GPU's UUID; a CPU is named by its product, which says nothing when cut."""
    return visible(board)[:_BOARD] if board.startswith(("GPU-", "MIG-")) else visible(board)


def _is_commit(text: str) -> bool:
    """Whether git takes the text for a commit, and no shell or option parser for something else."""
    return re.fullmatch("[0-9a-f]{7,64}", text) is not None


def _targets(cases: Sequence[str]) -> list[str]:
    """What pytest is to run: the cases, or their modules where they are many."""
    if len(cases) <= _MOST_CASES:
        return list(cases)
    return list(dict.fromkeys(case.partition("::")[0] for case in cases))
