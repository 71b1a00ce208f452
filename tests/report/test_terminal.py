"""The terminal's report: fits, leads with the worst, says little when there is little to say."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import SessionResult, ShapeChange, Verdict, VerdictKind
from pytest_nsight.report import terminal, verdict_text
from pytest_nsight.report.declared_work import work_rows
from pytest_nsight.report.table import shorten, shorten_all
from tests.report import canned


def table_of(text: str) -> list[str]:
    """The rows below the table's header and rule."""
    return text.split("\n\n")[1].splitlines()[2:]


@pytest.mark.parametrize("width", range(80, 201, 5))
@pytest.mark.parametrize("unicode", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, unicode: bool) -> None:
    text = terminal.render(canned.full(), width, verbose=True, unicode=unicode)

    assert max(map(len, text.splitlines())) <= width
    assert not re.search(r" $", text, re.MULTILINE)


def test_ascii_text_has_nothing_else_even_when_a_name_has() -> None:
    result = canned.session((canned.verdict(VerdictKind.SAVED, "test_x[\N{GREEK SMALL LETTER MU}]", "saved"),))

    assert "test_x[\\u03bc]" in terminal.render(result)
    assert "test_x[\N{GREEK SMALL LETTER MU}]" in terminal.render(result, unicode=True)


def test_rows_are_ordered_by_verdict_and_then_by_size_of_change() -> None:
    verdicts = (
        canned.verdict(VerdictKind.UNCHANGED, "test_a", "", canned.comparison(1000, 1.001, 0.01, 0.5)),
        canned.verdict(VerdictKind.UNCHANGED, "test_b", "", canned.comparison(1000, 0.99, 0.01, 0.5)),
        canned.verdict(VerdictKind.REGRESSION, "test_c", "", canned.comparison(1000, 1.05, 0.01, 0)),
        canned.verdict(VerdictKind.REGRESSION, "test_d", "", canned.comparison(1000, 1.5, 0.01, 0)),
        canned.verdict(VerdictKind.STRUCTURE, "test_e", ""),
    )

    rows = table_of(terminal.render(canned.session(verdicts)))

    assert [row.split()[0] for row in rows] == ["test_e", "test_d", "test_c", "test_b", "test_a"]


def test_each_verdict_is_one_row() -> None:
    result = canned.full()
    unsaved = canned.verdict(VerdictKind.NOT_SAVED, "test_unsaved", "measured, not stored", now_ns=1000)
    of_a_shard = canned.verdict(VerdictKind.MEASURED, "test_of_a_shard", "judged with the others", now_ns=1000)
    identical = canned.verdict(VerdictKind.IDENTICAL, "test_identical", "the same machine code; not timed")
    result = dataclasses.replace(result, verdicts=(*result.verdicts, unsaved, of_a_shard, identical))

    rows = table_of(terminal.render(result, 200))

    assert len(rows) == len(result.verdicts)
    assert {verdict.kind for verdict in result.verdicts} == set(VerdictKind), "the session has them all"


@pytest.mark.parametrize("number", [1, 50])
def test_a_quiet_session_says_nothing_beside_its_table(number: int) -> None:
    lines = terminal.render(canned.quiet(number)).splitlines()

    assert len(lines) == number + 7
    assert not any("equal within" in line for line in lines)
    assert "cases (test_rms_norm[0], " in terminal.render(canned.quiet(), 200, verbose=True)
    assert "): equal within 3 %" in terminal.render(canned.quiet(), 200, verbose=True)


def test_regressions_and_improvements_are_counted_even_where_there_are_none() -> None:
    assert terminal.render(canned.quiet()).endswith("3 verdicts: 0 regressions, 0 improvements, 3 unchanged")


def test_nothing_measured_is_said() -> None:
    assert terminal.render(canned.session(())).endswith("nothing was measured")


def test_a_failing_verdict_is_explained_and_another_one_only_counted() -> None:
    text = terminal.render(canned.full(), 200)

    assert "slower kernels: _rms_norm_fused" in text
    assert "1 -> 0  _add_rms_norm_fused, grid 4096, block 256" in text
    assert "4 more baseline runs would do" not in text
    assert "-v gives the reasons of 1 INCONCLUSIVE" in text


