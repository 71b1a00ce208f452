"""`pytest-nsight show`: every figure on the page is one that the trace was built with."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.analysis.selection import choose_ranges
from pytest_nsight.cli import main
from pytest_nsight.collectors.nsys.scrub import pack
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.errors import NsysError, UsageError
from pytest_nsight.show.layout import bandwidth
from pytest_nsight.show.page import View, show
from pytest_nsight.show.records import write_json
from tests.collectors.real import require_nsys, run
from tests.trace.trace_builder import HARDWARE, TraceBuilder

# Two sessions of nsys 2022.4 that start at one moment can end each other.
pytestmark = pytest.mark.xdist_group("nsys")

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("*.xz"))
KEPT = {path.name.partition(".")[0]: path for path in RECORDINGS}
FIRST_COLUMN = re.compile(r"^ *(\S.*?)  +(.*)$")


def page(builder: TraceBuilder, folder: Path, width: int = 160, **more: Any) -> str:
    return show(builder.write(folder / "trace.sqlite"), width, View(**more))


def section(text: str, title: str) -> dict[str, list[str]]:
    """Rows below a title, by their first cell; where a table was split, the cells of all parts."""
    rows: dict[str, list[str]] = {}
    start = text.index(f"\n{title}") + 1
    for line in re.split(r"\n\n(?=[A-Z])", text[start:])[0].splitlines()[1:]:
        if match := FIRST_COLUMN.match(line):
            rows.setdefault(match[1], []).extend(re.split(r"  +", match[2]))
    return rows


def tar() -> bytes:
    """An archive with one file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("trace.sqlite"))
    return file.getvalue()


def two_steps() -> TraceBuilder:
    """Two ranges: 3 us and 5 us of kernels on one stream, with 1 us and 2 us of idle time, and a copy."""
    trace = TraceBuilder().board("aaaa", "NVIDIA H200", process=100)
    for start, length in ((0, 1000), (100_000, 2000)):
        trace.range("step", start, start + 50_000)
        trace.launch("first", start + 10_000, start + 11_000 + length, api_at=start, api_ns=500, grid=(128, 2, 1))
        trace.launch("second", start + 12_000 + 2 * length, start + 13_000 + 3 * length, api_at=start + 1000)
        trace.call("cudaDeviceSynchronize_v3020", start + 40_000, start + 44_000)
    return trace.copy(60_000, 70_000, 500_000, api_at=10).launch("loose", 90_000, 94_000, api_at=80_000)


def test_a_page_tells_tool_devices_and_sizes_first(tmp_path):
    lines = page(two_steps(), tmp_path).splitlines()

    assert lines[0] == "NVIDIA Nsight Systems 2025.3.0.0, recorded 2023-11-14 22:13:20 UTC"
    assert lines[1] == "device 0: NVIDIA H200 GPU-aaaa"
    assert lines[2].startswith("6 launches, 2 ranges, 8 CUDA calls; 1 process over 150 us")


@pytest.mark.parametrize("width", [40, 60, 79])
def test_text_fits_a_narrow_terminal_and_tables_do_where_their_numbers_allow(width, tmp_path):
    text = page(two_steps(), tmp_path, width)
    prose = [line for line in text.splitlines() if "  " not in line.strip() and not line.startswith("---")]

    assert max(map(len, prose)) <= width
    assert "synchronise or block" in " ".join(prose)
    assert max(map(len, text.splitlines())) <= max(width, 60)


