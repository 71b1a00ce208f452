"""Kernel time of ranges by category, and the rates of declared work."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from pytest_nsight import api
from pytest_nsight.analysis.picture import analyse
from pytest_nsight.analysis.range_work import DeclaredRangeWork
from pytest_nsight.cli import main
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.trace import Trace
from tests.trace.trace_builder import TraceBuilder

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "h200_llama_block_graph_node.sqlite.xz"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Three steps of 10 us, 20 us apart: a gemm of 4 us in "forward", a softmax of 1 us beside it."""
    builder = TraceBuilder()
    for number in range(3):
        at = 20_000 * number
        builder.range(f"step#{number}", at, at + 8_000, domain="").range("forward", at + 10, at + 5_000, domain="")
        builder.launch("gemm", at + 1_000, at + 5_000, api_at=at + 20).launch(
            "softmax", at + 9_000, at + 10_000, api_at=at + 6_000
        )
    return read(builder.write(tmp_path_factory.mktemp("mix") / "t.sqlite"))


def test_categories_of_a_range_add_up_to_its_kernel_time(trace: Trace) -> None:
    found = {one.label: one for one in analyse(trace).mixes}

    assert dict(found["step#*"].categories) == {"GEMM": 12_000, "softmax": 3_000}
    assert (found["step#*"].count, found["step#*"].launches, found["step#*"].kernel_ns) == (3, 6, 15_000)
    assert found["step#*"].share("GEMM") == pytest.approx(0.8)
    assert dict(found["forward"].categories) == {"GEMM": 12_000}


def test_a_range_inside_one_of_its_name_counts_once(tmp_path: Path) -> None:
    builder = TraceBuilder().range("layer", 0, 100, domain="").range("other", 5, 95, domain="")
    builder.range("layer", 10, 90, domain="").launch("gemm", 200, 300, api_at=20)

    found = {one.label: one for one in analyse(read(builder.write(tmp_path / "t.sqlite"))).mixes}

    assert (found["layer"].count, found["layer"].kernel_ns) == (1, 100)


def test_overlapping_ranges_count_a_launch_once_by_category_and_a_note_says_so(tmp_path: Path) -> None:
    builder = TraceBuilder().range("epoch", 0, 2000, domain="")
    for at in range(100, 1000, 100):
        builder.range("batch", at, at + 130, domain="", is_pushed=False)
        builder.launch("gemm", at + 20, at + 30, api_at=at + 10)

    picture = analyse(read(builder.write(tmp_path / "t.sqlite")))

    batch = {one.label: one for one in picture.mixes}["batch"]
    assert (batch.count, batch.launches, batch.kernel_ns) == (9, 9, 90)
    (shares,) = [one.share for one in picture.ranges if one.path == ("epoch", "batch")]
    assert shares == pytest.approx(17 / 9)
    (note,) = [text for text in picture.notes if "level" in text]
    assert note == (
        "8 ranges begin before another of their level has ended (batch): what is launched while several are open "
        "counts in each of them, so that shares may add up to more than 100 %"
    )


def test_a_started_range_across_pushed_ones_is_an_overlap_and_pushed_ones_of_two_threads_are_none(
    tmp_path: Path,
) -> None:
    steps = TraceBuilder()
    for number, at in enumerate(range(0, 400, 100)):
        thread = 100 + number % 2
        steps.range("step", at, at + 120, domain="", thread=thread)
        steps.launch("gemm", at + 20, at + 30, api_at=at + 10, thread=thread)
    across = copy.deepcopy(steps).range("request", 50, 350, domain="", is_pushed=False)

    alone, crossed = (
        [text for text in analyse(read(builder.write(tmp_path / f"{name}.sqlite"))).notes if "level" in text]
        for name, builder in (("alone", steps), ("crossed", across))
    )

    assert alone == []
    (note,) = crossed
    assert note.startswith("4 ranges begin before another of their level has ended (step, request): ")


@pytest.mark.parametrize(
    "spans", [[(0, 100), (100, 200)], [(0, 300), (10, 20), (20, 40)]], ids=["one by one", "nested"]
)
def test_ranges_that_do_not_overlap_or_nest_have_no_note(spans: list[tuple[int, int]], tmp_path: Path) -> None:
    builder = TraceBuilder().launch("gemm", 20, 30, api_at=15)
    for first, last in spans:
        builder.range("batch", first, last, domain="", is_pushed=False)

    assert analyse(read(builder.write(tmp_path / "t.sqlite"))).notes == ()


def test_a_note_says_which_ranges_contain_work_of_another_thread_s_ranges(tmp_path: Path) -> None:
    builder = TraceBuilder().range("train", 0, 100, domain="").launch("gemm", 20, 30, api_at=15)
    builder.launch("helped", 40, 50, api_at=35, thread=300)
    without = analyse(read(builder.write(tmp_path / "a.sqlite")))
    builder.range("serve", 60, 90, domain="", thread=200).launch("copy", 70, 80, api_at=65, thread=200)
    picture = analyse(read(builder.write(tmp_path / "b.sqlite")))

    assert without.notes == ()
    assert {one.path: one.launches for one in picture.ranges} == {("train",): 3, ("train", "serve"): 1}
    (note,) = picture.notes
    assert note.startswith(
        "1 range contains what other threads launched meanwhile inside ranges of their own (train):"
    )


