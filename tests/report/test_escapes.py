"""Whatever a test, a trace or a stored file is called, a report shows it and is not led by it."""

from __future__ import annotations

import html.parser
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.model.comparison import SlowerKernel
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report import ci_formats, markdown, terminal
from pytest_nsight.report.escapes import (
    html_text,
    log_line,
    markdown_block,
    markdown_code,
    markdown_summary,
    markdown_text,
    visible,
)
from tests.report import canned

HOSTILE = [
    "a|b",
    "`rm`",
    "```",
    "\n::error::mine",
    "::stop-commands::x",
    "##[error]mine",
    "<script>alert(1)</script>",
    "</details>",
    '" onmouseover="x',
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "user\u202etxt.exe",
    "\u2066x\u2069",
    "@everyone",
    "#1",
    "https://example.org",
    "--> gone",
    "\udcff",
    "\r\nX: y",
    "$a_b$",
    "&lt;b>",
]


def hostile(text: str) -> SessionResult:
    """A session in which everything that comes from elsewhere is `text`."""
    subject = Subject(f"test_{text}.py::test_x[{text}]", text)
    compared = canned.comparison(
        24_400, 1.07, 0.01, 1e-9, slower_kernels=tuple(SlowerKernel(name, 1.0, 2.0) for name in (text, "b"))
    )
    verdict = Verdict(subject, VerdictKind.REGRESSION, text, 26_000.0, compared)
    return canned.session(
        (verdict,),
        environment={"gpu": text, text: text},
        notes=(text,),
        saved=(text,),
        collector=text,
        session=text,
    )


signs = st.text(st.characters(), max_size=30) | st.sampled_from(HOSTILE)


@settings(deadline=None)
@given(signs)
def test_visible_text_is_one_line_of_signs_with_glyphs(text: str) -> None:
    shown = visible(text)

    assert shown.isprintable()
    assert shown == text or not text.isprintable()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_runs_no_command_and_moves_no_cursor(text: str, width: int) -> None:
    shown = terminal.render(hostile(text), width, verbose=True, unicode=True)

    assert all(line.isprintable() for line in shown.split("\n"))
    assert not re.search(r"(?m)^\s*::|##\[", shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_an_annotation_stays_one_line(text: str) -> None:
    (line,) = ci_formats.workflow_annotations(hostile(text)).splitlines()

    assert line.startswith("::error file=test_")
    assert line.isprintable()


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_keeps_its_shape(text: str) -> None:
    """As many rows, blocks and foldings as with a harmless name, and no HTML but its own."""

    def shape(shown: str) -> list[object]:
        fenced = re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "block", shown.split("-->", 1)[1])
        plain = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "code", fenced)
        return [[bars(line) for line in plain.splitlines()], re.findall(r"(?<!\\)<[^>]*>", plain)]

    def bars(line: str) -> int:
        return line.count("|") - line.count("\\|") if line.startswith("|") else 0

    assert shape(markdown.render(hostile(text))) == shape(markdown.render(hostile("plain")))


@pytest.mark.parametrize("text", [":smile:", ":+1:", "test[:tada:]", ":_a:", "GH-12", "gh-7"])
def test_markdown_draws_no_pictures_and_links_no_issues(text: str) -> None:
    for shown in (markdown_text(text), markdown_summary(text)):
        assert not re.search(r":[\w+\\-]+:|(?i:gh-)\d", shown)
        assert shown.replace("&#8203;", "").replace("\\", "") == text


@pytest.mark.parametrize("text", HOSTILE)
def test_properties_hold_no_control_characters(text: str) -> None:
    for name, value in ci_formats.properties(hostile(text).verdicts[0]):
        assert (name + value).isprintable()


@settings(deadline=None)
@given(signs)
def test_html_shows_the_text_and_has_no_tags_of_it(text: str) -> None:
    found: list[str] = []

    class Parser(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            found.append(f"tag {tag}")

        def handle_data(self, data: str) -> None:
            found.append(data)

    parser = Parser()
    parser.feed(html_text(text))
    parser.close()

    assert "".join(found) == visible(text)


@settings(deadline=None)
@given(signs)
def test_a_block_of_code_ends_where_it_should(text: str) -> None:
    first, *_, last = markdown_block([text])

    assert first == f"{last}text"
    assert not visible(text).strip().startswith(last)


def test_code_keeps_bars_and_backticks() -> None:
    assert markdown_code("a|b", is_in_table=True) == "`a\\|b`"
    assert markdown_code("a|b") == "`a|b`"
    assert markdown_code("a`b``c") == "``` a`b``c ```"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# no heading", "\\# no heading"),
        ("- no list", "\\- no list"),
        ("1. no list", "1\\. no list"),
        ("ask @me about #12", "ask @&#8203;me about #&#8203;12"),
        ("https://x.org", "https&#58;//x.org"),
        ("x_y _z_ a*b", "x_y \\_z\\_ a\\*b"),
        ("&lt; && &", "&amp;lt; && &"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, shown: str) -> None:
    assert markdown_text(text) == shown


def test_a_line_of_a_log_is_no_command() -> None:
    assert log_line("  ::error::x") == "  \\::error::x"
    assert log_line("a.py::test_x") == "a.py::test_x"
    assert "##[" not in log_line("x ##[error]y")
