"""Draws the pictures of the documents: `make pictures` writes all of docs/pictures/ again.

Figures come from the tables of docs/validation/results.md. The screenshot shows a recording of this repository in
headless Chromium. So whoever doubts a picture can make it again.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "pictures"
SITUATION = "same board, other session"
GATE = "this gate"
MOST_BYTES = 200_000

Row = Mapping[str, str]
Scale = Callable[[float], float]

_STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1b1f24 } .soft { fill: #59636e; font-size: 12px }
.end { text-anchor: end } .middle { text-anchor: middle } .grid { stroke: #d7dce1 } .bold { font-weight: 650 }
.ours { fill: #1a7f37 } .bad { fill: #b3261e } .back { fill: #eef1f4 } .page { fill: #ffffff }
.half { fill: none; stroke-width: 2.5 }
</style>"""


def tables(text: str) -> Iterator[tuple[str, list[Row]]]:
    """Each table of a Markdown page with the text between it and the table before."""
    before: list[str] = []
    head: list[str] = []
    rows: list[Row] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not head:
                head = cells
            elif not set(line) <= set("|-: "):
                rows.append(dict(zip(head, cells, strict=True)))
            continue
        if head:
            yield "\n".join(before), rows
            before, head, rows = [], [], []
        before.append(line)


def number(cell: str) -> float:
    """The figure at the beginning of a cell: "0.12 % [0.01, 0.42]" is 0.12."""
    found = re.match(r"-?[\d.]+", cell)
    assert found, cell
    return float(found.group())


def draw_why(results: str) -> str:
    """Each rule, the best one on top: the unchanged suites that it fails, the slowdowns of 2 % that it finds."""
    found = list(tables(results))
    alarms = next(rows for _, rows in found if rows and f"suites, {SITUATION}" in rows[0])
    gate = next(rows for _, rows in found if rows and "suites with a false alarm [exact 95 %]" in rows[0])
    power = next(rows for text, rows in found if f"{SITUATION}, gate at a band of 0.5 %" in text)
    rates = {row["rule"]: number(row[f"suites, {SITUATION}"]) for row in alarms}
    rates[GATE] = next(
        number(row["suites with a false alarm [exact 95 %]"])
        for row in gate
        if (row["stored and new"], row["band"]) == (SITUATION, "0.5 %")
    )
    rows = [(row["rule"], rates[row["rule"]], number(row["+2 %"])) for row in power]
    rows.sort(key=lambda row: row[1] - row[2])
    width, step, left, right = 170, 30, 350, 610
    parts = [
        f'<text x="{left}" y="30" class="bold">fails unchanged code</text>',
        f'<text x="{left}" y="48" class="soft">suites of 24 cases</text>',
        f'<text x="{right}" y="30" class="bold">finds a slowdown of 2 %</text>',
        f'<text x="{right}" y="48" class="soft">of one case</text>',
    ]
    for place, (rule, rate, share) in enumerate(rows):
        y = 66 + step * place
        weight = ' class="bold"' if rule == GATE else ""
        name = escape(rule.replace("the same, and", "Welch on rounds, and"))
        parts.append(f'<text x="20" y="{y + 14}"{weight}>{name}</text>')
        for start, value, name in ((left, rate, "bad"), (right, share, "ours")):
            parts += [
                f'<rect x="{start}" y="{y}" width="{width}" height="18" class="back"/>',
                f'<rect x="{start}" y="{y}" width="{width * value / 100:.1f}" height="18" class="{name}"/>',
                f'<text x="{start + width + 8}" y="{y + 14}"{weight}>{value:.3g} %</text>',
            ]
    return _svg(850, 66 + step * len(rows) + 14, parts)


