"""Ids, names, values and paths that are no plain ASCII: shown as text, whatever the terminal or the log speaks."""

from __future__ import annotations

from tests.faults.fault import SESSION, SOUND, WITH_NSYS, WITH_TORCH, Fault
from tests.faults.steps import damage

REPORTS = ("--nsight-json=o.json", "--nsight-markdown=o.md", "--nsight-html=o.html", "--junitxml=o.xml", "-v")
WRITTEN = ("project/o.*",)
NO_UTF8 = "is not UTF-8, which the measuring processes take names in: rename the file or folder"
ESCAPES = "\\x1b[31mred\\x1b]0;title\\x07 \\u202e \\u2066"
COMMANDS = "\\n::stop-commands::x\\n::error::mine\\n##[error]mine"
HOSTILE = ESCAPES.replace("\\x", "\\u00") + COMMANDS
LATIN = {"PYTHONIOENCODING": "latin-1"}
ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

TWICE = """
@pytest.mark.nsight
@pytest.mark.parametrize("x", [1, 2], ids=["a", "a"])
def test_it(nsight, x):
    nsight(work)
"""

SAME_IDS = """
def pytest_collection_modifyitems(items):
    items.append(items[0])
"""


def _id(
    name: str, text: str, *, is_fast: bool = False, command: tuple[str, ...] = SESSION, **more: object
) -> Fault:
    """A test with this id, a Python literal without its quotes, in all reports and in a workflow's log."""
    return Fault(
        name=f"an id {name}",
        test=f'@pytest.mark.nsight\n@pytest.mark.parametrize("x", [1], ids=["{text}"])\n'
        "def test_it(nsight, x):\n    nsight(work)\n",
        command=command,
        options=REPORTS,
        environ={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "{folder}/o.summary", **more.pop("environ", {})},
        code=more.pop("code", 0),
        says=more.pop("says", ("1 passed",)),
        never=("\x1b[31m", "\x1b]0;", "\n::stop-commands::", "\n##["),
        leaves=WRITTEN,
        is_fast=is_fast,
        **more,
    )


def _path(name: str, file: str, **more: object) -> Fault:
    return Fault(
        name=f"a file {name}",
        test="",
        files={
            file: "from test_case import *\n\n@pytest.mark.nsight\ndef test_it(nsight):\n    nsight(work)\n",
            "conftest.py": "import sys; sys.path.insert(0, '{folder}')\n",
        },
        options=(file, "--nsight-save", "--nsight-runs=1", "--import-mode=importlib"),
        code=more.pop("code", 0),
        leaves=more.pop("leaves", ("project/baselines*",)),
        **more,
    )


FAULTS = (
    _id("with quotes and backslashes", "a\\\"b'c\\\\d", command=WITH_TORCH),
    _id("with a lone surrogate, under torch.profiler", "\\udcff\\ud800", command=WITH_TORCH),
    _id("with markup", "<b>|`x`</details> @all [x](y) ![i](j)"),
    _id("with escape sequences and marks of direction", ESCAPES),
    _id("with commands of a workflow's log", COMMANDS),
    _id("with a lone surrogate", "\\udcff\\ud800"),
    _id("with a NUL", "a\\0b"),
    _id("of ten thousand characters", "x" * 10_000),
    _id("with a name in Chinese on a terminal that speaks Latin-1", "\\u4e2d\\u6587", environ=LATIN),
    _id("with a name in Chinese on a terminal that speaks ASCII", "\\u4e2d\\u6587", environ=ASCII, is_fast=True),
    _path("with a name that is not UTF-8", "test_\udcff.py", code=4, says=(NO_UTF8,)),
    _path("with a name in Chinese in the C locale", "test_\u4e2d.py", environ=ASCII, code=4, says=(NO_UTF8,)),
    _path(
        "with a path near the limit",
        "/".join(["d" * 100] * 6) + "/test_deep.py",
        code=4,
        says=("file name too long; shorten the path of the test module", "NOT_SAVED"),
        leaves=("project/baselines*", "project/.nsight/2*/run-*/clock.jsonl"),
    ),
    _path(
        "with a name near the limit",
        "test_" + "d" * 240 + ".py",
        code=4,
        says=("file name too long; shorten the path of the test module", "NOT_SAVED"),
        leaves=("project/baselines*", "project/.nsight/2*/run-*/clock.jsonl"),
    ),
    Fault(
        name="two parameters with one id",
        test=TWICE,
        code=0,
        says=("2 passed",),
    ),
    Fault(
        name="a plugin collects a test twice",
        files={"conftest.py": SAME_IDS},
        code=4,
        says=("ERROR: 2 tests have the same id, test_case.py::test_sound[0]",),
    ),
    Fault(
        name="a test is collected twice",
        options=("test_case.py", "test_case.py", "--keep-duplicates"),
        code=4,
        says=("ERROR: 2 tests have the same id, test_case.py::test_sound[0]",),
    ),
    Fault(
        name="a number of runs in superscript",
        options=("--nsight-runs=\u00b2",),
        code=4,
        says=("--nsight-runs is", "give a whole number of at least 1"),
        is_fast=True,
    ),
    Fault(
        name="a number of runs of ten thousand digits",
        options=("--nsight-runs=" + "9" * 10_000,),
        code=4,
        says=("--nsight-runs is", "whole number"),
    ),
    Fault(
        name="a number of rounds beyond all memory",
        options=("--nsight-rounds=99999999999999",),
        code=4,
        says=("--nsight-rounds is",),
    ),
    Fault(
        name="an option that is not UTF-8", options=("--nsight-band=\udcff",), code=4, says=("--nsight-band is",)
    ),
    Fault(
        name="stored values of the environment with escapes and commands",
        command=SESSION,
        prepare=(damage(lambda text: text.replace('"collector":"nsys"', f'"collector":"{HOSTILE}"')),),
        options=REPORTS,
        environ={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "{folder}/o.summary"},
        code=0,
        says=("not compared with its baseline", "::stop-commands::x"),
        never=("\x1b[31m", "\x1b]0;", "\n::stop-commands::", "\n##["),
        leaves=WRITTEN,
    ),
    Fault(
        name="a test under nsys writes bytes that are no text",
        command=WITH_NSYS,
        test=SOUND + "    os.write(1, b'\\xff\\xfe\\x00\\n'); os.write(2, b'\\x1b[31m\\xff\\n')\n",
        options=("-s",),
        code=1,
        says=("no GPU kernel ran in the measured rounds",),
        needs=("nsys",),
    ),
    Fault(
        name="a test fails with text that nobody can encode",
        test=SOUND + "    assert number == 0, '\\ud800\\x1b[31m\\x00'\n",
        environ=LATIN,
        code=1,
        says=("1 failed", "1 passed"),
        never=(),
    ),
    Fault(
        name="a test writes a hundred megabytes",
        test=SOUND + "    for _ in range(100): print('x' * 2**20)\n",
        code=0,
        says=("2 passed",),
    ),
)