def test_the_headline_of_a_device_adds_up(tmp_path):
    """14 us of kernels and 10 us of copies on one device, from 10 to 119 us."""
    devices = section(page(two_steps(), tmp_path), "Devices, ")

    cells = dict(zip(devices["device"], devices["0 NVIDIA H200"], strict=True))
    assert cells == {
        "wall": "109 us", "busy": "24.0 us", "utilisation": "22.0 %", "kernels": "14.0 us", "copies": "10.0 us",
        "both": "-", "idle": "85.0 us", "host waits": "8.00 us",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("second", "header", "row"),
    [
        ("NVIDIA A100", "device 1: NVIDIA A100\n", "1 NVIDIA A100"),
        ("NVIDIA T4", "device 1: a board that the recording does not name\n", "1 (process 100)"),
    ],
)
def test_a_board_that_may_be_any_of_several_has_a_name_only_if_all_have_it(second, header, row, tmp_path):
    """An export before 2025 does not say which board a process calls 1; header, table and JSON say the same."""
    trace = TraceBuilder("2024.2").board("aaaa", "NVIDIA A100").board("bbbb", second)
    trace.launch("k", 0, 1000, api_at=0, device=1)
    text = page(trace, tmp_path)
    (device,) = json.loads(write_json(View().analyse(load_trace(tmp_path / "trace.sqlite"))))["devices"]

    assert header in text
    assert row in section(text, "Devices, ")
    assert f"{device['device']} {device['name']}".strip() == row.partition(" (")[0]
    assert device["uuid"] == ""


def boards_of(builder: TraceBuilder, folder: Path) -> list[dict[str, Any]]:
    """The table of devices in JSON."""
    builder.write(folder / "trace.sqlite")
    tables = json.loads(write_json(View().analyse(load_trace(folder / "trace.sqlite"))))
    return tables["devices"]


def test_a_board_names_the_processes_that_used_it_and_no_other(tmp_path):
    """Process 1 lists the board first and never uses it; 2 calls it 0 and 3 calls it 1."""
    trace = TraceBuilder().board("bbbb", "H200", process=1, ordinal=1)
    for process, ordinal in ((2, 0), (3, 1)):
        trace.row("TARGET_INFO_CUDA_DEVICE", gpuId=HARDWARE, cudaId=ordinal, pid=process)
    trace.launch("k", 0, 9, api_at=0, process=2)
    (alone,) = boards_of(trace, tmp_path)
    (shared,) = boards_of(trace.launch("k", 5, 19, api_at=0, process=3, device=1), tmp_path)

    assert (alone["device"], alone["process"], alone["processes"]) == (0, 2, "2")
    assert (shared["device"], shared["process"], shared["processes"]) == (1, None, "2/3")
    assert (shared["uuid"], shared["busy_ns"], shared["idle_ns"]) == ("GPU-bbbb", 19, 0)


def test_devices_stand_in_order_of_their_number(tmp_path):
    trace = TraceBuilder().board("bbbb", "H200", process=100, ordinal=1).board("aaaa", "H200", process=100)
    unused = page(trace, tmp_path)
    text = page(trace.launch("k", 0, 9, api_at=0, device=1).launch("k", 5, 9, api_at=1), tmp_path)

    assert "device 0: H200 GPU-aaaa\ndevice 1: H200 GPU-bbbb\n" in unused
    assert "device 0: H200 GPU-aaaa\ndevice 1: H200 GPU-bbbb\n" in text
    assert list(section(text, "Devices, "))[1:3] == ["0 H200", "1 H200"]


def test_boards_with_one_number_and_one_name_are_told_apart_by_their_uuids(tmp_path):
    trace = TraceBuilder().board("GPU-aaaaaaaa-1111", "H200", process=100)
    trace.board("GPU-bbbbbbbb-2222", "H200", process=200)
    trace.launch("k", 0, 9, api_at=0).launch("k", 0, 9, api_at=0, process=200)
    text = page(trace, tmp_path)

    assert set(section(text, "Devices, ")) >= {"0 H200 GPU-aaaaaaaa", "0 H200 GPU-bbbbbbbb"}
    assert "device 0: H200 GPU-aaaaaaaa-1111\ndevice 0: H200 GPU-bbbbbbbb-2222\n" in text


def test_boards_of_two_processes_without_a_uuid_are_told_apart_by_the_process(tmp_path):
    """An export before 2025 does not say which board a process calls 0."""
    trace = TraceBuilder("2024.2").board("aaaa", "H200").board("bbbb", "H200")
    trace.launch("k", 0, 9, api_at=0).launch("k", 0, 9, api_at=0, process=200)
    text = page(trace, tmp_path)

    assert set(section(text, "Devices, ")) >= {"0 H200 (process 100)", "0 H200 (process 200)"}
    assert "device 0: H200 (process 100)\ndevice 0: H200 (process 200)\n" in text