def served(folder: Path, *, is_helper: bool) -> tuple[str, ...]:
    """The notes on a range in which another thread launches and waits outside of its own range.

    Its range lies inside, as those of a helper's libraries do, or after it, as those of another server's thread.
    """
    builder = TraceBuilder().range("request", 0, 100, domain="").launch("gemm", 20, 30, api_at=15)
    builder.launch("cleanup", 40, 50, api_at=35, thread=200).call("cudaStreamSynchronize", 52, 60, thread=200)
    at = 70 if is_helper else 110
    builder.range("other", at, at + 20, domain="", thread=200).launch(
        "b", at + 5, at + 8, api_at=at + 1, thread=200
    )
    notes = analyse(read(builder.write(folder / "trace.sqlite"))).notes
    return tuple(note for note in notes if "outside of ranges of their own" in note)


def test_a_note_says_where_threads_with_ranges_work_between_them(tmp_path: Path) -> None:
    (note,) = served(tmp_path, is_helper=False)

    assert note.startswith(
        "2 launches and waits in ranges (request) are of threads outside of ranges of their own:"
    )


def test_a_helper_whose_libraries_have_ranges_needs_no_note(tmp_path: Path) -> None:
    assert served(tmp_path, is_helper=True) == ()


def test_a_range_that_never_ended_holds_what_begins_after_it_up_to_the_end(tmp_path: Path) -> None:
    builder = TraceBuilder().range("epoch", 0, None, domain="")
    builder.range("step", 10, 50, domain="", is_pushed=False).range("step", 60, 100, domain="", is_pushed=False)
    builder.range("last", 70, None, domain="", thread=200)

    paths = {one.path: one.count for one in analyse(read(builder.write(tmp_path / "t.sqlite"))).ranges}

    assert paths == {("epoch",): 1, ("epoch", "step"): 2, ("epoch", "last"): 1}


def test_on_a_recording_the_parts_of_the_training_step_add_up() -> None:
    """Kernel time, launches and categories of the step are those of forward, backward and optimizer."""
    found = {one.label: one for one in analyse(load_trace(RECORDING)).mixes}
    step, parts = found["train_step#*"], [found[name] for name in ("forward", "backward", "optimizer")]

    assert step.kernel_ns == sum(one.kernel_ns for one in parts)
    assert step.launches == sum(one.launches for one in parts) == 20 * 370
    for name in step.categories:
        assert step.categories[name] == sum(one.categories.get(name, 0) for one in parts)
    for one in found.values():
        assert sum(one.categories.values()) == one.kernel_ns


def test_latency_and_throughput_of_declared_work(trace: Trace) -> None:
    works = [DeclaredRangeWork.parse("step=100 tokens"), DeclaredRangeWork("forward", 8e6, "FLOP")]

    step, forward = analyse(trace, works=works).works

    assert (step.label, step.count, step.latency_ns, step.kernel_ns) == ("step#*", 3, 10_000, 5_000)
    assert step.per_s == pytest.approx(300 / 50e-6), "three steps in 50 us, pauses included"
    assert step.kernel_per_s == pytest.approx(100 / 5e-6)
    assert forward.kernel_per_s == pytest.approx(8e6 / 4e-6)
    assert (forward.time_share, forward.work_share) == (1.0, 1.0)


def test_shares_are_among_ranges_of_one_unit(trace: Trace) -> None:
    works = [DeclaredRangeWork("step", 1e6, "FLOP"), DeclaredRangeWork("forward", 3e6, "FLOP")]

    step, forward = analyse(trace, works=works).works

    assert (step.time_share, forward.time_share) == (pytest.approx(15 / 27), pytest.approx(12 / 27))
    assert (step.work_share, forward.work_share) == (0.25, 0.75)


@pytest.mark.parametrize(
    "text",
    [
        "step",
        "step=",
        "step=0tokens",
        "step=tokens",
        "=5tokens",
        "step=5",
        "step=-1B",
        "step=1e400FLOP",
        "step=1e308B",
    ],
)
def test_a_declaration_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give RANGE=AMOUNT UNIT"):
        DeclaredRangeWork.parse(text)


@pytest.mark.parametrize("amount", [0, -1.0, float("inf"), float("nan"), 1e308])
def test_the_library_refuses_an_amount_that_has_no_rate(amount: float, trace: Trace) -> None:
    with pytest.raises(UsageError, match="give an amount above 0 and at most 1e30"):
        api.picture(trace, work={"step": (amount, "tokens")})


def test_work_of_a_range_that_is_not_there_is_refused_with_those_that_are(trace: Trace) -> None:
    with pytest.raises(
        UsageError, match=r"names ranges 'decode', and there are none; the recording has .*'forward'"
    ):
        analyse(trace, works=[DeclaredRangeWork("decode", 1, "tokens")])


def test_the_library_has_the_same_tables(trace: Trace) -> None:
    tables = api.picture(trace, work={"step": (100, "tokens")})

    mixes = tables["range_categories"].set_index(["range", "category"])["total_ns"]
    assert mixes["step#*", "GEMM"] == 12_000
    assert tables["work"]["per_s"].tolist() == [pytest.approx(6e6)]


def test_the_command_shows_both(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["show", str(RECORDING), "--work", "infer=2048tokens"]) == 0

    shown = capsys.readouterr().out
    (optimizer,) = [line for line in shown.splitlines() if line.startswith("optimizer") and "100.0 %" in line]
    assert optimizer.split()[:5] == ["optimizer", "20", "3,840", "12.3", "ms"]
    (infer,) = [line for line in shown.splitlines() if line.startswith("infer#*") and "tokens/s" in line]
    assert infer.split()[1:4] == ["20", "2,048", "tokens"]
