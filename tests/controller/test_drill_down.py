"""The drill-down: which verdicts it explains, what it compares with, and what it says where it cannot."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.baselines import stored_counters
from pytest_nsight.baselines.stored_counters import FILE_NAME, load_counters, store_counters
from pytest_nsight.controller import drill_down
from pytest_nsight.controller.drill_down import MOST_CASES, Drill, profile_with_ncu, read_cases
from pytest_nsight.controller.session_folders import SESSIONS_FOLDER, make_run_folder
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_starter import LiveSession
from pytest_nsight.model.comparison import SlowerKernel
from pytest_nsight.model.errors import BaselineError, CollectorError
from pytest_nsight.model.kernel_counters import CaseCounters, KernelCounters
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE
from tests.report.canned import comparison

SPILLED = {"local_bytes": 5e7, "registers": 24.0}
SOUND = {"local_bytes": 0.0, "registers": 32.0}


class Board:
    """Answers like a board: the kernels of each tree and case, and which were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []

    def profile(self, tree: str, case: str, kernels: Sequence[str]) -> tuple[KernelCounters, ...]:
        self.asked.append((tree, case, tuple(kernels)))
        if "broken" in case:
            raise CollectorError("this user may not read the GPU's counters")
        is_sound = tree == OTHER_TREE or "unfused" in case
        return (KernelCounters("_scale_kernel", 3, SOUND if is_sound else SPILLED),)


def verdict(case: str, kind: VerdictKind = VerdictKind.REGRESSION, part: str = "", ratio: float = 2.0) -> Verdict:
    slower = (SlowerKernel("_scale_kernel<4>", 1000.0, 2000.0),)
    compared = dataclasses.replace(comparison(1000, ratio, 0.1, 1e-6), slower_kernels=slower)
    return Verdict(Subject(case, part), kind, "slower", 2000.0, compared)


def test_two_trees_are_compared_on_the_slower_kernel() -> None:
    board = Board()

    (found,) = Drill(board.profile, "1a2b3c4 (main)").explain([verdict("t.py::a")])

    assert board.asked == [
        (THIS_TREE, "t.py::a", ("_scale_kernel",)),
        (OTHER_TREE, "t.py::a", ("_scale_kernel",)),
    ]
    assert found.sentence == (
        "slower; Nsight Compute on _scale_kernel, against 1a2b3c4 (main): spilled registers and local arrays "
        "0 B -> 50.0 MB, registers 32.0 -> 24.0"
    )


def test_without_another_tree_the_stored_counters_are_compared() -> None:
    stored = {
        "t.py::a": CaseCounters("t.py::a", "counters of an H200", (KernelCounters("_scale_kernel", 3, SOUND),))
    }

    (found,) = Drill(Board().profile, stored=stored).explain([verdict("t.py::a")])

    assert "against the baseline's counters of an H200: spilled registers and local arrays 0 B ->" in found.sentence


def test_without_anything_to_compare_with_the_counters_and_the_remedy_are_given() -> None:
    (found,) = Drill(Board().profile).explain([verdict("t.py::a")])

    assert (
        "Nsight Compute on _scale_kernel: spilled registers and local arrays 50.0 MB, registers 24.0"
        in found.sentence
    )
    assert found.sentence.endswith("save with --nsight-save --nsight-drill, or measure with --nsight-against")


def test_a_lost_claim_is_compared_with_its_partner() -> None:
    drill = Drill(Board().profile, partners={"t.py::f[fused]": "t.py::f[unfused]"})

    lost, other = drill.explain(
        [verdict("t.py::f[fused]", VerdictKind.CLAIM), verdict("t.py::launches", VerdictKind.CLAIM)]
    )

    assert "against f[unfused]: spilled registers and local arrays 0 B -> 50.0 MB" in lost.sentence
    assert other.sentence == "slower", "a claim about launches needs no counters"


def test_other_verdicts_parts_and_cases_beyond_the_worst_are_left_alone() -> None:
    board = Board()
    verdicts = [
        verdict("t.py::same", VerdictKind.UNCHANGED),
        verdict("t.py::a", part="forward"),
        *(verdict(f"t.py::case{number}", ratio=2.0 + number) for number in range(MOST_CASES + 2)),
    ]

    found = Drill(board.profile, "main").explain(verdicts)

    assert [one.sentence == "slower" for one in found] == [True, True, True, True, *[False] * MOST_CASES]
    assert len(board.asked) == 2 * MOST_CASES
    assert {case for _, case, _ in board.asked} == {f"t.py::case{number}" for number in range(2, MOST_CASES + 2)}