@pytest.mark.parametrize(("apart_ns", "is_shown"), [(900, False), (1500, True)])
def test_unknown_idle_time_that_rounding_leaves_has_no_row(apart_ns, is_shown, tmp_path):
    """Of 10 ms a gap before a kernel without a call; JSON keeps it, and the states add up to the wall time."""
    trace = TraceBuilder().launch("a", 0, 9_000_000, api_at=0).launch("b", 9_000_000 + apart_ns, 10_000_000)
    text = page(trace, tmp_path)
    tables = json.loads(write_json(View().analyse(load_trace(tmp_path / "trace.sqlite"))))

    states = {one["state"]: one["total_ns"] for one in tables["states"]}
    assert ("idle: unknown" in text) is is_shown
    assert states["unknown"] == apart_ns
    assert sum(states.values()) == tables["devices"][0]["wall_ns"] == 10_000_000


def test_unknown_idle_time_of_a_short_recording_is_no_rounding(tmp_path):
    assert "idle: unknown" in page(TraceBuilder().launch("a", 0, 500, api_at=0).launch("b", 900, 1000), tmp_path)


def test_the_table_of_ranges_says_what_its_shares_are_of(tmp_path):
    trace = TraceBuilder().range("step", 0, 1000).range("load", 10, 400).range("read", 20, 200)
    nothing_ran = page(trace, tmp_path)
    some_ran = page(trace.launch("a", 600, 700, api_at=500), tmp_path)

    assert "share: of the parent's host time; " in nothing_ran
    assert section(nothing_ran, "Ranges: ")["load"][1] == "39.0 %"
    assert "share: of the parent's device time, or of its host time where it has none; " in some_ran


def test_ranges_form_a_tree_with_shares_of_the_parent(tmp_path):
    trace = TraceBuilder().range("step", 0, 1000).range("forward", 10, 400).range("backward", 410, 900)
    trace.launch("a", 20, 120, api_at=15).launch("b", 500, 800, api_at=450).copy(900, 1000, 64, api_at=950)
    ranges = section(page(trace, tmp_path), "Ranges: 3 instances")

    rows = {name: dict(zip(ranges["range"], cells, strict=True)) for name, cells in ranges.items()}
    assert rows["step"]["device"] == "500 ns"
    assert (rows["backward"]["share"], rows["backward"]["kernels"]) == ("60.0 %", "300 ns")
    assert (rows["forward"]["share"], rows["forward"]["launches"]) == ("20.0 %", "1")
    assert rows["step"]["copies"] == "100 ns"


def test_kernels_have_one_row_a_name_and_their_shapes_beneath(tmp_path):
    trace = TraceBuilder()
    for number, grid in enumerate((4, 4, 8)):
        trace.launch("gemm_kernel", 100 * number, 100 * number + 30, api_at=number, grid=(grid, 1, 1))
    trace.launch("other", 900, 910, api_at=9)
    kernels = section(page(trace, tmp_path), "Kernels: 4 launches, 100 ns")

    assert kernels["gemm_kernel"] == ["GEMM", "3", "90.0 ns", "90.0 %", "30.0 ns", "2 shapes"]
    assert kernels["grid 4"][:4] == ["2", "60.0 ns", "60.0 %", "30.0 ns"]
    assert kernels["grid 8"][:3] == ["1", "30.0 ns", "30.0 %"]


def test_kernels_that_differ_in_template_arguments_only_have_different_names(tmp_path):
    trace = (
        TraceBuilder()
        .launch("void f<int, 4>(int)", 0, 30, api_at=0)
        .launch("void f<float, 8>(float)", 40, 50, api_at=1)
    )
    text = page(trace, tmp_path)

    kernels = section(text, "Kernels: 2 launches")
    assert "f [int 4]" in kernels
    assert "f [float 8]" in kernels
    assert "void f<int, 4>(int)" in page(trace, tmp_path, full_names=True)


