"""The HTML page: one file that is read without scripts, filtered with one, and led by no foreign text."""

from __future__ import annotations

import dataclasses
import html
import itertools
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.round_timeline import RoundTimeline, TimelineLane, TimelineSpan
from pytest_nsight.model.values import Clocks
from pytest_nsight.model.verdicts import SessionResult, ShapeChange, Verdict, VerdictKind
from pytest_nsight.report import html_report, markdown
from pytest_nsight.report.svg_plots import Bar, ForestRow, bars, forest
from pytest_nsight.report.svg_strip import StripRun, strip
from pytest_nsight.report.svg_timeline import timeline
from tests.browser import dump
from tests.report import canned
from tests.report.test_escapes import HOSTILE, hostile


def with_baseline() -> SessionResult:
    """The canned session, its baseline's runs beside it."""
    result = canned.full()
    stored = tuple(
        dataclasses.replace(
            run, session="20260201-120000", run=f"old-{number}", recorded="2026-02-01T12:00:00+00:00"
        )
        for number, run in enumerate(result.runs)
    )
    return dataclasses.replace(result, baseline_runs=stored)


def case_of(text: str, name: str) -> str:
    """The element of the case with that name."""
    elements = re.findall(r"(?s)<details class=\"subject\".*?</details>\n", text)
    (found,) = [element for element in elements if f'<span class="case">{html.escape(name)}</span>' in element]
    return found