def test_a_failure_that_the_output_has_explained_already_is_not_explained_again() -> None:
    result = canned.full()
    explained = {result.verdicts[1].subject.case}

    text = terminal.render(result, 200, explained=explained)

    assert "slower kernels: _rms_norm_fused" not in text
    assert "REGRESSION test_train_step/backward: kernel time" in text
    assert len(table_of(text)) == len(result.verdicts)
    assert "slower kernels: _rms_norm_fused" in terminal.render(result, 200, explained=explained, verbose=True)


def test_strict_explains_what_fails_only_then() -> None:
    text = terminal.render(canned.full(strict=True), 200)

    assert "throttled in 8 of 9 runs" in text
    assert "-v gives" not in text


def test_the_subject_is_named_once_in_its_sentence() -> None:
    """Some sentences begin with it already."""
    text = terminal.render(canned.full(), 200)

    assert "REGRESSION test_rms_norm[fused-4096x4096-bf16]: kernel time" in text
    assert "REGRESSION test_train_step/backward: kernel time" in text


def test_the_detectable_change_stands_beside_inconclusive_only() -> None:
    text = terminal.render(canned.full(), 160)
    rows = table_of(text)

    assert "MDE (minimum detectable effect): the smallest slowdown that" in text
    assert [row for row in rows if re.search(r"INCONCLUSIVE +16.4 %$", row)]
    assert all(row.endswith(kind) for row in rows for kind in ("REGRESSION", "UNCHANGED") if kind in row)


@pytest.mark.parametrize(
    ("strict", "kind", "code"),
    [
        (False, VerdictKind.REGRESSION, "\x1b[31m"),
        (False, VerdictKind.INCONCLUSIVE, "\x1b[33m"),
        (True, VerdictKind.INCONCLUSIVE, "\x1b[31m"),
        (False, VerdictKind.IMPROVEMENT, "\x1b[32m"),
        (False, VerdictKind.UNCHANGED, ""),
    ],
)
def test_red_is_what_fails(strict: bool, kind: VerdictKind, code: str) -> None:
    result = canned.session((canned.verdict(kind, "test_x", "because"),), strict=strict)

    (row,) = table_of(terminal.render(result, color=True))

    assert row == f"{code}test_x       {kind.value}\x1b[0m" if code else f"test_x       {kind.value}"
    assert "\x1b" not in terminal.render(result)


def test_a_number_is_not_torn_from_its_unit() -> None:
    kind = VerdictKind.REGRESSION
    for filler in range(60):
        result = canned.session((canned.verdict(kind, "test_x", f"{'x' * filler} took 12 us, over 2 % more"),))
        for line in terminal.render(result, 60).splitlines():
            assert not line.strip().startswith(("us", "%"))


def test_runs_and_rounds_are_told_as_a_span_where_they_differ() -> None:
    result = canned.quiet(2)
    fewer = dataclasses.replace(result, runs=result.runs[:-1])

    assert "2 runs of 5 rounds" in terminal.render(result)
    assert "1 to 2 runs of 5 rounds" in terminal.render(fewer)


def test_a_long_kernel_name_does_not_fill_the_screen() -> None:
    verdict = next(found for found in canned.full().verdicts if found.changes)
    shape = dataclasses.replace(verdict.changes[0].shape, name="x" * 5_000)
    change = dataclasses.replace(verdict.changes[0], shape=shape)
    result: SessionResult = canned.session((dataclasses.replace(verdict, changes=(change,)),))

    text = terminal.render(result, 80)

    assert len(text.splitlines()) < 20
    assert "grid 4096" in text


@pytest.mark.parametrize("width", [12, 13, 20, 39])
def test_shortening_keeps_both_ends_and_fits(width: int) -> None:
    name = "test_add_rms_norm[fused-4096x4096-bf16]"

    short = shorten(name, width, "..")

    assert len(short) <= width
    assert short[:3] == name[:3]
    assert short[-5:] == name[-5:]
    assert (short == name) == (width >= len(name))


@settings(deadline=None)
@given(st.lists(st.text("ab[]-", min_size=1, max_size=60), unique=True, max_size=30), st.integers(12, 40))
def test_different_names_never_look_alike(names: list[str], width: int) -> None:
    short = shorten_all(names, width, "..")

    assert len(set(short.values())) == len(names)
    assert all(len(text) <= width for text in short.values())


def test_names_that_differ_in_the_middle_keep_their_middle() -> None:
    names = [f"test_rms_norm[{kind}-4096x4096-bf16-contiguous-rows]" for kind in ("fused", "unfused", "eager")]

    short = list(shorten_all(names, 28, "..").values())

    assert all(kind in text for kind, text in zip(("fused", "unfused", "eager"), short, strict=True))