def test_a_case_that_cannot_be_profiled_says_why_and_keeps_its_verdict() -> None:
    (found,) = Drill(Board().profile).explain([verdict("t.py::broken")])

    assert found.kind is VerdictKind.REGRESSION
    assert found.sentence == "slower; not drilled into: this user may not read the GPU's counters"


def test_the_folders_of_a_session_s_drills_are_numbered_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Source:
        def __init__(self, session: LiveSession, _watch: object, *, measures_again: bool) -> None:
            assert not measures_again
            self.folder = session.folder

        def execute(self, _assignment: object) -> None:
            make_run_folder(self.folder / "run-001")

        def close(self) -> None:
            pass

    monkeypatch.setattr(drill_down, "LiveSource", Source)
    monkeypatch.setattr(drill_down, "find_ncu", lambda _environ: "ncu")
    monkeypatch.setattr(drill_down, "NcuCollector", lambda *_: SimpleNamespace(counters=()))
    folder = tmp_path / SESSIONS_FOLDER / "20260101-120000-abcd"
    session = LiveSession(
        id="s",
        recorded="",
        commit="",
        folder=folder,
        collector=SimpleNamespace(),  # type: ignore[arg-type]
        trees={},
        rounds=None,
        keep=False,
        canaries=False,
        environment={},
        limits=TimeLimits(600.0),
    )

    profile = profile_with_ncu(session, ())
    for _ in range(3):
        profile(THIS_TREE, "t.py::a", ())

    assert sorted(path.name for path in (folder / "drill").iterdir()) == ["001", "002", "003"]


def test_counters_are_stored_sorted_and_read_again(tmp_path: Path) -> None:
    found, troubles = read_cases(Board().profile, ["t.py::b", "t.py::a", "t.py::broken"], "counters of an H200")

    store_counters(tmp_path, "h200", found, ())
    store_counters(tmp_path, "h200", [dataclasses.replace(found[0], source="newer")], {"t.py::b"})

    assert troubles == ["no counters of t.py::broken were stored: this user may not read the GPU's counters"]
    path = tmp_path / "h200" / FILE_NAME
    assert [line.split('"case": ')[1][:9] for line in path.read_text().splitlines()] == ['"t.py::a"', '"t.py::b"']
    again = load_counters(tmp_path, "h200")
    assert again["t.py::a"] == found[1]
    assert again["t.py::b"].source == "newer"
    assert load_counters(tmp_path, "other") == {}


def test_counters_that_two_sessions_save_at_once_are_both_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = read_cases(Board().profile, ["t.py::a", "t.py::b"], "counters of an H200")
    read = stored_counters.read_lines

    def read_slowly(*arguments: Any) -> Any:
        lines = read(*arguments)
        time.sleep(0.2)
        return lines

    monkeypatch.setattr(stored_counters, "read_lines", read_slowly)
    savers = [threading.Thread(target=store_counters, args=(tmp_path, "h200", [one], ())) for one in found]
    for one in savers:
        one.start()
    for one in savers:
        one.join()

    assert load_counters(tmp_path, "h200").keys() == {"t.py::a", "t.py::b"}


def test_outdated_counters_go_and_with_the_last_ones_the_file(tmp_path: Path) -> None:
    found, _ = read_cases(Board().profile, ["t.py::a", "t.py::b"], "counters of an H200")
    store_counters(tmp_path, "h200", found, ())

    removed = [store_counters(tmp_path, "h200", (), {case}) for case in ("t.py::a", "t.py::other")]
    left = load_counters(tmp_path, "h200").keys()
    removed.append(store_counters(tmp_path, "h200", (), {"t.py::b", "t.py::other"}))

    assert removed == [{"t.py::a"}, set(), {"t.py::b"}]
    assert left == {"t.py::b"}
    assert not (tmp_path / "h200" / FILE_NAME).exists()
    assert store_counters(tmp_path, "new", (), {"t.py::b"}) == set()
    assert not (tmp_path / "new").exists()


def test_a_damaged_file_of_counters_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "h200").mkdir()
    (tmp_path / "h200" / FILE_NAME).write_text('{"format": 1}\n')

    with pytest.raises(
        BaselineError, match=r"nsight_counters.jsonl, line 1 is damaged: .*restore the file from git"
    ):
        load_counters(tmp_path, "h200")
