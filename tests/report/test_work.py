"""Declared work in the reports: shown where it is declared, never made up, never at the cost of a name."""

from __future__ import annotations

import json
import re

import pytest

from pytest_nsight.model.roofline import Limits
from pytest_nsight.report import markdown, pytest_benchmark_json, terminal
from pytest_nsight.report.declared_work import work_rows
from tests.report import canned


def header(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("case"))


@pytest.mark.parametrize("width", range(75, 201, 5))
def test_columns_come_as_they_fit(width: int) -> None:
    text = terminal.render(canned.worked(), width, verbose=True)

    assert max(map(len, text.splitlines())) <= width
    columns = [name for name in ("of limit", "GB/s", "TFLOP/s") if name in header(text)]
    assert columns == ["of limit", "GB/s", "TFLOP/s"][: len(columns)]
    names = re.findall(r"^test_\S+", text, re.MULTILINE)
    assert len(set(names)) == len(names) == len(canned.WORK)


def test_a_narrow_terminal_shows_the_share_alone_and_names_come_first() -> None:
    wide, narrow, narrowest = (header(terminal.render(canned.worked(), width)) for width in (140, 85, 80))

    assert re.search(r"of limit +GB/s +TFLOP/s +verdict", wide)
    assert re.search(r"of limit +verdict", narrow)
    assert "of limit" not in narrowest, "test_rms_norm[fused-..] and [unfused-..] would look alike"


def test_a_session_without_declared_work_looks_as_ever() -> None:
    plain_session = canned.quiet(limits={"GPU-5b7e7a4c": Limits(4e12, 8e14)})

    assert terminal.render(plain_session, 140, verbose=True) == terminal.render(canned.quiet(), 140, verbose=True)
    assert markdown.render(plain_session) == markdown.render(canned.quiet())


def test_without_limits_only_rates_are_told() -> None:
    result = canned.worked(limits={})
    text = terminal.render(result, 140, verbose=True)

    assert "of limit" not in text
    assert "limits of" not in text
    assert "4.13 TB/s, 4.13 TFLOP/s; the board's limit is not known" in text
    assert work_rows(result)[0] == ("case", "time", "launches", "GB/s", "TFLOP/s", "speed-up")


def test_several_boards_have_a_line_each() -> None:
    limits = {"GPU-5b7e7a4c": Limits(4.19e12, 7.9e14), "GPU-0000": Limits(4.21e12)}
    text = terminal.render(canned.worked(limits=limits), 140)

    assert "limits of GPU-0000: copy 4.21 TB/s (datasheet 4.80 TB/s)\n" in text
    assert "limits of GPU-5b7e7a4c: copy 4.19 TB/s" in text


def test_a_case_stands_above_the_one_that_it_claims_to_beat_with_the_factor() -> None:
    result = canned.worked()
    backwards = canned.worked(verdicts=tuple(reversed(result.verdicts)))

    for one in (result, backwards):
        rows = {row[0]: row for row in work_rows(one)}
        names = list(rows)
        assert names.index("test_rms_norm[fused-b32x2048]") + 1 == names.index("test_rms_norm[unfused-b32x2048]")
        assert rows["test_rms_norm[fused-b32x2048]"][-1] == "5.04 x"
        assert rows["test_rms_norm[unfused-b32x2048]"][-1] == ""
    assert len(work_rows(result)) == 5


def test_cases_that_claim_to_beat_each_other_are_all_there() -> None:
    fused, unfused = (verdict.subject.case for verdict in canned.worked().verdicts[:2])

    assert len(work_rows(canned.worked(partners={fused: unfused, unfused: fused}))) == 5


def test_json_carries_what_led_to_the_share() -> None:
    file = json.loads(pytest_benchmark_json.render(canned.worked()))
    ours = file["benchmarks"][0]["extra_info"]["nsight"]

    assert file["nsight"]["limits"] == {"GPU-5b7e7a4c": {"bytes_per_s": 4.19e12, "flops_per_s": 7.9e14}}
    assert file["nsight"]["datasheet"]["bytes_per_s"] == 4.8e12
    assert ours["roofline"]["work"] == {"bytes_moved": 1_073_741_824, "flops": 1_073_741_824}
    assert ours["roofline"]["bound"]["resource"] == "memory"
    assert ours["roofline"]["share"] == pytest.approx(1_073_741_824 / 4.19e12 / 260.1e-6, rel=1e-3)
    assert ours["faster_than"] == "perf_tests/test_rms_norm.py::test_rms_norm[unfused-b32x2048]"
