"""`pytest-nsight history --html`: one page with plots, change points and reasons, led by no foreign text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.cli import main
from pytest_nsight.history.case_history import HistoryRun, PointSource, build_histories
from pytest_nsight.history.history_page import render_html
from pytest_nsight.history.history_plot import PlotLevel, PlotPoint, plot_history
from pytest_nsight.history.history_report import FoundHistories
from pytest_nsight.model.values import Subject
from tests.browser import dump
from tests.history.saves import OTHER, git, stored, write_baseline

SUBJECT = Subject("t.py::test_norm")


def write_page(folder: Path, *words: str) -> str:
    path = folder / "out" / "history.html"
    assert main(["history", *words, "--html", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def case_of(page: str, name: str) -> str:
    found = re.findall(r"(?s)<details class=\"subject\".*?</details>\n", page)
    (one,) = [each for each in found if f'<span class="case">{name}' in each]
    return one


@pytest.mark.slow
def test_a_page_is_not_written_over_tests(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As where the path is forgotten, and what follows is a file of tests."""
    tests = repository / "test_sound.py"
    tests.write_text("def test_sound(): pass\n")

    assert main(["history", "--html", str(tests)]) == 2
    assert "would replace" in capsys.readouterr().err
    assert tests.read_text() == "def test_sound(): pass\n"


@pytest.mark.slow
def test_a_case_has_its_sessions_its_change_and_the_reason(repository: Path) -> None:
    page = write_page(repository)
    case = case_of(page, "test_norm[fused]")
    plot = ET.fromstring(re.findall(r"(?s)<div class=\"scroll\"><svg class=\"history\".*?</svg></div>", case)[0])
    dots = [element for element in plot.iter() if element.tag == "circle"]
    heights = [float(dot.attrib["cy"]) for dot in dots]

    assert 'data-kind="CHANGED"' in case
    assert "20.0 -&gt; 21.5 us (+7.5 %" in case
    assert "kernel, version 6" in case
    assert len(dots) == 10
    assert max(heights[5:]) < min(heights[:5]), "slower sessions are drawn above the others"
    assert [dot.attrib["class"] for dot in dots].index("stored reasoned") == 5
    assert "+7.5 %" in [element.text for element in plot.iter() if element.tag == "text"]
    assert len(re.findall("<tr><td>2026-03-", case)) == 10
    assert "<td>stored: clearer code</td>" in case


@pytest.mark.slow
def test_a_case_that_did_not_change_says_so_and_stands_below(repository: Path) -> None:
    page = write_page(repository)

    assert re.findall(r'data-kind="(\w+)" data-text', page) == ["CHANGED", "STEADY"]
    assert "no change point" in case_of(page, "test_norm[unfused]")


@pytest.mark.parametrize(("sessions", "kind"), [(3, "TOO_FEW_SESSIONS"), (7, "TOO_FEW_SESSIONS"), (8, "STEADY")])
def test_a_case_of_too_few_sessions_is_not_steady(sessions: int, kind: str) -> None:
    times_ns = [27_100, 82_000, *[82_000] * 6]
    runs = [
        HistoryRun(
            "h200", SUBJECT, f"{day}", f"{day}", "GPU-1", f"2026-03-0{day}T12:00:00Z", "", ns, PointSource.SESSION
        )
        for day, ns in enumerate(times_ns[:sessions], 1)
    ]
    page = render_html(FoundHistories(build_histories(runs), (), False, lambda _before, _after: None))

    assert re.findall(r'data-kind="(\w+)" data-text', page) == [kind]
    assert ("change points need 8 sessions" in page) == (kind == "TOO_FEW_SESSIONS")


@pytest.mark.slow
def test_the_page_of_chosen_cases_is_open(repository: Path) -> None:
    assert write_page(repository, "[fused]").count(" open>") == 1
    assert " open>" not in write_page(repository)


@pytest.mark.slow
def test_the_page_needs_nothing_else_and_a_reason_adds_no_element(repository: Path) -> None:
    reason = '"><script src="https://evil.example/x.js"></script>&lt;b&gt;'
    write_baseline(repository, stored(12, 20_000, "", reason=reason), stored(12, 9_000, "", OTHER))
    git(repository, "commit", "-q", "-a", "-m", reason)

    page = write_page(repository)

    assert "stored: &quot;&gt;&lt;script" in page
    assert page.count("<script") == 1
    assert "default-src 'none'" in page
    assert not re.search(r"""<[^>]*(?:src|href)\s*=\s*["'](?!#)""", page)


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_named(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "file").write_text("")

    assert main(["history", "--html", str(repository / "file" / "page.html")]) == 2
    assert "page.html was not written" in capsys.readouterr().err


@pytest.mark.slow
def test_a_browser_filters_the_cases_and_reports_no_error(repository: Path) -> None:
    script = """
      const seen = () => [...document.querySelectorAll("details.subject")].filter((one) => !one.hidden).length;
      const found = [seen()];
      document.querySelector('button[data-kind="CHANGED"]').click(); found.push(seen());
      document.querySelector('button[data-kind="CHANGED"]').click();
      const search = document.getElementById("search");
      search.value = "clearer"; search.dispatchEvent(new Event("input")); found.push(seen());
      const plot = document.querySelector("svg.history").getBoundingClientRect();
      document.querySelector("details.subject").open = true;
      found.push(document.querySelector("svg.history circle").getBoundingClientRect().width > 0);
      document.title = found.join(" ");
    """
    shown = dump(write_page(repository), repository, script=script)

    assert "<title>2 1 1 true</title>" in shown


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(st.just(0.0) | st.floats(1, 1e17), st.booleans()), min_size=1, max_size=60), st.data())
def test_any_times_are_finite_svg(times: list[tuple[float, bool]], data: st.DataObject) -> None:
    points = [PlotPoint("a<b>", "2026-03-01", ns, is_stored, not is_stored) for ns, is_stored in times]
    starts = sorted({0, *data.draw(st.lists(st.integers(0, len(points) - 1), max_size=3))})

    text = plot_history(points, [PlotLevel(start, points[start].time_ns) for start in starts])

    assert ET.fromstring(text).tag == "div"
    assert "nan" not in text
    assert "inf" not in text
    assert text.count("<circle") == len(points)


def test_nothing_is_drawn_of_times_that_are_none() -> None:
    assert plot_history([], []) == ""
    assert plot_history([PlotPoint("", "", 1e19, is_stored=True, has_reason=False)], []) == ""


def test_the_written_page_is_named(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--html", str(repository / "out" / "page.html")]) == 0
    assert capsys.readouterr().out == "report written: out/page.html\n"
