"""What the documents say agrees with the code: links, paths, options, examples, words."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
from pathlib import Path

import pytest

from pytest_nsight import cli
from pytest_nsight.analysis import categories
from pytest_nsight.controller import options
from pytest_nsight.model import errors

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_nsight"
PAGES = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        ROOT / "kernels/README.md",
        ROOT / "baselines/README.md",
    )
    if path.name != "CHANGELOG.md" and path != ROOT / "docs/validation/results.md"
)
REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")

OF_THE_USER = {"perf_tests/test_example.py"}
"""Files that the pages name and that `pytest-nsight init` writes into another repository."""

WORDS_TO_DO_WITHOUT = re.compile(
    r"\b(tell|tells|told|lest|of which|for want of|with a sentence|harvest|demise|tether|leash|turns?(?= of)|stray|"
    r"strays|fanout|standby|rota|visitor|cry wolf|kin|steadiness|weighing|surplus)\b",
    re.IGNORECASE,
)


def of_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """The page without its code blocks and code spans."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=of_root)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.exists(), f"{of_root(page)} links to {target}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{of_root(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=of_root)
def test_paths_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:[\w.]+/)+[\w.]+\.(?:py|md|toml|json|yml))`", text)
    missing = [
        name
        for name in named
        if name not in OF_THE_USER and not any((place / name).exists() for place in (ROOT, PACKAGE, page.parent))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=of_root)
def test_pages_use_plain_words(page: Path) -> None:
    assert [match.group() for match in WORDS_TO_DO_WITHOUT.finditer(prose(page))] == []


@pytest.mark.parametrize("folder", ["pytest_nsight", "tests"])
def test_docstrings_and_messages_use_plain_words(folder: str) -> None:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        # Few files hold one of the words at all, and to parse a file takes longer than to search it.
        if path == Path(__file__) or not WORDS_TO_DO_WITHOUT.search(code):
            continue
        texts = (node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant))
        # A single word is a name: of a key, a file, a variable.
        sentences = [re.sub(r"`[^`]*`", "", text) for text in texts if isinstance(text, str) and " " in text]
        found += [
            f"{of_root(path)}: {match.group()}"
            for sentence in sentences
            for match in WORDS_TO_DO_WITHOUT.finditer(sentence)
        ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=of_root)
def test_python_examples_can_be_parsed(page: Path) -> None:
    for code in re.findall(
        r"^ *```python\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        ast.parse(code)


class Declared:
    """A parser that notes which options and ini settings are declared."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self.ini: set[str] = set()

    def getgroup(self, *_: object, **__: object) -> Declared:
        return self

    def addoption(self, *names: str, **given: object) -> None:
        for name in names:
            self.options[name] = "" if given.get("help") is argparse.SUPPRESS else str(given["help"])

    def addini(self, name: str, *_: object, **__: object) -> None:
        self.ini.add(name)


@pytest.fixture(scope="module")
def declared() -> Declared:
    parser = Declared()
    options.add_options(parser)  # type: ignore[arg-type]
    return parser


def test_the_reference_lists_the_options_of_help_and_no_others(declared: Declared) -> None:
    rows = re.findall(r"^\| (`--nsight[^|]*)\|", REFERENCE, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(--nsight[a-z-]*)", row)}
    shown = {name for name, text in declared.options.items() if text}

    assert listed == shown


def test_every_option_has_the_ini_setting_that_the_reference_promises(declared: Declared) -> None:
    """But for those that the reference excepts, whose meaning is one session's."""
    (excepted,) = re.findall(r"except (.*?)\. The mark\s+overrides", REFERENCE, re.DOTALL)
    without = set(re.findall(r"`(--nsight[a-z-]*)", excepted))
    promised = {name.removeprefix("--").replace("-", "_") for name in declared.options} - {
        name.removeprefix("--").replace("-", "_") for name in without
    }
    # The settings that are spelled the other way round; the table of the reference says so.
    renamed = {"nsight_no_canaries": "nsight_canaries", "nsight_no_identity": "nsight_identity"}
    # Which tests are measured is the project's, and no command line's.
    without_option = set(re.findall(r"ini setting `(nsight_[a-z_]+)", REFERENCE))

    assert without_option == {"nsight_mark"}
    assert {renamed.get(name, name) for name in promised} | without_option == declared.ini


def test_the_menu_of_the_site_names_pages_that_exist() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = re.findall(r": (\S+\.md)$", menu, re.MULTILINE)

    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert set(pages) == {page for page in there if not re.match(r"decisions/0", page)}


def test_the_messages_page_lists_sentences_and_no_docstrings() -> None:
    pytest.importorskip("mkdocs")
    hooks = runpy.run_path(str(ROOT / "docs" / "site_hooks.py"))
    found = list(hooks["messages"](PACKAGE / "setup_repository" / "initialise.py"))

    assert "<folder> is in no git repository; run `git init` there first" in found
    assert not [text for text in found if "Raises" in text]


@pytest.mark.parametrize(
    ("module", "sentence", "none"),
    [
        ("collectors/nsys/known_errors.py", "the last <value> records are missing", r"\S"),
        ("worker/compiled_canaries.py", "", "__device__"),
        ("report/svg_elements.py", "", "class="),
        ("show/trace_events.py", "<path> cannot be written (<strerror>); choose another place", '"ph"'),
        ("controller/commands/command_arguments.py", "", "write one HTML page"),
        ("analysis/critical_path.py", "", "from call to start"),
        ("controller/options.py", "", "keep the scrubbed traces"),
        ("controller/workers/worker_failure.py", "", " after its last test"),
    ],
)
def test_the_messages_page_lists_no_patterns_no_code_and_no_fragments(
    module: str, sentence: str, none: str, listed: dict[Path, str]
) -> None:
    lines = listed[PACKAGE / module].splitlines()

    assert sentence in lines or not sentence
    assert none in (PACKAGE / module).read_text(encoding="utf-8")
    assert [line for line in lines if none in line] == []


def raised(module: Path) -> list[str]:
    """The beginnings of the sentences that a module raises as the package's errors: their first literal text."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    calls = [
        node.exc
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and isinstance(getattr(errors, node.exc.func.id, None), type)
        and node.exc.args
    ]
    texts = []
    for call in calls:
        literal = call.args[0].values if isinstance(call.args[0], ast.JoinedStr) else [call.args[0]]
        # A bare variable or a sentence of another function is raised on, and listed where it is written.
        texts += [
            max(parts, key=len)
            for parts in [[p.value for p in literal if isinstance(p, ast.Constant) and isinstance(p.value, str)]]
            if parts
        ]
    return texts


@pytest.fixture(scope="module")
def listed() -> dict[Path, str]:
    """Module -> everything that the messages page says of it."""
    pytest.importorskip("mkdocs")
    hooks = runpy.run_path(str(ROOT / "docs" / "site_hooks.py"))
    return {module: "\n".join(hooks["messages"](module)) for module in sorted(PACKAGE.rglob("*.py"))}


@pytest.mark.slow
def test_the_messages_page_has_every_sentence_that_is_raised(listed: dict[Path, str]) -> None:
    sentences = {module: raised(module) for module in listed}
    # One or two words between values are no sentence to search for.
    missing = [
        f"{of_root(module)}: {text}"
        for module, texts in sentences.items()
        for text in texts
        if len(text.split()) > 2 and text not in listed[module]
    ]

    assert sum(map(len, sentences.values())) > 100
    assert missing == []


def test_the_architecture_lists_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    loose = {path.name for path in PACKAGE.glob("*.py")}

    assert {room for room in rooms if f"`{room}/`" not in text} == set()
    assert {name for name in loose if f"`{name}`" not in text} == set()


def test_the_reference_lists_the_categories_of_kernels_and_what_limits_them() -> None:
    rows = re.findall(
        r"^\| `(\w+)`.* \| (.*) \| ([\w ]+) \|$", REFERENCE.partition("### Categories")[2], re.MULTILINE
    )
    arithmetic = {category for category, _, limit in rows if limit == "arithmetic"}

    order = dict.fromkeys(rule.category for rule in categories.BUILT_IN)
    assert [*order, "other"] == [category for category, _, _ in rows]
    assert arithmetic == categories.COMPUTE_BOUND
    for category, words, _ in rows[:-1]:
        patterns = [rule.pattern for rule in categories.BUILT_IN if rule.category == category]
        assert [word for word in re.findall(r"`(\w+)`", words) if not any(p.search(word) for p in patterns)] == []


def test_the_list_of_decisions_is_complete() -> None:
    folder = ROOT / "docs" / "decisions"
    text = (folder / "README.md").read_text(encoding="utf-8")

    assert [path.name for path in sorted(folder.glob("0*.md")) if path.name not in text] == []


def test_the_reference_names_every_command() -> None:
    parser = cli._parser()
    (commands,) = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]

    assert [name for name in commands if f"`pytest-nsight {name}" not in REFERENCE] == []


def threat_model() -> list[list[str]]:
    """The rows of SECURITY.md's table: what an attacker controls, what may happen, the tests."""
    lines = (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return rows[2:]


@pytest.mark.parametrize("row", threat_model(), ids=lambda row: row[0][:40])
def test_each_line_of_the_threat_model_names_tests_that_there_are(row: list[str]) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", row[-1])

    assert named
    for name in named:
        assert "def test_" in (ROOT / name).read_text(encoding="utf-8")