@pytest.mark.parametrize("width", [80, 120, 160])
def test_full_names_are_whole_at_any_width(width, tmp_path):
    names = [
        f"void at::native::reduce_kernel<512, {number}, {'at::native::MeanOps<float>, ' * 12}>" for number in (1, 2)
    ]
    trace = TraceBuilder()
    for number, name in enumerate([*names, "short"]):
        trace.launch(name, 100 * number, 100 * number + 30 + number, api_at=number)
    lines = page(trace, tmp_path, width, full_names=True).splitlines()

    assert set(names) <= set(lines)
    row = lines[lines.index(names[1]) + 1].split()
    assert row[:3] == ["reduction", "1", "31.0"]
    assert any(line.startswith("short  ") for line in lines)
    assert not any(".." in line for line in lines)


def test_copies_show_rate_memory_and_overlap(tmp_path):
    """500 kB in 10 us are 50 GB/s; a kernel runs during half of it."""
    trace = two_steps().launch("beside", 65_000, 70_000, api_at=50_000)
    copies = section(page(trace, tmp_path), "Memory copies and sets: 500 kB in 10.0 us")

    assert copies["memcpy HtoD (pinned to device)"] == [
        "1",
        "10.0 us",
        "10.0 us",
        "500 kB",
        "50.0",
        "yes",
        "50.0 %",
    ]


def test_a_migration_is_one_of_managed_memory(tmp_path):
    trace = TraceBuilder().launch("k", 0, 9000, api_at=0).migration(1000, 2000, 65536)
    text = page(trace, tmp_path)
    copies = section(text, "Memory copies and sets: 65.5 kB")

    assert copies["memcpy UVM HtoD (managed memory)"][5] == "-", "pages that move are neither pinned nor pageable"
    assert "unknown to unknown" not in text


def test_calls_show_the_synchronisation_of_all(tmp_path):
    calls = section(page(two_steps(), tmp_path), "CUDA calls: ")

    assert calls["cudaDeviceSynchronize"] == ["2", "8.00 us", "4.00 us", "4.00 us"]
    assert "waiting 8.00 us in 2 calls" in page(two_steps(), tmp_path)


def test_launches_in_no_range_are_listed(tmp_path):
    trace = two_steps().launch("unlaunched", 95_000, 96_000)
    unattributed = section(page(trace, tmp_path), "Launches in no range: 2 launches, 5.00 us")

    assert unattributed["loose"] == ["1", "4.00 us", "outside every range"]
    assert unattributed["unlaunched"] == ["1", "1.00 us", "no API call"]


def test_rows_beyond_the_wanted_number_are_added_up(tmp_path):
    trace = TraceBuilder().range("outer", 0, 1_000_000)
    for number, length in enumerate((50_000, 40_000, 30_000, 20_000, 10_000)):
        at = 100_000 * number
        trace.range(f"part {'abcde'[number]}", at, at + 90_000).launch(f"k{number}", at, at + length, api_at=at + 1)
    text = page(trace, tmp_path, top=2)

    kernels = section(text, "Kernels: 5 launches, 150 us")
    assert kernels["3 others"] == ["3", "60.0 us", "40.0 %"]
    ranges = section(text, "Ranges: 6 instances")
    assert [name for name in ranges if name.startswith(("outer", "part"))] == ["outer", "part a"]
    assert "4 smaller branches left out" in text


def test_a_range_filter_limits_every_table_and_says_what_it_left_out(tmp_path):
    trace = TraceBuilder()
    for number, name in enumerate(("forward", "backward", "load")):
        at = 1000 * number
        trace.range(name, at, at + 900).launch(f"{name}_a", at, at + 10, api_at=at + 1)
        trace.range("inside", at + 2, at + 4)
        trace.launch(f"{name}_b", at + 20, at + 30, api_at=at + 2)
    text = page(trace, tmp_path, name="ward")

    assert list(section(text, "Ranges: 4 instances"))[1:] == ["backward", "inside", "forward"]
    kernels = section(text, "Kernels: 4 launches, 40.0 ns")
    assert {"backward_a", "backward_b", "forward_a", "forward_b"} <= set(kernels)
    assert "load" not in text
    assert "2 launches outside the chosen ranges were left out" in text