def draw_band(results: str) -> str:
    """How often a slowdown is found, by its size and the band; kernels of 50 us and more."""
    rows = next(rows for _, rows in tables(results) if rows and "length" in rows[0])
    steps = [0.5, 1.0, 2.0, 3.0, 5.0]

    def x(percent: float) -> float:
        return 90 + 120 * percent

    def y(share: float) -> float:
        return 400 - 3.4 * share

    parts = _axes(y, "checks that find it")
    for step in steps:
        parts += [
            f'<line x1="{x(step):.0f}" x2="{x(step):.0f}" y1="60" y2="400" class="grid"/>',
            f'<text x="{x(step):.0f}" y="420" class="soft middle">+{step:g} %</text>',
        ]
    parts.append('<text x="390" y="446" class="middle">true slowdown of one case</text>')
    for band, colour, at in (("0.5 %", "#1a7f37", 1.02), ("1.0 %", "#3b5b92", 1.36), ("2.0 %", "#b3261e", 2.06)):
        (row,) = (
            row
            for row in rows
            if (row["stored and new"], row["band"], row["slowdown"], row["length"])
            == (SITUATION, band, "multiplied", "long")
        )
        shares = [0.0, *(number(row[f"+{step:g} %"]) for step in steps)]
        places = list(zip([0.0, *steps], shares, strict=True))
        path = "L".join(f"{x(step):.1f} {y(share):.1f}" for step, share in places)
        parts.append(f'<path d="M{path}" class="half" style="stroke: {colour}"/>')
        parts += [
            f'<circle cx="{x(step):.1f}" cy="{y(share):.1f}" r="4" style="fill: {colour}"/>'
            for step, share in places
        ]
        height = y(_between(places, at))
        text = f"band {number(band):g} %"
        parts.append(
            f'<text x="{x(at) + 10:.1f}" y="{height + 14:.1f}" style="fill: {colour}" class="bold">{text}</text>'
        )
    return _svg(740, 460, parts)


def _between(places: Sequence[tuple[float, float]], at: float) -> float:
    for (low, before), (high, after) in itertools.pairwise(places):
        if low <= at <= high:
            return before + (after - before) * (at - low) / (high - low)
    return places[-1][1]


def _axes(y: Scale, title: str) -> list[str]:
    parts = [f'<text x="20" y="36" class="bold">{title}</text>']
    for tick in (0, 25, 50, 75, 100):
        parts += [
            f'<line x1="90" x2="700" y1="{y(tick):.0f}" y2="{y(tick):.0f}" class="grid"/>',
            f'<text x="80" y="{y(tick) + 4:.0f}" class="soft end">{tick} %</text>',
        ]
    return parts


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">\n{_STYLE}\n'
        f'<rect width="{width}" height="{height}" class="page"/>\n{body}\n</svg>\n'
    )


def shoot(page: Path, picture: Path, width: int, height: int) -> None:
    """A screenshot of a page in headless Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Chromium is not installed; on Debian: apt-get install chromium")
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    flags += "disable-component-update disable-sync disable-dev-shm-usage hide-scrollbars "
    flags += "run-all-compositor-stages-before-draw virtual-time-budget=5000"
    command = [chromium, *(f"--{flag}" for flag in flags.split()), f"--user-data-dir={page.parent / 'profile'}"]
    command += [f"--window-size={width},{height}", f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> None:
    """Writes every picture."""
    OUT.mkdir(exist_ok=True)
    results = (ROOT / "docs" / "validation" / "results.md").read_text(encoding="utf-8")
    (OUT / "why.svg").write_text(draw_why(results), encoding="utf-8")
    (OUT / "band.svg").write_text(draw_band(results), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        replay = ["--nsight", "--nsight-replay", "tests/data/sessions/slow", f"--nsight-html={page}"]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *replay, "perf_tests/test_rms_norm.py"]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=300)
        # No path of this machine; the worst case unfolded, as a click does it.
        text = page.read_text(encoding="utf-8").replace(f"{ROOT}/", "")
        text = text.replace('<details class="subject" id="case-1"', '<details open class="subject" id="case-1"')
        page.write_text(text, encoding="utf-8")
        shoot(page, OUT / "report.png", 1000, 1310)
    for picture in sorted(OUT.iterdir()):
        size = picture.stat().st_size
        assert size < MOST_BYTES, f"{picture} has {size} bytes"
        sys.stdout.write(f"{picture.relative_to(ROOT)}: {size} bytes\n")


if __name__ == "__main__":
    main()
