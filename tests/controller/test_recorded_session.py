"""A session of two workers and two ranks on two H200s, as recorded: each launch in its round and on its board.

Recorded by `python -m tests.gpu.record_two_gpus`; what is counted here is held against joins in plain SQL.
"""

from __future__ import annotations

import lzma
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.values import RunSummary
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.trace.measures import measure
from pytest_nsight.trace.run_summary import summarise
from tests.gpu.programs.sizes_two_gpus import CASES, ROUNDS
from tests.gpu.test_two_gpus import IN_ROUNDS, KERNELS

FOLDER = Path(__file__).parents[1] / "data" / "recordings" / "h200_two_gpus"
BOARDS = ("GPU-a6c79dbe-ee69-f1c8-4fd4-5638a5465847", "GPU-ad452014-da64-e19b-f9af-7d21d2d66752")


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two_gpus") / "trace.sqlite"
    path.write_bytes(lzma.decompress((FOLDER / "trace.sqlite.xz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def manifests() -> dict[str, Manifest]:
    return {path.name.split(".")[0]: read_manifest(path) for path in sorted(FOLDER.glob("*.jsonl"))}


@pytest.fixture(scope="module")
def summaries(export: Path, manifests: dict[str, Manifest]) -> dict[tuple[str, str], RunSummary]:
    measured = measure(read(export))
    return {
        (name, summary.subject.label): summary
        for name, manifest in manifests.items()
        for summary in summarise(manifest, measured)[0]
    }


def rows(export: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(export)) as database:
        return database.execute(query).fetchall()


def test_each_process_used_the_board_that_it_was_given(export: Path, manifests: dict[str, Manifest]) -> None:
    boards = {process: {uuid for found, uuid, *_ in rows(export, KERNELS) if found == process}
              for process in (manifest.pid for manifest in manifests.values())}  # fmt: skip

    assert boards == {manifest.pid: {manifest.board} for manifest in manifests.values()}
    assert [manifest.board for manifest in manifests.values()] == [*BOARDS, *BOARDS]


def test_an_all_reduce_is_one_nccl_kernel_a_round_on_every_rank(
    export: Path, manifests: dict[str, Manifest], summaries: dict[tuple[str, str], RunSummary]
) -> None:
    counts = Counter(
        (process, uuid)
        for process, uuid, kernel, text, _ in rows(export, IN_ROUNDS)
        if "test_all_reduce" in text and "nccl" in kernel.lower()
    )
    for name, board in zip(("ranks-2-rank-0", "ranks-2-rank-1"), BOARDS, strict=True):
        summary = summaries[name, "test_all_reduce"]
        (use,) = summary.shapes
        assert "nccl" in use.shape.name.lower()
        assert (use.count, len(summary.rounds["kernel"]), summary.board) == (1, ROUNDS, board)
        assert counts[manifests[name].pid, board] == ROUNDS


def test_each_round_of_a_worker_has_its_one_kernel(
    export: Path, manifests: dict[str, Manifest], summaries: dict[tuple[str, str], RunSummary]
) -> None:
    workers = {manifests[name].pid for name in ("worker-1", "worker-2")}
    counts = Counter((process, text) for process, _, _, text, _ in rows(export, IN_ROUNDS) if process in workers)
    singles = {label: summary for (name, label), summary in summaries.items() if label.startswith("test_single")}

    assert sorted(count for (_, text), count in counts.items() if "test_single" in text) == [ROUNDS] * CASES
    assert len(singles) == CASES
    assert all(sum(use.count for use in summary.shapes) == 1 for summary in singles.values())