def test_a_domain_filter_takes_the_ranges_of_this_domain(tmp_path):
    trace = TraceBuilder().range("a", 0, 10, domain="NCCL").range("b", 0, 10, domain="").range("c", 0, 10)
    path = trace.launch("k", 3, 4, api_at=2).write(tmp_path / "t.sqlite")

    assert {"b", "NCCL:a", "pytest_nsight:c"} <= set(section(show(path), "Ranges: 3 instances"))
    assert list(section(show(path, view=View(domain="NCCL")), "Ranges: 1 instance"))[1:] == ["a"]
    assert list(section(show(path, view=View(domain="")), "Ranges: 1 instance"))[1:] == ["b"]


@pytest.mark.parametrize(
    ("choice", "words"),
    [({"name": "x"}, "'x' in it.*'step'"), ({"domain": "NCCL"}, "'NCCL'; there are 'pytest_nsight'")],
)
def test_a_filter_without_a_match_says_what_there_is(choice, words, tmp_path):
    with pytest.raises(UsageError, match=words):
        page(two_steps(), tmp_path, **choice)


@pytest.mark.parametrize(("label", "kernels"), [("step#*", {"k0", "k1", "k2"}), ("NCCL:reduce", {"r"})])
def test_a_range_is_chosen_by_the_name_that_tables_show(tmp_path: Path, label: str, kernels: set[str]) -> None:
    trace = TraceBuilder().range("reduce", 9000, 9900, domain="NCCL").launch("r", 9100, 9200, api_at=9050)
    for number in range(3):
        at = 1000 * number
        trace.range(f"step#{number}", at, at + 900).launch(f"k{number}", at + 10, at + 20, api_at=at + 5)
    path = trace.write(tmp_path / "t.sqlite")

    assert any(row.endswith(label) for row in section(show(path), "Ranges: 4 instances"))
    chosen = load_trace(path).ranges.take(choose_ranges(load_trace(path), label, None))
    assert len(chosen) == len(kernels)
    assert kernels <= set(section(show(path, view=View(name=label)), f"Kernels: {len(kernels)} launch"))


def test_a_trace_without_ranges_shows_kernels_and_why(tmp_path):
    trace = TraceBuilder().launch("a", 10, 20, api_at=0).launch("b", 50, 60, api_at=1)
    text = page(trace, tmp_path)

    assert section(text, "Kernels: 2 launches, 20")["a"][1] == "1"
    assert "Ranges:" not in text
    assert "no NVTX range" in text


def test_a_name_that_no_range_has_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    def refuse(*names: str) -> str:
        builder = TraceBuilder().launch("k", 10, 20, api_at=5)
        for name in names:
            builder.range(name, 0, 100)
        with pytest.raises(UsageError) as found:
            choose_ranges(load_trace(builder.write(tmp_path / "t.sqlite")), "step", None)
        return str(found.value)

    assert refuse("forward", "") == "no range has a name with 'step' in it; the recording has 'forward'"
    assert refuse("") == "no range has a name with 'step' in it, as none has a name; leave out --range"
    assert refuse() == "the recording holds no range to choose from; leave out --range and --domain"


def test_warnings_of_the_tool_and_odd_rows_are_told(tmp_path):
    trace = two_steps().diagnostic("CUDA profiling might have failed").range("step", 200_000, None)
    text = page(trace, tmp_path)

    assert "says: CUDA profiling might have failed" in text
    assert "note: 1 range never ended" in text


