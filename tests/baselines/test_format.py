"""The text of a baseline file: exact, strict, and kind to `git diff`."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.baselines.decode import decode
from pytest_nsight.baselines.encode import encode
from pytest_nsight.baselines.file_format import (
    FORMAT_VERSION,
    FORMAT_WITHOUT_IDENTITIES,
    FORMAT_WITHOUT_TUNING,
    MOST_DURATIONS,
    MOST_ROUNDS,
    NewerFormatError,
    by_age,
)
from pytest_nsight.baselines.merge import unite
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.identity import (
    READING,
    LaunchIdentity,
    MachineCode,
    TunedKernel,
    make_identity,
    shorten_arguments,
)
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Clocks, RunSummary, Subject, Work
from tests.baselines.examples import CASE, run, summaries

FIRST_FORMAT = Path(__file__).parents[1] / "data/baselines/first_format.json"
"""Written by the last version that wrote format 1."""


@pytest.mark.slow
@given(st.lists(summaries, max_size=5, unique_by=lambda summary: (summary.subject, summary.run)))
def test_decoding_gives_back_exactly_what_was_encoded(runs: list[RunSummary]) -> None:
    stored: dict[Subject, tuple[RunSummary, ...]] = {}
    for summary in sorted(runs, key=by_age):
        stored[summary.subject] = (*stored.get(summary.subject, ()), summary)

    assert decode(encode(stored)) == stored


@pytest.mark.slow
@given(st.lists(summaries, min_size=1, max_size=4, unique_by=lambda summary: (summary.subject, summary.run)))
def test_the_text_is_json_that_does_not_depend_on_the_order_of_subjects(runs: list[RunSummary]) -> None:
    forwards = {summary.subject: (summary,) for summary in runs}
    backwards = dict(reversed(forwards.items()))

    assert encode(forwards) == encode(backwards)
    assert json.loads(encode(forwards))["format"] == FORMAT_WITHOUT_IDENTITIES


IDENTITY = make_identity(
    [
        LaunchIdentity("kernel", "scale", MachineCode("c1", 214, 39), (8, 1, 1), (128, 1, 1), arguments=("4096",)),
        LaunchIdentity("copy", "1", arguments=("4096 bytes",)),
    ]
    * 2
)


def test_long_arguments_of_the_first_files_are_read_short() -> None:
    whole = dataclasses.replace(IDENTITY.launches[0], arguments=("00" * 500,))
    known = dataclasses.replace(IDENTITY, launches=(whole, *IDENTITY.launches[1:]))
    (read,) = decode(encode({Subject(CASE): (dataclasses.replace(run(0), identity=known),)}))[Subject(CASE)]

    assert read.identity is not None
    assert read.identity.digest == known.digest
    assert read.identity.launches == (shorten_arguments(whole), *IDENTITY.launches[1:])
    assert len(read.identity.launches[0].arguments[0]) < 80


def test_identities_are_stored_once_and_read_back() -> None:
    runs = tuple(dataclasses.replace(run(number), identity=IDENTITY) for number in range(3))
    text = encode({Subject(CASE): runs})
    content = json.loads(text)

    assert content["format"] == FORMAT_WITHOUT_TUNING
    assert len(content["identities"]) == 1
    assert len(content["launches"]) == 2
    assert decode(text) == {Subject(CASE): runs}


def test_what_autotuners_chose_is_stored_and_read_back() -> None:
    chosen = (TunedKernel("mm", "0f" * 8, "BLOCK: 64"), TunedKernel("norm", "1f" * 8, "BLOCK: 128", 3))
    runs = tuple(dataclasses.replace(run(number), tuned=chosen) for number in range(2))
    text = encode({Subject(CASE): runs})

    assert json.loads(text)["format"] == FORMAT_VERSION
    assert decode(text) == {Subject(CASE): runs}


def test_identities_that_say_not_how_they_were_read_are_of_the_first_reading() -> None:
    content = json.loads(encode({Subject(CASE): (dataclasses.replace(run(1), identity=IDENTITY),)}))
    (stored,) = content["identities"].values()
    assert stored.pop("reading") == READING

    (read,) = decode(json.dumps(content))[Subject(CASE)]

    assert read.identity == dataclasses.replace(IDENTITY, reading=1)


def test_uniting_two_versions_keeps_the_identities_of_both() -> None:
    other = dataclasses.replace(IDENTITY, digest="d2")
    ours, theirs = (
        {Subject(CASE): (dataclasses.replace(run(number), identity=one),)}
        for number, one in ((1, IDENTITY), (2, other))
    )

    united = decode(encode(unite({}, ours, theirs)))

    assert [one.identity for one in united[Subject(CASE)]] == [IDENTITY, other]


def test_an_identity_that_names_a_launch_that_is_not_there_is_refused() -> None:
    content = json.loads(encode({Subject(CASE): (dataclasses.replace(run(1), identity=IDENTITY),)}))
    content["launches"].popitem()

    with pytest.raises(BaselineError, match='which is not in "launches"'):
        decode(json.dumps(content))


def _saved(numbers: range) -> list[str]:
    """The lines of a file with these runs, whose sessions of 5 runs have one time each."""
    runs = (run(number) for number in numbers)
    stored = tuple(dataclasses.replace(one, recorded=run(int(one.run[4:]) // 5 * 5).recorded) for one in runs)
    return encode({Subject(CASE): stored}).splitlines()


def test_in_a_diff_another_run_only_adds_lines() -> None:
    diff = list(difflib.ndiff(_saved(range(5, 8)), _saved(range(5, 9))))

    removed = [line[2:] for line in diff if line[0] == "-"]
    added = [line[2:] for line in diff if line[0] == "+"]
    assert len(added) == 2
    assert [f"{line}," for line in removed] == added[:1], "the last line gets a comma"


def test_an_unchanged_save_over_a_full_file_reads_in_under_50_lines() -> None:
    diff = list(difflib.unified_diff(_saved(range(20)), _saved(range(5, 25)), lineterm=""))

    assert 10 < len(diff) < 40


def test_what_runs_share_is_stored_once() -> None:
    text = encode({Subject(CASE): tuple(run(number) for number in range(20))})

    assert text.count("NVIDIA H200") == 1
    assert text.count("_rms_norm_fused_0d1d2d") == 1
    assert text.count("GPU-1111") == 20, "once for each origin, and these runs have one each"


def test_a_run_is_one_line_that_shows_its_medians() -> None:
    lines = encode({Subject(CASE): (run(1),)}).splitlines()

    (line,) = [line for line in lines if "run-1" in line]
    assert '"kernel busy":"5x24518+2k8:' in line
    assert '"copy":"5x0"' in line
    assert lines[-1] == "}"


def test_the_gap_is_not_stored_where_it_follows_from_span_and_busy() -> None:
    derived = dataclasses.replace(run(1), rounds={"busy": (7, 8), "span": (9, 11), "gap": (2, 3)})
    own = dataclasses.replace(run(2), rounds={"busy": (7, 8), "span": (9, 11), "gap": (2, 4)})

    text = encode({Subject(CASE): (derived, own)})

    assert text.count("span-busy") == 1
    assert decode(text) == {Subject(CASE): (derived, own)}


def test_files_of_the_first_format_are_read_for_ever() -> None:
    text = FIRST_FORMAT.read_text(encoding="utf-8")
    subject = Subject(CASE)
    second = dataclasses.replace(
        run(2),
        work=Work(2097152, 2621440),
        copied_bytes=64,
        is_stable=False,
        clocks=Clocks(
            1980, 187.7, 35, 0.25, ("sw_power_cap",), ("pid 7 (python)",), (1980, 1965, 1980, 1980, 1980)
        ),
    )
    third = dataclasses.replace(run(3), clocks=Clocks(), rounds={"kernel": (5, 6, 7, 8, 9)})

    assert decode(text) == {
        subject: (run(1), second, third),
        Subject(CASE, "forward"): (run(1, CASE, "forward"),),
    }
    assert decode(encode(decode(text))) == decode(text)


@pytest.mark.parametrize("share", [None, 0.0, 0.25, 1.0])
def test_the_share_of_the_cpu_that_was_lost_is_kept(share: float | None) -> None:
    runs = {Subject(CASE): (dataclasses.replace(run(1), clocks=Clocks(processor_lost=share)),)}

    assert decode(encode(runs)) == runs


Spoil = Callable[[dict[str, Any]], object]


def _first_run(file: dict[str, Any]) -> list[Any]:
    found: list[Any] = file["subjects"][0]["runs"][0]
    return found


def _entry(file: dict[str, Any], table: str) -> dict[str, Any]:
    (found,) = file[table].values()
    assert isinstance(found, dict)
    return found


def _spoil_rounds(**packed: str) -> Spoil:
    return lambda file: _first_run(file)[5].update(packed)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda file: _entry(file, "origins").update(board=7), ".board is 7, expected a string"),
        (lambda file: _entry(file, "origins").pop("board"), 'has no field "board"'),
        (lambda file: _entry(file, "origins").update(bord=""), 'has an unknown field "bord"'),
        (lambda file: _entry(file, "origins").update(board="\udcff"), "half of a surrogate pair"),
        (lambda file: _entry(file, "origins").update(recorded="yesterday"), 'has the time "yesterday"'),
        (lambda file: _entry(file, "origins").update(environment="zz"), 'not in "environments"'),
        (lambda file: _entry(file, "structures").update(is_stable=1), ".is_stable is 1, expected true or false"),
        (lambda file: _entry(file, "structures").update(copied_bytes=-1), "is -1, expected a whole number"),
        (lambda file: _entry(file, "structures").update(copied_bytes=True), "is true, expected a whole number"),
        (lambda file: _entry(file, "structures").update(launches=[["zz", 1]]), 'not in "shapes"'),
        (lambda file: _entry(file, "structures").update(launches=[1]), ".launches[0] is 1, expected a list of 2"),
        (lambda file: _entry(file, "structures").update(launches=[]), "medians has 1 items, expected 0"),
        (
            lambda file: _entry(file, "shapes").update(grid=[1, 2]),
            ".grid is a list of 2 items, expected a",
        ),
        (lambda file: _entry(file, "shapes").update(kernel="zz"), 'not in "kernels"'),
        (lambda file: _entry(file, "environments").update(gpu=1), ".gpu is 1, expected a string"),
        (lambda file: _first_run(file).__setitem__(0, "zz"), 'subjects[0].runs[0] has the key "zz"'),
        (lambda file: _first_run(file).__setitem__(2, "zz"), 'which is not in "structures"'),
        (
            lambda file: _first_run(file).__setitem__(3, ["fast", 1, 1, 1]),
            '.clocks[0] is "fast"',
        ),
        (lambda file: _first_run(file).__setitem__(3, [1, 1, 1, 7.0]), "from 0 to 1"),
        (lambda file: _first_run(file).__setitem__(4, [2**60]), "medians[0] is 1152921504606846976"),
        (_spoil_rounds(gap="span-busy", span="5x4"), "rounds.gap is the span less the busy time"),
        (_spoil_rounds(sync="span-busy"), 'rounds["sync"] is "span-busy", expected the form 100x2144'),
        (_spoil_rounds(sync="100001x7"), "holds 100001 numbers"),
        (_spoil_rounds(speed="1x7"), 'has an unknown metric "speed"'),
        (_spoil_rounds(kernel="1x7"), 'has the metric "kernel" twice'),
        (lambda file: file["subjects"][0].update(part=None), "subjects[0].part is null, expected a string"),
        (lambda file: file["subjects"].append(file["subjects"][0]), "is stored twice"),
        (lambda file: file["subjects"][0]["runs"].append(_first_run(file)), 'run "run-1" of "test_rms_norm'),
        (lambda file: file.update(format=0), "format is 0, expected 1 to 4"),
        (lambda file: file.update(format=True), "format is true, expected 1 to 4"),
        (lambda file: file.update(comment="mine"), 'the document has an unknown field "comment"'),
        (lambda file: file.pop("subjects"), 'the document has no field "subjects"'),
    ],
)
def test_a_wrong_field_is_refused_with_its_place_and_value(spoil: Spoil, message: str) -> None:
    file = json.loads(encode({Subject(CASE): (run(1),)}))
    spoil(file)

    with pytest.raises(BaselineError) as caught:
        decode(json.dumps(file))

    assert message in str(caught.value)


def _spoil_clocks(**clocks: object) -> Spoil:
    return lambda file: file["subjects"][0]["runs"][0]["clocks"].update(clocks)


def _spoil_first(**fields: object) -> Spoil:
    return lambda file: file["subjects"][0]["runs"][0].update(fields)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_spoil_clocks(sm_mhz="fast"), 'subjects[0].runs[0].clocks.sm_mhz is "fast"'),
        (_spoil_clocks(power_w=[1.0]), "clocks.power_w is [1.0], expected a number"),
        (_spoil_clocks(reasons=[["thermal"]]), 'clocks.reasons[0] is ["thermal"], expected a string'),
        (_spoil_clocks(others="pid 7"), 'clocks.others is "pid 7", expected a list'),
        (_spoil_clocks(round_mhz=[1.5]), "clocks.round_mhz[0] is 1.5, expected a whole number"),
        (_spoil_first(launches=[["9397bbe863f1", 2**40, 1]]), "launches[0][1] is 1099511627776"),
        (_spoil_first(rounds={"kernel": {"value": 0, "rounds": 10**12}}), "rounds.kernel.rounds is 1000000000000"),
        (_spoil_first(rounds={"kernel": [1] * (MOST_ROUNDS + 1)}), f"expected up to {MOST_ROUNDS}"),
        (_spoil_first(rounds={"kernel": [1, 2.5]}), "rounds.kernel[1] is 2.5, expected a whole number"),
        (_spoil_first(rounds={"kernel": "busy"}), 'has the key "busy", which is not in "rounds"'),
        (_spoil_first(rounds={"speed": [1]}), 'has an unknown metric "speed"'),
        (_spoil_first(environment="zz"), 'has the key "zz", which is not in "environments"'),
        (_spoil_first(bord=""), 'subjects[0].runs[0] has an unknown field "bord"'),
    ],
)
def test_a_wrong_field_of_the_first_format_is_refused_too(spoil: Spoil, message: str) -> None:
    file = json.loads(FIRST_FORMAT.read_text(encoding="utf-8"))
    spoil(file)

    with pytest.raises(BaselineError) as caught:
        decode(json.dumps(file))

    assert message in str(caught.value)


@pytest.mark.slow
def test_a_short_text_cannot_ask_for_all_memory() -> None:
    file = json.loads(encode({Subject(CASE): (run(1),)}))
    (first,) = file["subjects"][0]["runs"]
    rounds = {"kernel": f"{MOST_ROUNDS}x7"}
    file["subjects"][0]["runs"] = [
        [first[0], f"run-{number}", *first[2:5], rounds] for number in range(MOST_DURATIONS // MOST_ROUNDS + 1)
    ]

    with pytest.raises(BaselineError, match="holds more than 10,000,000 durations"):
        decode(json.dumps(file))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "invalid JSON at line 1"),
        ("{\n\n oops", "invalid JSON at line 3"),
        ('{"format": 1,\n<<<<<<< HEAD\n', "unresolved git merge conflict at line 2"),
        ('{"format": NaN}', "NaN, which is not a number"),
        ('{"format": 1, "format": 1}', 'field "format" twice'),
        ("[]", "the document holds no JSON object of baselines, but []"),
        ("[1, 2]", "holds no JSON object of baselines, but a list of 2 items"),
        ("null", "holds no JSON object of baselines, but null"),
        ("{}", "format is null, expected 1 to 4"),
        ("9" * 5000, "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
    ],
)
def test_text_that_is_no_baseline_is_refused(text: str, message: str) -> None:
    with pytest.raises(BaselineError) as caught:
        decode(text)

    assert message in str(caught.value)


def test_a_newer_format_is_no_damage() -> None:
    """Its other fields may mean anything, so nothing but the version is read."""
    with pytest.raises(NewerFormatError, match=r"format 5, this one reads up to 4"):
        decode('{"format": 5, "cases": []}')


def test_a_kernel_that_an_older_version_named_otherwise_has_the_name_of_today() -> None:
    full_name = "void device_kernel<cutlass::fmha::kernel::Sm90FmhaFwd<int>>(int)"
    older = Shape("kernel", "device_kernel", full_name, (8, 1, 1), (128, 1, 1))
    stored = dataclasses.replace(run(1), shapes=(ShapeUse(older, 1, 100),))

    (read,) = decode(encode({Subject(CASE): (stored,)}))[Subject(CASE)]

    assert read.shapes[0].shape == dataclasses.replace(older, name="device_kernel(Sm90FmhaFwd)")
