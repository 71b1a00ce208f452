"""The documentation site as mkdocs builds it: its menu, its links out of docs/, and words that stay whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize(("title", "page"), re.findall(r"- ([^:\n]+): (\S+\.md)$", MENU, re.MULTILINE))
def test_every_page_of_the_menu_is_in_it_under_its_title(title: str, page: str, site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    menu = start[start.index('class="md-nav md-nav--primary') :]
    target = "index.html" if page == "index.md" else re.sub(r"(README|index)?\.md$", "", page)

    shown = re.findall(r'<a href="([^"]+)"[^>]*>(.*?)</a>', menu, re.DOTALL)
    assert [text for to, text in shown if title in text and to.startswith(target)] != []


def test_a_link_to_a_file_that_the_site_lacks_names_the_file(site: Path) -> None:
    page = re.sub(r"</?span[^>]*>", "", (site / "readme.html").read_text(encoding="utf-8"))

    assert "workflow <code>.github/workflows/gpu-gate.yml</code>" in re.sub(r"\s+", " ", page)
    assert "in CI (<code>.github/workflows/gpu-compare.yml</code>)" in page


def test_words_of_code_and_ids_are_marked_to_stay_whole(site: Path) -> None:
    comparison = (site / "comparison.html").read_text(encoding="utf-8")
    results = (site / "validation" / "results.html").read_text(encoding="utf-8")
    tutorial = (site / "tutorial.html").read_text(encoding="utf-8")

    assert '<code><span class="whole">--interleave-rounds</span></code>' in comparison
    assert re.search(r'<td><span class="whole">\d{8}-\d{6}-[0-9a-f]{4}</span></td>', results)
    assert [block for block in re.findall(r"<pre.*?</pre>", tutorial, re.DOTALL) if 'class="whole"' in block] == []
    for page in (comparison, tutorial):
        assert 'href="site.css"' in page
    assert "white-space: pre-wrap" in (site / "site.css").read_text(encoding="utf-8")


def test_the_results_of_the_study_lead_to_its_page(site: Path) -> None:
    page = (site / "validation" / "results.html").read_text(encoding="utf-8")

    assert re.search(r'<a href="(index|README)\.html">the study', page)