def test_no_name_is_shortened_for_the_detectable_change() -> None:
    text = terminal.render(canned.full(), 140)

    assert "tensor_cores-split_k_serial-persistent]  " in text
    assert "MDE" not in text


def test_the_parameters_of_a_shortened_name_stay_whole() -> None:
    names = [f"test_rms_norm[{kind}-b32x2048]" for kind in ("fused", "unfused", "compiled")]

    short = shorten_all(names, 28, "..")

    assert list(short.values()) == [
        "test_rms_n..[fused-b32x2048]",
        "test_rms..[unfused-b32x2048]",
        "test_rm..[compiled-b32x2048]",
    ]


def test_the_sign_between_a_change_and_its_error_is_explained() -> None:
    assert "± is half the width of the 90 % confidence interval" in terminal.render(canned.full(), unicode=True)
    assert "half the width" not in terminal.render(canned.full(), 140, unicode=True)
    assert "half the width" not in terminal.render(canned.saved_only(), unicode=True)


@pytest.mark.parametrize(
    ("ratio", "half_width", "shown"),
    [
        (0.9934, 0.019, "-0.7 +- 1.9 %"),
        (0.9917, 0.0196, "-0.8 +- 2.0 %"),
        (12.94, 0.203, "+1194 +- 20 %"),
        (1.07, 0.009, "+7.00 +- 0.90 %"),
        (1.0004, 0.0996, "0 +- 10 %"),
        (1.0, 0.0196, "0.0 +- 2.0 %"),
    ],
)
def test_a_change_ends_where_its_error_does(ratio: float, half_width: float, shown: str) -> None:
    compared = canned.comparison(24_400, ratio, half_width, 0.1)
    found = canned.verdict(VerdictKind.UNCHANGED, "test_x", "equal", compared)

    assert f" {shown} " in terminal.render(canned.session((found,)))


def test_columns_give_way_before_names_do() -> None:
    names = [f"test_normalisation[{kind}-4096x4096-bfloat16]" for kind in ("fused", "plain")]
    verdicts = tuple(
        canned.verdict(VerdictKind.INCONCLUSIVE, name, "open", canned.comparison(24_400, 1.01, 0.02, 0.1))
        for name in names
    )
    head, _, *rows = terminal.render(canned.session(verdicts), 80).split("\n\n")[1].splitlines()

    assert "MDE" not in head
    assert "used-4096x4096-bfloat16]" in rows[0]
    assert "lain-4096x4096-bfloat16]" in rows[1]


def test_cases_with_one_reason_share_a_line_that_says_what_to_type() -> None:
    verdicts = tuple(
        canned.verdict(VerdictKind.NO_BASELINE, f"test_x[{number}]", "save runs with --nsight-save")
        for number in range(40)
    )

    text = terminal.render(canned.session(verdicts), 120)

    expected = "NO_BASELINE 40 cases (test_x[0], test_x[1], test_x[2] and 37 more): save runs with --nsight-save"
    assert expected in text
    assert text.count("--nsight-save") == 1


def test_a_band_wider_than_the_user_asked_for_is_said() -> None:
    basis = canned.basis(material=math.log(1.05), margin=math.log(1.075))
    tiny = canned.comparison(1_500, 1.01, 0.02, 0.4, basis=basis)
    result = canned.session((canned.verdict(VerdictKind.UNCHANGED, "test_tiny", "equal", tiny),))

    text = " ".join(terminal.render(result).split())

    said = (
        "because of the timer's resolution: a smaller slowdown is no regression, and equality is shown within 7.5 %"
    )
    assert f"band 5 % instead of 2 % for test_tiny, {said}" in text

    both = tuple(dataclasses.replace(result.verdicts[0], subject=Subject(f"t.py::test_{name}")) for name in "ab")
    assert f"band 5 % instead of 2 % for all cases, {said}" in " ".join(
        terminal.render(canned.session(both)).split()
    )


def test_one_case_has_one_duration_in_every_table() -> None:
    """The compared mean of two modes lies far from the median of all rounds."""
    first, *others = canned.worked().verdicts
    two_modes = dataclasses.replace(first, comparison=canned.comparison(653_000, 1.0, 0.01, 0.5))
    result = canned.worked(verdicts=(two_modes, *others))

    assert "653 us" in terminal.render(result, 140)
    assert work_rows(result)[1][1] == "653 us"