def test_names_cannot_steer_the_terminal(tmp_path):
    text = page(TraceBuilder().range("a\x1b[31mred\nnext", 0, 9).launch("k\r\x07", 1, 2, api_at=0), tmp_path)

    assert "a?[31mred?next" in text
    assert not set(text) & set("\x1b\r\x07")


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
@pytest.mark.parametrize("width", [80, 120, 160])
def test_every_recording_fits_the_width(path, width):
    assert max(map(len, show(path, width).splitlines())) <= width


def test_a_recording_s_counts_are_shown():
    """The counts were made without this project's code; see test_recordings.py."""
    text = show(KEPT["h200_llama_block_graph_node"], 160)

    ranges = section(text, "Ranges: 714 instances")
    expected = {"train_step#*": ("20", "7,400"), "forward": ("20", "1,420"), "backward": ("20", "2,140"),
                "optimizer": ("20", "3,840"), "infer#*": ("20", "1,360"), "graph#*": ("20", "1,360"),
                "streams#*": ("20", "40"), "h2d#*": ("10", "10")}  # fmt: skip
    assert {name: (ranges[name][0], ranges[name][5]) for name in expected} == expected
    assert "device 0: NVIDIA H200 GPU-" in text


@pytest.mark.slow
def test_the_parts_of_a_replayed_graph_are_those_of_its_capture():
    """4 blocks; plain SQL counts 20 nodes made in the scores, 4 of them memory sets, 4 in softmax, 8 in value."""
    parts = section(show(KEPT["h200_llama_block_graph_node"], 160), "Parts of replayed CUDA graphs: 3 ranges")

    found = {name: (parts[name][0], parts[name][2]) for name in [*parts][1:4]}
    assert found == {
        "attention_scores": ("20", "16"),
        "attention_softmax": ("20", "4"),
        "attention_value": ("20", "8"),
    }
    assert "Parts of replayed" not in show(KEPT["h200_llama_block_graph_whole"], 160)


def test_a_graph_traced_whole_is_one_kernel():
    kernels = section(show(KEPT["h200_llama_block_graph_whole"], 160), "Kernels: ")

    assert kernels["CUDA graph"][1] == "20"


def test_a_recording_without_cuda_explains_itself():
    text = show(KEPT["cpu_nsys_2022_4_nvtx_only"])

    assert "no CUDA activity" in text
    assert "outer" in section(text, "Ranges: 6 instances")
    assert "Kernels" not in text


def test_packed_and_plain_exports_give_the_same_page(tmp_path):
    path = two_steps().write(tmp_path / "trace.sqlite")
    pack(path, tmp_path / "trace.sqlite.xz")

    assert show(tmp_path / "trace.sqlite.xz") == show(path)


@pytest.mark.parametrize(
    "name", ["trace.sqlite.gz", "trace.gz", "trace.nsys-rep", "trace.json", "trace.json.gz", "t.xz"]
)
def test_an_export_is_read_as_what_it_is_whatever_its_name(name, tmp_path):
    path = two_steps().write(tmp_path / "trace.sqlite")
    data = path.read_bytes()
    packed = gzip.compress(data) if name.endswith("gz") else lzma.compress(data) if name.endswith("xz") else data
    (tmp_path / name).write_bytes(packed)

    assert show(tmp_path / name) == show(path)


def test_a_run_s_folder_is_shown_from_its_kept_export(tmp_path):
    two_steps().write(tmp_path / "trace.sqlite")

    assert show(tmp_path) == show(tmp_path / "trace.sqlite")


def test_a_run_s_folder_is_shown_from_torch_s_trace(tmp_path):
    span = {"pid": 1, "tid": 1, "ts": 10.0, "dur": 5.0}
    events = [
        {**span, "cat": "user_annotation", "name": "pytest_nsight:7:test_sum", "dur": 50.0},
        {**span, "cat": "cpu_op", "name": "aten::sum", "ts": 20.0, "args": {}},
    ]
    with gzip.open(tmp_path / "trace-0001.json.gz", "wt") as file:
        json.dump(events, file)
    text = show(tmp_path)

    assert text.startswith("torch.profiler\n")
    assert "1 call of operators on the CPU, 1 range; 1 process" in text
    assert not re.search(r"kernel|CUDA|launch|Bottleneck|device", text), "nothing ran on a device"
    assert section(text, "Operators: 1 call, 5.00 us")["sum"] == [
        "reduction",
        "1",
        "5.00 us",
        "100.0 %",
        "5.00 us",
    ]
    assert section(text, "Ranges: 1 instance")["test_sum"][0] == "1"