def test_the_page_needs_nothing_else() -> None:
    text = html_report.render(canned.worked())

    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)|@import|url\(""", text)
    assert "default-src 'none'" in text


def test_cases_stand_worst_first_and_name_everything_about_them() -> None:
    result = with_baseline()
    text = html_report.render(result)
    kinds = re.findall(r'data-kind="(\w+)" data-text', text)
    slower = case_of(text, "test_rms_norm[fused-4096x4096-bf16]")
    structure = case_of(text, "test_add_rms_norm[fused-4096x4096-bf16]")

    assert kinds == sorted(kinds, key=[kind.value for kind in VerdictKind].index)
    assert len(kinds) == len(result.verdicts)
    assert "kernel time 24.4 → 26.1 us (+7.0 %" in slower
    assert 'class="strip"' in slower
    assert 'class="bars"' in slower
    assert "1980 MHz" in slower
    assert "41 °C" in slower
    assert "<th>launch</th>" in structure
    assert "NVIDIA H200" in text


def test_the_page_says_how_to_accept_or_check_what_failed() -> None:
    text = html_report.render(with_baseline())

    assert "pytest --nsight --nsight-save --nsight-reason" in text
    assert "from commit 4be90d0" in text
    assert "<pre>pytest --nsight \\\n    " in text
    assert "What to do" not in html_report.render(canned.quiet())


def test_the_forest_plot_has_a_row_for_each_compared_case() -> None:
    text = html_report.render(canned.full())
    compared = [verdict for verdict in canned.full().verdicts if verdict.comparison]

    assert text.count('class="interval"') == len(compared)
    assert 'class="forest"' not in html_report.render(canned.saved_only())


ROWS = st.tuples(st.floats(-0.99, 1e4), st.floats(0, 1e3), st.floats(0, 50)).map(
    lambda row: ForestRow("a", "case-1", "bad", row[0], row[0] - row[1], row[0] + row[1], row[2])
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_the_axis_of_changes_holds_all_bars_and_its_labels_stand_apart(rows: list[ForestRow]) -> None:
    plot = forest(rows)
    labels = re.findall(r'<text x="(\S+)" y="18" class="tick middle">(.*?)</text>', plot)
    bands = re.findall(r'<rect x="(\S+)" y="\S+" width="(\S+)" height="18" class="band"/>', plot)
    beyond = sum(not 0.01 <= 1 + end <= 100 for row in rows for end in (row.low, row.high))

    assert all(
        float(right) - float(left) >= 7 * (len(text) + len(before)) / 2
        for (left, before), (right, text) in itertools.pairwise(labels)
    )
    assert len(bands) == len(rows)
    assert all(float(x) >= 340 and float(x) + float(width) <= 840.1 for x, width in bands)
    assert plot.count("-4v8z") == beyond, "what goes on beyond the axis ends in an arrow"


def test_the_axis_of_changes_is_that_of_ratios() -> None:
    """No time falls by 100 %, and half the time is as far from the middle as twice the time."""
    plot = forest([ForestRow("a", "case-1", "bad", 1.0, -0.5, 4.0, 0.5)])
    labels = {
        text: float(x) for x, text in re.findall(r'<text x="(\S+)" y="18" class="tick middle">(.*?)</text>', plot)
    }
    ((band_x, band_width),) = re.findall(r'<rect x="(\S+)" y="\S+" width="(\S+)" height="18" class="band"/>', plot)

    assert {"-50 %", "0 %", "+100 %"} <= set(labels)
    assert all(float(text.removesuffix(" %")) > -100 for text in labels)
    assert labels["+100 %"] - labels["0 %"] == pytest.approx(labels["0 %"] - labels["-50 %"], abs=0.2)
    assert labels["-50 %"] < float(band_x), "the band of 50 % goes down to 1/1.5 of the time"
    assert float(band_x) + float(band_width) / 2 == pytest.approx(labels["0 %"], abs=0.2)


def test_the_chart_says_the_band_that_judged_where_it_is_wider_than_the_setting() -> None:
    basis = canned.basis(material=math.log(1.5), margin=math.log(1.75))
    slow = canned.comparison(1_500, 1.3, 0.02, 0.4, basis=basis)
    result = canned.session((canned.verdict(VerdictKind.UNCHANGED, "test_slow", "equal", slow),))

    chart = html_report.render(result).partition("<h2>Changes</h2>")[2].partition("<h2>")[0]

    assert "Band 50 % instead of 2 %" in chart
    assert "a smaller slowdown is no regression" in chart
    assert "equality is shown within 75 %" in chart
    assert "instead of" not in html_report.render(canned.worked()).partition("<h2>Changes</h2>")[2]


OPEN = (
    canned.verdict(
        VerdictKind.NO_BASELINE, "test_a", "test_a: no baseline; save one with --nsight-save", now_ns=1_000.0
    ),
    canned.verdict(
        VerdictKind.NO_BASELINE, "test_b", "test_b: no baseline; save one with --nsight-save", now_ns=1_000.0
    ),
)


@pytest.mark.parametrize("verdicts", [OPEN, ()], ids=["nothing stored", "nothing measured"])
def test_a_session_in_which_nothing_was_judged_is_no_pass(verdicts: tuple[Verdict, ...]) -> None:
    page = html_report.render(canned.session(verdicts))

    assert '<span class="outcome open">not judged</span>' in page
    assert "passed" not in page.partition("<footer>")[0].partition("<body>")[2]
    assert "<title>not judged: " in page
    assert page.index("<h2>What to do</h2>") < page.index("<h2>Cases</h2>")
    assert "this session says nothing about the code" in page
    assert page.count('class="subject"') == page.count('open=""') == len(verdicts)
    assert markdown.render(canned.session(verdicts)).splitlines()[1].startswith("**not judged**, ")


def test_the_reasons_of_a_session_in_which_nothing_was_judged_stand_on_top_once() -> None:
    section = html_report.render(canned.session(OPEN)).partition("<h2>What to do</h2>")[2].partition("<h2>")[0]

    assert section.count("NO_BASELINE") == 1
    assert "2 cases (test_a, test_b)" in section
    assert "--nsight-save" in section


def test_one_case_that_was_judged_makes_a_pass() -> None:
    unchanged = canned.comparison(1_500, 1.0, 0.01, 0.4)
    judged = canned.verdict(VerdictKind.UNCHANGED, "test_c", "equal", unchanged)
    page = html_report.render(canned.session((*OPEN, judged)))

    assert '<span class="outcome passed">passed</span>' in page
    assert 'open=""' not in page


@pytest.mark.parametrize(
    ("commit", "is_against", "said"),
    [("4be90d0c11", True, "against its commit"), ("4be90d0c11+", False, "against the stored runs")],
)
def test_what_to_check_again_and_its_command_agree(commit: str, is_against: bool, said: str) -> None:
    result = with_baseline()
    stored = tuple(dataclasses.replace(run, commit=commit) for run in result.baseline_runs)
    result = dataclasses.replace(result, baseline_runs=stored)
    section = html_report.render(result).partition("<h2>What to do</h2>")[2].partition("<h2>")[0]

    assert f"To check again, {said}:" in section
    assert ("--nsight-against" in section) == is_against
    text = markdown.render(result)
    assert ("To check again, against the commit of the baseline:" in text) == is_against
    assert ("To check again, against the stored runs:" in text) != is_against


def test_what_failed_is_unfolded_and_nothing_else() -> None:
    text = html_report.render(canned.full())
    shown = [
        kind for kind, is_open in re.findall(r'data-kind="(\w+)" data-text="[^"]*"( open="")?>', text) if is_open
    ]

    assert set(shown) == {kind.value for kind in VerdictKind if kind.fails_in(strict=False)}
    assert len(shown) == 4


def test_what_was_not_judged_is_said_at_the_top_beside_what_failed() -> None:
    """Such a case is folded, and its reason with it."""
    why = "other programs had the CPU; end them and run again"
    verdicts = (
        canned.verdict(VerdictKind.REGRESSION, "test_slow", "slower"),
        canned.verdict(VerdictKind.ENVIRONMENT, "test_open", f"24 us cannot be judged: {why}"),
    )

    top = html_report.render(canned.session(verdicts)).partition("<h2>Cases</h2>")[0]

    assert "<h2>Not judged</h2>" in top
    assert why in top
    assert "<h2>Not judged</h2>" not in html_report.render(canned.session(verdicts[:1]))
    assert "<h2>Not judged</h2>" not in html_report.render(canned.session(verdicts[1:])), "there it stands alone"


def on_a_cpu() -> SessionResult:
    """The canned session with the same times, but of operators."""
    result = with_baseline()
    board = "Intel(R) Xeon(R) Platinum 8488C, 2 threads"
    runs, stored = (
        tuple(dataclasses.replace(run, board=board, clocks=Clocks()) for run in group)
        for group in (result.runs, result.baseline_runs)
    )
    environment = {"cpu": "Intel(R) Xeon(R) Platinum 8488C"}
    return dataclasses.replace(result, runs=runs, baseline_runs=stored, environment=environment)


def test_a_page_on_a_cpu_speaks_of_operators_and_shows_no_empty_columns() -> None:
    gpu, cpu = html_report.render(with_baseline()), html_report.render(on_a_cpu())
    of_a_gpu = (
        "Performance of GPU kernels: ",
        "with this GPU",
        "Kernels of a round",
        "<h3>Kernel time, round by round</h3>",
        "<td>kernel time</td>",
        '<th class="number">SM clock</th>',
    )

    assert all(words in gpu for words in of_a_gpu)
    assert not any(words in cpu for words in of_a_gpu)
    assert "<h1>Performance of CPU operators: " in cpu
    assert "<h3>Operators of a round</h3>" in cpu
    assert "<h3>Operator time, round by round</h3>" in cpu
    assert "<td>operator time</td>" in cpu
    assert "<td>Intel(R) Xeon(R) Platinum 8488C, 2 threads</td>" in cpu, "a CPU's name is not cut"
    assert "<td>GPU-5b7e7a4c</td>" in gpu


def test_headings_begin_in_upper_case() -> None:
    headings = re.findall(r"<h[123]>(.)", html_report.render(with_baseline()))

    assert len(headings) > 12
    assert all(letter.isupper() for letter in headings)


def test_an_arrow_stands_between_numbers_and_not_in_names() -> None:
    kernel = dataclasses.replace(canned.FUSED, name="f() -> int, 1 ->3")
    change = ShapeChange(kernel, 1, 0)
    verdict = canned.verdict(
        VerdictKind.STRUCTURE, "test_x", "1 -> 3 launches, 24.4 us -> 1.20 ms", changes=(change,), now_ns=1.0
    )
    text = html_report.render(canned.session((verdict,)))

    assert "1 → 3 launches, 24.4 us → 1.20 ms" in text
    assert "f() -&gt; int, 1 -&gt;3" in text


def test_all_rounds_of_baseline_and_new_runs_are_drawn_run_by_run() -> None:
    case = case_of(html_report.render(with_baseline()), "test_swiglu[fused-8192]")
    old, new = (re.findall(rf'<g class="{name}">.*?</g>', case) for name in ("old", "new"))

    assert len(old) == len(new) == 2
    assert all(group.count("h0") == 5 for group in (*old, *new))
    assert "2026-02-01 4be90d0" in case


def test_one_new_run_beside_many_stored_ones_is_named_whole() -> None:
    stored = [StripRun("a run", "2026-02-01 4be90d0", False, True, (), 100.0)] * 10
    new = StripRun("a run", "this session", True, True, (), 101.0)

    plot = strip([*stored, new], 100.0, 0.01)

    assert re.findall(r'class="(tick|tick end)">(2026[^<]*|this[^<]*)<', plot) == [
        ("tick", "2026-02-01 4be90d0"),
        ("tick end", "this session"),
    ]


def test_bars_of_the_baseline_are_explained_where_there_are_any() -> None:
    said = "above them, in grey, those of the newest stored run"

    assert said in html_report.render(with_baseline())
    assert said not in html_report.render(canned.full())


def test_without_the_baselines_rounds_its_levels_are_drawn() -> None:
    compared = canned.comparison(24_400, 1.02, 0.01, 0.1, basis=canned.basis())
    verdict = canned.verdict(VerdictKind.INCONCLUSIVE, "test_x", "open", compared)

    case = case_of(html_report.render(canned.session((verdict,))), "test_x")

    assert case.count('<g class="old">') == 2
    assert case.count('class="dots"') == 2, "those of the new runs"


def test_a_p_value_stands_only_where_one_was_computed() -> None:
    tested = canned.comparison(24_400, 1.02, 0.01, 0.1)
    untested = dataclasses.replace(tested, adjusted_p_slower=None, adjusted_p_faster=None)
    one_sided = dataclasses.replace(tested, adjusted_p_faster=None)

    def tests_of(compared: Comparison) -> list[str]:
        verdict = canned.verdict(VerdictKind.STRUCTURE, "test_x", "other launches", compared)
        case = case_of(html_report.render(canned.session((verdict,))), "test_x")
        return re.findall(r"<td>test of a ([^<]*)</td>", case)

    assert tests_of(tested) == ["slowdown", "speed-up"]
    assert tests_of(untested) == []
    assert tests_of(one_sided) == ["slowdown"]


def test_a_case_links_to_the_one_that_it_claims_to_beat() -> None:
    case = case_of(html_report.render(canned.worked()), "test_rms_norm[fused-b32x2048]")

    (found,) = re.findall(r'beat <a href="#(case-\d+)">(.*?)</a>, which takes (\S+) times as long\.', case)
    anchor, label, factor = found
    assert (label, factor) == ("test_rms_norm[unfused-b32x2048]", "5.04")
    assert f'id="{anchor}"' in case_of(html_report.render(canned.worked()), label)


def test_the_roofline_has_a_point_for_each_case_that_declares_bytes_and_operations() -> None:
    assert html_report.render(canned.worked()).count('class="point"') == 3
    assert 'class="roofline"' not in html_report.render(canned.worked(limits={}))


def test_a_case_shows_the_timeline_of_one_round() -> None:
    lanes = (
        TimelineLane("CUDA calls", "call", (TimelineSpan("cudaLaunchKernel", 0, 4_000),)),
        TimelineLane(
            "stream 7", "kernel", (TimelineSpan("<k>", 5_000, 60_000), TimelineSpan("", 70_000, 90_000, 8))
        ),
        TimelineLane("stream 7", "copy", (TimelineSpan("memcpy HtoD", 95_000, 100_000),)),
    )
    round_ = RoundTimeline("s/001", 7, 100_000, 75_000, lanes, 15_000, ((60_000, 70_000), (90_000, 95_000)))
    subject = canned.full().verdicts[0].subject
    result = dataclasses.replace(canned.full(), timelines={subject.case: round_})

    text = html_report.render(result)
    (plot,) = re.findall(r'<svg class="timeline".*?</svg>', text)
    (key,) = re.findall(r'</svg></div><p class="soft key">(<span><i class="call">.*?)</p>', text)

    assert (
        "Round 7 of run s/001, typical of it by kernel time: 100 us in all, 75.0 us in kernels, 15.0 us idle"
        in text
    )
    assert plot.count('class="kernel"') == plot.count('class="kernel several"') == 1
    assert plot.count('class="copy"') == plot.count('class="call"') == 1
    assert plot.count('class="gap"') == 2
    assert "&lt;k&gt;: 55.0 us at 5.00 us" in plot
    assert "8 of them: 20.0 us at 70.0 us" in plot
    assert plot.count(">stream 7</text>") == 1, "kernels and copies of a stream share a row"
    assert 'class="timeline"' not in html_report.render(canned.full())
    assert re.findall(r'class="(\w+)"', key) == ["call", "kernel", "copy", "gap"], "no range was drawn"
    operators = html_report.render(dataclasses.replace(on_a_cpu(), timelines={subject.case: round_}))
    assert "</i>operator</span>" in operators
    assert ">stream 7</text>" not in operators


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)), min_size=1, max_size=9),
    st.integers(0, 10**17),
)
def test_a_timeline_of_any_times_is_finite_svg(rows: list[tuple[int, int]], wall_ns: int) -> None:
    bars_of = tuple(TimelineSpan("k", start, start + length) for start, length in rows)
    text = timeline(RoundTimeline("s/001", 1, wall_ns, 1, (TimelineLane("stream 7", "kernel", bars_of),)))

    assert "nan" not in text
    assert "inf" not in text
    assert not wall_ns or ET.fromstring(text).tag == "div"


@pytest.mark.parametrize("text", HOSTILE)
def test_foreign_text_adds_no_element(text: str) -> None:
    def tags(result: SessionResult) -> list[str]:
        return re.findall(r"<[a-z!/][^>]*?(?=[\s>])", html_report.render(result))

    assert tags(hostile(text)) == tags(hostile("plain"))


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-0.99, 1e6), st.floats(0, 1e3), st.floats(0, 0.5)).map(
            lambda row: ForestRow("a", "case-1", "bad", row[0], row[0] - row[1], row[0] + row[1], row[2])
        ),
        max_size=8,
    )
)
def test_a_forest_of_any_changes_is_finite_svg(rows: list[ForestRow]) -> None:
    text = forest(rows)

    assert "nan" not in text
    assert "inf" not in text
    assert not rows or ET.fromstring(text).tag == "div"


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 10**12), min_size=1, max_size=9), max_size=6), st.floats(1, 1e12) | st.none()
)
def test_rounds_of_any_length_are_finite_svg(runs: list[list[int]], baseline_ns: float | None) -> None:
    shown = [
        StripRun(
            "run", "session", is_new=False, is_compared=True, rounds_ns=run, level_ns=math.fsum(run) / len(run)
        )
        for run in runs
    ]
    text = strip(shown, baseline_ns, 0.02)

    assert not runs or ET.fromstring(text).tag == "div"
    assert "nan" not in text


def test_bars_without_time_are_left_out() -> None:
    assert bars([], "times") == ""
    assert bars([Bar("a", None, 0.0, "")], "times") == ""
    assert ET.fromstring(bars([Bar("a<b>", 2.0, 1.0, "x")], "times")).tag == "div"


@pytest.mark.slow
def test_a_browser_runs_the_pages_own_script_and_reports_no_error(tmp_path: Path) -> None:
    shown = dump(html_report.render(with_baseline()), tmp_path)

    assert '<html lang="en" class="js">' in shown
    assert ">12 of 12</span>" in shown


@pytest.mark.slow
def test_search_and_buttons_filter_and_keys_move_on(tmp_path: Path) -> None:
    script = """
      const search = document.getElementById("search");
      const seen = () => [...document.querySelectorAll("details.subject")].filter((one) => !one.hidden).length;
      const key = (name) => document.dispatchEvent(new KeyboardEvent("keydown", {key: name}));
      const found = [];
      search.value = "swiglu FUSED"; search.dispatchEvent(new Event("input")); found.push(seen());
      search.value = ""; search.dispatchEvent(new Event("input"));
      document.querySelector('button[data-kind="REGRESSION"]').click(); found.push(seen());
      key("j"); key("j"); found.push(document.activeElement.parentElement.id);
      const open = () => [...document.querySelectorAll("details.subject[open]:not([hidden])")].length;
      found.push(open()); key("e"); found.push(open()); key("e"); found.push(open());
      key("/"); found.push(document.activeElement.id);
      document.title = found.join(" ");
    """
    shown = dump(html_report.render(canned.full()), tmp_path, script=script)

    assert "<title>1 2 case-3 2 0 2 search</title>" in shown


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["m", "W", "i"])
def test_long_labels_end_where_the_plot_begins_and_lie_within_the_picture(tmp_path: Path, letter: str) -> None:
    name = letter * 80
    drawn = bars([Bar(name, 1.0, 2.0, "1 x, 2 ns")], "times")
    drawn += forest([ForestRow(name, "a", "bad", 0.1, 0.05, 0.15, 0.02)])
    page = html_report.render(canned.quiet()).replace("</main>", f"{drawn}</main>")
    script = """
      const labels = [...document.querySelectorAll("svg .label.end")].slice(-2);
      const starts = labels.map((one) => one.getBBox().x);
      document.title = `${labels.length} labels, ${starts.every((x) => x >= 0)}`;
    """

    assert "<title>2 labels, true</title>" in dump(page, tmp_path, script=script)


@pytest.mark.slow
def test_a_browser_that_runs_no_script_shows_all_of_it(tmp_path: Path) -> None:
    page = re.sub(r"script-src '[^']*'", "script-src 'none'", html_report.render(with_baseline()))

    shown = dump(page, tmp_path, blocks_scripts=True)

    assert '<html lang="en">' in shown
    assert re.findall(r'<details class="subject"[^>]*>', shown) == re.findall(
        r'<details class="subject"[^>]*>', page
    )
    assert not re.search(r"<details[^>]* hidden", shown)


@pytest.mark.slow
def test_only_the_pages_own_script_may_run(tmp_path: Path) -> None:
    page = html_report.render(canned.quiet()).replace("</main>", "<script>document.title = 'mine'</script></main>")

    shown = dump(page, tmp_path, blocks_scripts=True)

    assert "<title>passed" in shown
    assert 'class="js"' in shown
