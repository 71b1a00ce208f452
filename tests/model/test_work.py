"""What a test says of its work: read strictly, written into the manifest, part of the case's summary."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_nsight.model.values import Work
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.mark import read_mark
from pytest_nsight.worker.fixture import Nsight, PlainMeasurement


class Listener(PlainMeasurement):
    def __init__(self) -> None:
        self.heard: list[Work] = []

    def declare(self, work: Work) -> None:
        self.heard.append(work)


@pytest.mark.parametrize(
    ("arguments", "work"),
    [
        ({"bytes": 12, "flops": 3}, Work(12, 3)),
        ({"bytes": 1e9}, Work(1_000_000_000, 0)),
        ({"flops": np.int64(7)}, Work(0, 7)),
        ({"bytes": 0}, Work(0, 0)),
    ],
)
def test_work_is_told_in_whole_numbers(arguments: dict[str, float], work: Work) -> None:
    listener = Listener()

    Nsight(listener).work(**arguments)

    assert listener.heard == [work]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "12", 2**63, [1]])
def test_what_is_no_amount_is_refused_with_the_value(value: object) -> None:
    with pytest.raises(ValueError, match=r"nsight\.work\(bytes=\.\.\.\) is .*; give a number of at least 0"):
        Nsight(PlainMeasurement()).work(bytes=value)  # type: ignore[arg-type]


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nsight\.work\(\) says nothing: give bytes=, flops= or both"):
        Nsight(PlainMeasurement()).work()


def test_the_same_work_in_every_round_is_told_once_and_other_work_is_refused() -> None:
    listener = Listener()
    nsight = Nsight(listener)
    for _ in range(3):
        nsight.work(bytes=8)

    with pytest.raises(ValueError, match="a test has one amount of work"):
        nsight.work(bytes=9)
    assert listener.heard == [Work(8)]


@pytest.mark.slow
def test_marks_of_function_and_parameter_add_up(pytester: pytest.Pytester) -> None:
    item = pytester.getitem(
        """
        import pytest

        @pytest.mark.nsight(bytes=1e3, min_share_of_limit="85%", launches=4)
        @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.nsight(flops=5, launches=1))])
        def test_it(n): pass
        """,
        "test_it[1]",
    )

    mark = read_mark(item)

    assert mark.work == Work(1000, 5)
    assert (mark.min_share_of_limit, mark.launches) == (0.85, 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("bytes=-1", "*test_it: nsight(bytes=...) is -1; give a number of at least 0*"),
        ("flops='many'", "*test_it: nsight(flops=...) is 'many'; give a number of at least 0*"),
        ("min_share_of_limit=1.1", "*nsight(min_share_of_limit=...) is 1.1; give a share of the limit*"),
        ("min_share_of_limit=0", "*nsight(min_share_of_limit=...) is 0; give a share of the limit*"),
        ("min_share_of_limit=True", "*nsight(min_share_of_limit=...) is True; give a share of the limit*"),
    ],
)
def test_a_wrong_mark_ends_the_collection(pytester: pytest.Pytester, arguments: str, sentence: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.nsight({arguments})\ndef test_it(): pass\n")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


def test_of_a_manifest_the_last_word_counts(tmp_path: Path) -> None:
    events = [
        {"event": "work", "case": "t.py::a", "bytes_moved": 1, "flops": 2},
        {"event": "work", "case": "t.py::b", "bytes_moved": 5, "flops": 0},
        {"event": "work", "case": "t.py::a", "bytes_moved": 3, "flops": 4},
    ]
    path = tmp_path / "manifest.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")

    assert read_manifest(path).work == {"t.py::a": Work(3, 4), "t.py::b": Work(5, 0)}
