"""Traces that cannot be compared are refused with a reason, and notes on a trace are printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_nsight.cli import main
from pytest_nsight.compare.compare_command import compare
from pytest_nsight.model.errors import UsageError
from tests.trace.trace_builder import TraceBuilder

GPU = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 5, "pid": 0, "tid": 7}
CPU = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 10, "dur": 500, "pid": 1, "tid": 1}


def profiler_trace(path: Path, event: dict[str, object]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    return path


def kernels(path: Path) -> Path:
    return TraceBuilder().launch("k", 0, 1000, api_at=0).write(path)


def test_a_trace_of_a_cpu_and_one_of_a_gpu_are_refused(tmp_path: Path) -> None:
    cpu, gpu = profiler_trace(tmp_path / "cpu.json", CPU), kernels(tmp_path / "gpu.sqlite")
    for pair in ((cpu, gpu), (gpu, cpu), (cpu, profiler_trace(tmp_path / "gpu.json", GPU))):
        with pytest.raises(
            UsageError, match=r"cpu.json holds operators of a CPU and .*gpu.* work of a GPU"
        ) as found:
            compare(*pair)
        assert "give two traces of a CPU or two of a GPU" in str(found.value)

    assert compare(cpu, cpu).of_operators


def test_a_trace_that_lost_its_kernels_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = str(kernels(tmp_path / "a.sqlite"))
    lost = TraceBuilder().call("cudaLaunchKernel_v7000", 0, 10).copy(20, 30, 100, api_at=15)
    empty = TraceBuilder().range("step", 0, 10).write(tmp_path / "empty.sqlite")

    assert main(["compare", whole, str(lost.write(tmp_path / "lost.sqlite"))]) == 2
    assert "holds 1 call that launches a kernel but no kernel" in capsys.readouterr().err
    assert main(["compare", str(empty), whole]) == 2
    assert "empty.sqlite has no times to compare" in (text := capsys.readouterr().err)
    assert "no CUDA activity" in text


def test_copies_without_kernels_can_be_compared(tmp_path: Path) -> None:
    path = TraceBuilder().copy(20, 30, 100, api_at=15).write(tmp_path / "a.sqlite")

    assert compare(path, path).regressions == ()


def test_notes_name_their_trace_and_stand_once_where_both_have_them(tmp_path: Path) -> None:
    plain = kernels(tmp_path / "a.sqlite")
    lossy = TraceBuilder().launch("k", 0, 1000, api_at=0).launch("k", 2000, 2500).write(tmp_path / "b.sqlite")
    notes = compare(plain, lossy).notes

    assert sum("note on both traces: the recording holds no NVTX range" in note for note in notes) == 1
    (own,) = [note for note in notes if note.startswith(f"note on {lossy}: ")]
    assert "1 of 2 launches" in own


def test_boards_of_different_models_are_named(tmp_path: Path) -> None:
    paths = [
        TraceBuilder().board(uuid, name).launch("k", 0, 1000, api_at=0).write(tmp_path / f"{name}.sqlite")
        for uuid, name in (("GPU-1", "NVIDIA H100"), ("GPU-2", "NVIDIA H200"))
    ]

    (said,) = [note for note in compare(*paths).notes if "boards" in note]
    assert "H100.sqlite is of NVIDIA H100" in said
    assert "H200.sqlite of NVIDIA H200" in said
    assert not any("boards" in note for note in compare(paths[0], paths[0]).notes)