@pytest.mark.slow
def test_a_report_is_exported_and_shown(tmp_path, monkeypatch):
    installation = require_nsys()
    (tmp_path / "temporary").mkdir()
    code = "from pytest_nsight.recorders.nvtx import ranges; r = ranges.emitter(); r.push('work', 1); r.pop()"
    assert run(installation, tmp_path, code) == 0
    report = tmp_path / "r.nsys-rep"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    text = show(report)

    assert section(text, "Ranges: 1 instance")["work"][0] == "1"
    assert not list((tmp_path / "temporary").iterdir())
    assert not list(tmp_path.glob("**/*.sqlite"))


@pytest.mark.slow
def test_a_report_with_the_older_name_is_shown(tmp_path, monkeypatch):
    """nsys called its reports .qdrep before 2021.4."""
    installation = require_nsys()
    kept, temporary = tmp_path / "kept", tmp_path / "temporary"
    kept.mkdir()
    temporary.mkdir()
    code = "from pytest_nsight.recorders.nvtx import ranges; r = ranges.emitter(); r.push('work', 1); r.pop()"
    assert run(installation, tmp_path, code) == 0
    report = (tmp_path / "r.nsys-rep").rename(kept / "r.qdrep")
    before = report.read_bytes()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    assert section(show(report), "Ranges: 1 instance")["work"][0] == "1"
    assert ([*kept.iterdir()], report.read_bytes()) == ([report], before)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("name", ["broken.nsys-rep", "broken.qdrep"])
def test_a_report_that_nsys_cannot_read_is_told_with_the_log_that_says_why(name, tmp_path, monkeypatch):
    require_nsys()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = tmp_path / name
    report.write_bytes(b"no report")
    with pytest.raises(NsysError) as caught:
        show(report)

    message = str(caught.value)
    assert str(report) in message
    log = Path(re.search(r"its output is in (\S+)\.$", message)[1])
    assert log.is_file()


def test_a_report_without_an_nsys_to_read_it_is_told(tmp_path, monkeypatch):
    report = tmp_path / "some.nsys-rep"
    report.write_bytes(b"report")
    monkeypatch.setenv("PYTEST_NSIGHT_NSYS", str(tmp_path / "nsys"))
    with pytest.raises(NsysError, match="is not a program"):
        show(report)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.sqlite", None, "there is no"),
        ("missing.sqlite.xz", None, "there is no"),
        ("missing.nsys-rep", None, "there is no"),
        ("text.sqlite", b"hello", "no SQLite database"),
        ("text.txt", b"hello", "no recording of Nsight Systems or of the PyTorch profiler; give an .sqlite export"),
        ("table.csv", b"a,b\n1,2\n", "no recording of Nsight Systems or of the PyTorch profiler"),
        ("model.xplane.pb", b"\x0a\x05", "no recording of Nsight Systems or of the PyTorch profiler"),
        ("r.ncu-rep", b"NVR\0", "a report of Nsight Compute; pytest-nsight reads Nsight Systems"),
        ("all.tar", tar(), "is an archive; unpack it"),
        ("all.tar.gz", gzip.compress(tar(), mtime=0), "is an archive; unpack it"),
        ("all.tar.xz", lzma.compress(tar()), "is an archive; unpack it"),
        ("all.zip", b"PK\x03\x04", "is an archive; unpack it"),
        ("empty.json", b"", "is empty"),
        ("empty.txt", b"", "no recording"),
        ("short.sqlite.gz", gzip.compress(b"SQLite format 3\0" + bytes(9000), mtime=0)[:30], "cannot be read"),
        ("empty.sqlite", b"", "is empty"),
        ("empty.nsys-rep", b"", "is empty"),
        ("text.sqlite.xz", b"hello", "Cannot unpack"),
        ("short.sqlite.xz", RECORDINGS[0].read_bytes()[:900], "Cannot unpack"),
    ],
)
def test_what_cannot_be_read_gives_one_sentence_and_code_2(name, content, words, tmp_path, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code = main(["show", str(tmp_path / name)])

    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert told.err.startswith("pytest-nsight: ")
    assert told.err.count("\n") == 1
    assert words in told.err
    assert name in told.err


def test_a_truncated_export_is_told_by_the_name_that_the_user_gave(tmp_path, capsys):
    path = two_steps().write(tmp_path / "trace.sqlite")
    path.write_bytes(path.read_bytes()[:5000])
    pack(path, tmp_path / "packed.sqlite.xz")

    assert main(["show", str(path)]) == 2
    assert f"{path} is truncated" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "packed.sqlite.xz")]) == 2
    assert "packed.sqlite.xz is truncated" in capsys.readouterr().err