def test_tests_of_one_name_in_two_files_have_their_files_named() -> None:
    one, other = (
        canned.verdict(VerdictKind.NO_BASELINE, "test_op[a]", "no baseline"),
        canned.verdict(VerdictKind.NO_BASELINE, "test_op[b]", "no baseline"),
    )
    twin = dataclasses.replace(one, subject=Subject("elsewhere/test_other.py::test_op[a]"))
    labels = verdict_text.labels(verdict.subject for verdict in (one, other, twin))

    assert labels[other.subject] == other.subject.label
    assert labels[one.subject] == one.subject.case
    assert labels[twin.subject] == "elsewhere/test_other.py::test_op[a]"


def test_a_save_shows_what_it_replaces() -> None:
    changes = (ShapeChange(Shape("kernel", "fused"), 1, 0), ShapeChange(Shape("kernel", "exp"), 0, 2))
    verdicts = (
        canned.verdict(VerdictKind.SAVED, "test_a", "test_a: 5 runs stored", now_ns=24_000, before_ns=20_000),
        canned.verdict(VerdictKind.SAVED, "test_b", "test_b: 5 runs stored, the first", now_ns=9_000),
        canned.verdict(VerdictKind.SAVED, "test_c", "test_c: new", now_ns=9_000, before_ns=9_000, changes=changes),
    )

    text = terminal.render(canned.session(verdicts))

    assert [row.split() for row in table_of(text)] == [
        ["test_a", "20.0", "->", "24.0", "us", "+20.0", "%", "SAVED"],
        ["test_b", "9.00", "us", "SAVED"],
        ["test_c", "9.00", "->", "9.00", "us", "0", "%", "SAVED"],
    ]
    assert "SAVED test_c: new\n    1 -> 0  fused\n    0 -> 2  exp\n" in text
    assert "SAVED test_a:" not in text


def test_many_cases_with_one_cause_share_a_line_although_their_figures_differ() -> None:
    def shared(number: int) -> Verdict:
        sentence = (
            f"kernel time 1 -> {number} us cannot be judged: others had it in {number}.5 % of the time; end them"
        )
        compared = canned.comparison(1000, 1 + number, 0.01, 0.5)
        return canned.verdict(
            VerdictKind.ENVIRONMENT, f"test_x[{number}]", f"test_x[{number}]: {sentence}", compared
        )

    result = canned.session(tuple(map(shared, range(1, 6))))
    lines = " ".join(terminal.render(result).split())
    verbose = " ".join(terminal.render(result, verbose=True).split())

    assert lines.count("end them") == 1
    assert "ENVIRONMENT 5 cases (test_x[5], test_x[4], test_x[3] and 2 more), of the first: kernel time" in lines
    assert verbose.count("end them") == 5


def test_what_failed_here_and_nowhere_else_is_followed_by_the_commands() -> None:
    result = canned.full()
    failing = [one for one in result.verdicts if one.kind in (VerdictKind.REGRESSION, VerdictKind.STRUCTURE)]
    case = failing[0].subject
    stored = dataclasses.replace(result.runs[0], subject=case, session="before", commit="0123456789abcdef")
    result = dataclasses.replace(result, baseline_runs=(stored,))

    lines = terminal.render(result).splitlines()
    accept = lines.index("to accept the change, and then commit the baselines with it:")
    check = lines.index("to check it again:")

    assert lines[accept + 1] == 'pytest --nsight --nsight-save --nsight-reason "why" \\'
    assert lines[check - 1] == f"    {shlex.quote(case.case)}"
    assert lines[check + 1].startswith("pytest --nsight --nsight-against 0123456789 ")
    assert "to accept" not in terminal.render(result, explained={one.subject.case for one in failing})


def test_launches_of_a_part_are_said_to_be_the_parts() -> None:
    changes = (ShapeChange(Shape("operator", "mul", "aten::mul"), 1, 0),)
    whole = canned.verdict(VerdictKind.STRUCTURE, "test_x", "test_x: 1 launch less")
    verdicts = [
        dataclasses.replace(whole, changes=changes, subject=dataclasses.replace(whole.subject, part=part))
        for part in ("", "forward")
    ]

    lines = [line for verdict in verdicts for line in verdict_text.detail_lines(verdict)]

    assert lines == ["1 -> 0  operator mul", "in forward: 1 -> 0  operator mul"]
