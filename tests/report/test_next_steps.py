"""After a failure: where the baseline comes from, and the commands that accept the change or check it again."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report.markdown import render
from pytest_nsight.report.next_steps import plan_next_steps
from tests.baselines.examples import CASE, run
from tests.report import canned

OTHER = "perf_tests/test_softmax.py::test_softmax[it's `one`]"


def as_shell_reads(command: str) -> list[str]:
    """The words of a command; Python's shlex does not join lines as a shell does."""
    return shlex.split(command.replace("\\\n", " "))


def verdict(case: str = CASE, kind: VerdictKind = VerdictKind.REGRESSION) -> Verdict:
    return Verdict(Subject(case), kind, f"{Subject(case).label}: slower", 1000.0, metric="kernel")


def session(*verdicts: Verdict, stored: tuple[RunSummary, ...] = ()) -> SessionResult:
    new = tuple(dataclasses.replace(run(90, one.subject.case), session="now") for one in verdicts)
    return SessionResult("now", "2026-05-01T00:00:00+00:00", "nsys", {}, verdicts, new, baseline_runs=stored)


STORED = (
    run(1),
    dataclasses.replace(run(7), board="GPU-2222-3333-4444", reason="exact exp", commit="0a1b2c3d4e5f6a7b"),
)


def test_of_joined_sessions_the_baseline_is_what_the_case_was_compared_with() -> None:
    levels = tuple(
        dataclasses.replace(level, run=one.run, is_new=False)
        for level, one in zip(canned.basis().runs, STORED, strict=False)
    )
    compared = canned.comparison(20_000, 1.07, 0.001, 1e-6, basis=canned.basis(runs=levels))
    failed = dataclasses.replace(verdict(), comparison=compared)
    result = session(failed, stored=(*STORED, dataclasses.replace(run(30), session="earlier", board="GPU-3333")))

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    assert steps.origin.startswith("2 runs on 2 boards, the newest of 2026-03-01 from commit 0a1b2c3 on GPU-2222")


@pytest.mark.parametrize("kind", [VerdictKind.REGRESSION, VerdictKind.STRUCTURE])
def test_a_failed_case_has_its_baseline_and_both_commands(kind: VerdictKind) -> None:
    result = session(verdict(kind=kind), stored=STORED)

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    assert steps.origin == (
        "2 runs on 2 boards, the newest of 2026-03-01 from commit 0a1b2c3 on GPU-2222-333 (exact exp)"
    )
    assert as_shell_reads(steps.accept) == [
        *("pytest", "--nsight", "--nsight-save", "--nsight-reason", "why", CASE),
    ]
    assert as_shell_reads(steps.check) == ["pytest", "--nsight", "--nsight-against", "0a1b2c3d4e", CASE]
    assert steps.lines == [
        f"baseline: {steps.origin}",
        "to accept the change, and then commit the baselines with it:",
        *steps.accept.splitlines(),
        "to check it again:",
        *steps.check.splitlines(),
    ]


@pytest.mark.parametrize(
    "kind", [kind for kind in VerdictKind if kind not in (VerdictKind.REGRESSION, VerdictKind.STRUCTURE)]
)
def test_other_verdicts_have_nothing_to_accept(kind: VerdictKind) -> None:
    result = session(verdict(kind=kind), stored=STORED)

    assert plan_next_steps(result.verdicts, result) is None


def test_against_another_tree_there_is_no_baseline_to_change() -> None:
    result = session(verdict(), stored=(dataclasses.replace(run(1), session="now"),))

    assert plan_next_steps(result.verdicts, result) is None


@pytest.mark.parametrize("commit", ["0a1b2c3d4e5f6a7b+", ""])
def test_a_commit_that_lacks_what_was_measured_is_not_compared_with(commit: str) -> None:
    result = session(verdict(), stored=(dataclasses.replace(run(1), commit=commit),))

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    assert as_shell_reads(steps.check) == ["pytest", "--nsight", CASE]


def test_without_a_commit_the_case_is_measured_again() -> None:
    result = session(verdict(), stored=(dataclasses.replace(run(1), commit="", recorded=""),))

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    assert as_shell_reads(steps.check) == ["pytest", "--nsight", CASE]
    assert steps.origin == "1 run on 1 board, the newest on GPU-1111"


def test_a_long_command_has_each_case_in_a_line_of_its_own() -> None:
    result = session(verdict(), verdict(OTHER), stored=(*STORED, run(2, OTHER)))

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    first, *targets = steps.accept.split(" \\\n    ")
    assert first == 'pytest --nsight --nsight-save --nsight-reason "why"'
    assert targets == [shlex.quote(CASE), shlex.quote(OTHER)]
    assert as_shell_reads(steps.accept)[-2:] == [CASE, OTHER]