def test_a_session_s_folder_points_to_its_runs(tmp_path, capsys):
    (tmp_path / "run-001").mkdir()

    assert main(["show", str(tmp_path)]) == 2
    assert f"{tmp_path / 'run-001'} holds no trace" in capsys.readouterr().err, "its only run is meant"
    (tmp_path / "run-002").mkdir()
    assert main(["show", str(tmp_path)]) == 2
    assert "give one of its runs" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "run-001")]) == 2
    assert "--nsight-keep" in capsys.readouterr().err


def test_the_command_obeys_its_options(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    path = two_steps().range("other", 300_000, 300_001).write(tmp_path / "t.sqlite")
    assert main(["show", str(path), "--range", "step", "--domain", "pytest_nsight", "--top", "1"]) == 0

    text = capsys.readouterr().out
    assert {"first", "1 other"} <= set(section(text, "Kernels: "))
    assert max(map(len, text.splitlines())) <= 90


@pytest.mark.parametrize("top", ["0", "-1", "many", ""])
def test_a_table_has_at_least_one_row(top, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["show", "x", "--top", top])
    assert caught.value.code == 2
    assert "whole number above 0" in capsys.readouterr().err


def test_a_rate_without_time_is_none():
    assert bandwidth(8, 0) == "-"
    assert bandwidth(4190, 1) == "4190"


def test_boards_that_no_process_used_have_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = TraceBuilder().range("work", 0, 100)
    for number, uuid in enumerate(("GPU-a", "GPU-b")):
        trace.row("TARGET_INFO_GPU", id=number, name="NVIDIA H200", cuDevice=None, uuid=uuid)

    assert main(["show", str(trace.write(tmp_path / "trace.sqlite"))]) == 0

    assert "unused device: NVIDIA H200" in capsys.readouterr().out


def test_ranges_that_cross_are_siblings_and_have_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = TraceBuilder()
    for at in range(0, 10_000, 1000):
        trace.range("outer", at, at + 500).range("crossing", at + 300, at + 900)
        trace.launch("small", at + 20, at + 30, api_at=at + 10)
        trace.launch("large", at + 620, at + 890, api_at=at + 600)

    assert main(["show", "--csv", "ranges", str(trace.write(tmp_path / "trace.sqlite"))]) == 0

    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.partition(",")[0] for row in rows] == ["crossing", "outer"]


def test_a_tree_of_many_small_places_shows_the_first_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = TraceBuilder()
    for number in range(300):
        name = f"{chr(97 + number // 26 % 26)}{chr(97 + number % 26)}{'x' * (number // 676 + 1)}"
        trace.range(name, 100 * number, 100 * number + 50)

    assert main(["show", "--top", "5", str(trace.write(tmp_path / "trace.sqlite"))]) == 0

    table = capsys.readouterr().out.partition("Ranges: 300 instances in 300 places")[2].partition("\n\n")[0]
    assert len([line for line in table.splitlines() if re.match(r"[a-z]{2}x ", line)]) == 5
    assert "295 smaller branches left out" in table
