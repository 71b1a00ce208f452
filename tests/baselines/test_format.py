"""The text of a baseline file: exact, strict, and kind to `git diff`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.baselines.decode import decode
from pytest_nsight.baselines.encode import FORMAT_VERSION, NewerFormatError, by_age, encode
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.values import RunSummary, Subject
from tests.baselines.examples import CASE, run, summaries


@given(st.lists(summaries, max_size=5, unique_by=lambda summary: (summary.subject, summary.run)))
def test_decoding_gives_back_exactly_what_was_encoded(runs: list[RunSummary]) -> None:
    stored: dict[Subject, tuple[RunSummary, ...]] = {}
    for summary in sorted(runs, key=by_age):
        stored[summary.subject] = (*stored.get(summary.subject, ()), summary)

    assert decode(encode(stored)) == stored


@given(st.lists(summaries, min_size=1, max_size=4, unique_by=lambda summary: (summary.subject, summary.run)))
def test_the_text_is_json_that_does_not_depend_on_the_order_of_subjects(runs: list[RunSummary]) -> None:
    forwards = {summary.subject: (summary,) for summary in runs}
    backwards = dict(reversed(forwards.items()))

    assert encode(forwards) == encode(backwards)
    assert json.loads(encode(forwards))["format"] == FORMAT_VERSION


def test_in_a_diff_another_run_only_adds_lines() -> None:
    subject = Subject(CASE)
    before = encode({subject: (run(1), run(2))}).splitlines()
    after = encode({subject: (run(1), run(2), run(3))}).splitlines()

    diff = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]

    assert [line for line in diff if line[0] == "-"] == []
    assert len(diff) == len(run(3).rounds) + 2


def test_each_metric_of_a_run_is_one_line_and_numbers_are_not_repeated() -> None:
    lines = encode({Subject(CASE): (run(1),)}).splitlines()

    kernel = ",".join(map(str, run(1).rounds["kernel"]))
    assert f'   "kernel": [{kernel}],' in lines
    assert '   "busy": "kernel",' in lines
    assert '   "copy": {"value": 0, "rounds": 5},' in lines
    assert encode({Subject(CASE): (run(1),)}).endswith("}\n")


def test_environment_and_shapes_are_stored_once() -> None:
    text = encode({Subject(CASE): tuple(run(number) for number in range(20))})

    assert text.count("NVIDIA H200") == 1
    assert text.count("_rms_norm_fused_0d1d2d") == 1


Spoil = Callable[[dict[str, Any]], object]


def _first_run(file: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = file["subjects"][0]["runs"][0]
    return found


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda file: _first_run(file).update(board=7), 'field "board" of run run-1 of test_rms_norm'),
        (
            lambda file: _first_run(file).pop("board"),
            'run run-1 of test_rms_norm[fused-4096] has no field "board"',
        ),
        (lambda file: _first_run(file).update(bord=""), 'unknown field "bord"'),
        (
            lambda file: _first_run(file).update(is_stable=1),
            'field "is_stable" of run run-1 of test_rms_norm',
        ),
        (lambda file: _first_run(file).update(copied_bytes=-1), "is -1, expected a whole number"),
        (lambda file: _first_run(file).update(copied_bytes=True), "is true, expected a whole number"),
        (
            lambda file: _first_run(file).update(recorded="yesterday"),
            'is "yesterday", expected a time in ISO',
        ),
        (lambda file: _first_run(file).update(environment="zz"), 'is "zz", expected a key of "environments"'),
        (lambda file: _first_run(file).update(launches=[["zz", 1, 1]]), 'is "zz", expected keys of "shapes"'),
        (lambda file: _first_run(file).update(launches=[1]), 'field "launches" of run run-1'),
        (
            lambda file: _first_run(file)["rounds"].update(kernel=[1, 2.5]),
            "is 2.5, expected whole numbers of ns",
        ),
        (
            lambda file: _first_run(file)["rounds"].update(kernel=[1, -2]),
            "is -2, expected whole numbers of ns",
        ),
        (lambda file: _first_run(file)["rounds"].update(kernel="busy"), 'is "busy", expected a list'),
        (lambda file: _first_run(file)["rounds"].update(kernel={"value": 0}), "expected a list of whole"),
        (
            lambda file: _first_run(file)["rounds"].update(kernel={"value": 0, "rounds": 10**12}),
            "expected a list of whole",
        ),
        (lambda file: _first_run(file)["rounds"].update(speed=[1]), 'has an unknown metric "speed"'),
        (
            lambda file: _first_run(file)["clocks"].update(sm_mhz="fast"),
            'field "sm_mhz" of "clocks" of run run-1',
        ),
        (lambda file: file["subjects"][0].update(part=None), 'field "part" of subject 1 is null'),
        (lambda file: file["subjects"].append(file["subjects"][0]), "is stored twice"),
        (lambda file: file["subjects"][0]["runs"].append(_first_run(file)), "run run-1 of test_rms_norm"),
        (
            lambda file: next(iter(file["shapes"].values())).update(grid=[1, 2]),
            "expected three whole numbers",
        ),
        (lambda file: next(iter(file["environments"].values())).update(gpu=1), "is 1, expected a string"),
        (lambda file: file.update(format=0), 'field "format" of the file is 0'),
        (lambda file: file.update(comment="mine"), 'the file has an unknown field "comment"'),
        (lambda file: file.pop("subjects"), 'the file has no field "subjects"'),
    ],
)
def test_a_wrong_field_is_refused_with_its_record_and_value(spoil: Spoil, message: str) -> None:
    file = json.loads(encode({Subject(CASE): (run(1),)}))
    spoil(file)

    with pytest.raises(BaselineError) as caught:
        decode(json.dumps(file))

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "invalid JSON at line 1"),
        ("{\n\n oops", "invalid JSON at line 3"),
        ('{"format": 1,\n<<<<<<< HEAD\n', "unresolved git merge conflict at line 2"),
        ('{"format": NaN}', "NaN, which is not a number"),
        ('{"format": 1, "format": 1}', 'field "format" twice'),
        ("[]", "the file is [], expected an object"),
        ("9" * 5000, "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
    ],
)
def test_text_that_is_no_baseline_is_refused(text: str, message: str) -> None:
    with pytest.raises(BaselineError) as caught:
        decode(text)

    assert message in str(caught.value)


def test_a_newer_format_is_told_from_damage() -> None:
    """Its other fields may mean anything, so nothing but the version is looked at."""
    with pytest.raises(NewerFormatError, match=r"format 3, this one reads up to 1"):
        decode('{"format": 3, "cases": []}')