def test_the_folder_of_the_command_line_is_part_of_the_commands() -> None:
    folder = "other place/$(reboot)"
    result = session(verdict(), stored=(dataclasses.replace(run(1), commit=""),))
    result = dataclasses.replace(result, baselines_option=folder)

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    for command in (steps.accept, steps.check):
        words = as_shell_reads(command)
        assert words[words.index("--nsight-baselines") + 1] == folder


def test_tests_run_in_the_root_folder_and_a_script_where_it_was_started() -> None:
    tests = dataclasses.replace(session(verdict(), stored=STORED), baselines_option="base")
    script = dataclasses.replace(tests, script="python bench.py --data here.txt")

    steps, of_script = (plan_next_steps(one.verdicts, one, "../my root") for one in (tests, script))

    assert steps is not None
    assert of_script is not None
    assert steps.accept.startswith("(cd '../my root' && pytest --nsight ")
    assert steps.check.startswith("(cd '../my root' && pytest --nsight ")
    assert all(command.endswith(")") for command in (steps.accept, steps.check))
    assert as_shell_reads(of_script.accept) == [
        *(
            "pytest-nsight",
            "run",
            "--nsight-save",
            "--nsight-reason",
            "why",
            "--nsight-baselines",
            "../my root/base",
        ),
        *("--", "python", "bench.py", "--data", "here.txt"),
    ]


def test_the_command_of_a_script_says_that_it_saves_the_other_cases_too() -> None:
    failed, other = verdict(), verdict("bench.py::other", VerdictKind.UNCHANGED)
    alone, both = (
        dataclasses.replace(session(*verdicts, stored=STORED), script="python bench.py")
        for verdicts in ((failed,), (failed, other))
    )

    steps = [plan_next_steps([failed], result) for result in (alone, both)]

    assert [one.caution for one in steps if one is not None] == [
        "",
        "This saves all 2 cases of the script, changed or not.",
    ]
    assert steps[1] is not None
    assert steps[1].caution in steps[1].lines
    assert "\nThis saves all 2 cases of the script, changed or not.\n" in render(both)


def test_two_trees_need_no_folder_of_baselines() -> None:
    result = dataclasses.replace(session(verdict(), stored=STORED), baselines_option="elsewhere")

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    assert "--nsight-baselines elsewhere" in steps.accept
    assert "--nsight-baselines" not in steps.check


def test_many_cases_are_named_by_their_modules() -> None:
    cases = [f"perf_tests/test_{n % 2}.py::test[{n}]" for n in range(9)]
    result = session(*map(verdict, cases), stored=tuple(run(1, case) for case in cases))

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    assert as_shell_reads(steps.accept)[-2:] == ["perf_tests/test_0.py", "perf_tests/test_1.py"]


def test_ids_are_quoted_for_the_shell_and_foreign_text_is_harmless() -> None:
    hostile = dataclasses.replace(run(1, OTHER), reason="\x1b[31m\n::error", commit="$(reboot)", board="\u202e")
    result = session(verdict(OTHER), stored=(hostile,))

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    assert as_shell_reads(steps.accept)[-1] == OTHER
    assert as_shell_reads(steps.check) == ["pytest", "--nsight", OTHER]
    assert all(line.isprintable() for line in steps.lines)


@pytest.mark.parametrize("commit", ["", "-x", "--help", "HEAD; reboot", "0a1b", "main"])
def test_what_is_no_commit_is_never_put_into_a_command(commit: str) -> None:
    result = session(verdict(), stored=(dataclasses.replace(run(1), commit=commit),))

    steps = plan_next_steps(result.verdicts, result)

    assert steps is not None
    assert as_shell_reads(steps.check) == ["pytest", "--nsight", CASE]


def test_markdown_says_once_how_to_accept_all_failures() -> None:
    result = session(verdict(), verdict(OTHER), stored=(*STORED, run(2, OTHER)))

    text = render(result)

    assert text.count("--nsight-save") == 1
    assert f"\n    {shlex.quote(CASE)} \\\n    {shlex.quote(OTHER)}\n```\n" in text
    assert text.count("--nsight-against") == 1
    assert "The baseline: 3 runs on 2 boards" in text
    assert "--nsight-save" not in render(session(verdict(kind=VerdictKind.UNCHANGED), stored=STORED))
