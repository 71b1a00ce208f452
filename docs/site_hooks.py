"""What the documentation site adds to the pages of docs/: pages from elsewhere in the repository, and all messages.

mkdocs calls these functions by their names (mkdocs.yml, `hooks`).
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_nsight"

ELSEWHERE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "kernels/README.md": "kernels-list.md",
    "baselines/README.md": "stored-runs.md",
}
"""Page in the repository -> its place on the site."""

MESSAGES_HERE = "<!-- messages -->"

_CODE = re.compile(
    r"^(SELECT|CREATE|PRAGMA|INSERT|WITH|FROM|JOIN|WHERE)\b|^(import|from) \S+\n|^\W*$"  # SQL, Python, no words
    r"|<(?=/|!--|\w+ [\w-]+=)|/>|\w=\"<|\\"  # HTML and SVG; regular expressions
    r"|\{\W|\w\":|\"\$|[;{]\n|@[0-9a-f]{40}"  # JSON, C, shell, workflows
)

_FRAGMENT = re.compile(r"^[\s,;:.()\[\]]|[,(\[]$")

_VERB = re.compile(
    r"^(call|record|start) (?!end)|"
    r"\b(is|are|was|were|been|has|have|had|can|cannot|can't|does|do|did|must|may|will|would|needs?|takes?|took"
    r"|gives?|holds?|lacks?|names?|says?|said|ran|runs?|reads?|writes?|recorded|measures?|measured"
    r"|stores?|stored|leads?|ends|ended|goes|went|fails?|failed|failing|leaves?|left|changes?|changed|differs?"
    r"|begins?|began|choose|chose|check|free|move|remove|removed|restore|repair|install|update|upgrade|shorten"
    r"|saves?|saved|unite|uses?|used|add|set|makes?|made|calls|launches|waits?|keeps?|kept|finds?|found|type"
    r"|delete|starts|started|stopped|comes?|came|lost|dropped|killed|broke|exceeds|returns?|refuses|imports?"
    r"|imported|expected|requires?|exclude|mend|gone|offers?|allows?|samples|could|saw|computed|settled|joined"
    r"|hit|covered|tried|timed|claimed|interrupted|replaying|drilled|belongs?|passes|passed|prints?|counts?"
    r"|shows?|shown|means?|rose|fell|grew|asks?)\b"
)
"""What makes a sentence of words: the verbs that the package's messages use."""

_SHORT = 36
"""Signs of a word of code that fits into a line of a telephone."""

_OF_HELP = frozenset({"help", "description", "epilog", "usage", "metavar"})
_ONLY_HELP = frozenset({"options.py", "command_arguments.py"})
"""Modules that declare options: their texts are those of --help, but for what they raise."""


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from elsewhere; mkdocs warns of pages that no menu has, which is right for docs/ only."""
    for source, place in ELSEWHERE.items():
        page = File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8"))
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 - as above
    """Links out of docs/ lead to the site's copy; where there is none, the path in the repository is named."""
    place = page.file.src_uri
    source = next((name for name, copy in ELSEWHERE.items() if copy == place), f"docs/{place}")

    def rewrite(match: re.Match[str]) -> str:
        text, target = match.groups()
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not name:
            return match.group()
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        found = ELSEWHERE.get(wanted, wanted.removeprefix("docs/"))
        if wanted == "docs/decisions":
            found = "decisions/README.md"
        if files.get_file_from_path(found) is None:
            return (
                f"`{wanted}`" if text.strip("`") in (wanted, posixpath.basename(wanted)) else f"{text} (`{wanted}`)"
            )
        relative = posixpath.relpath(found, posixpath.dirname(place) or ".")
        return f"[{text}]({relative}{'#' + anchor if anchor else ''})"

    markdown = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", rewrite, markdown)
    if MESSAGES_HERE in markdown:
        markdown = markdown.replace(MESSAGES_HERE, "\n".join(_message_lines()))
    return markdown


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 - as above
    """Marks what site.css keeps whole: each word of code in a line, and sessions' ids in tables.

    Browsers break after hyphens, so that an option would lose its dashes and look like two words.
    """

    def whole(match: re.Match[str]) -> str:
        return re.sub(r"[^\s<>]+(?![^<]*>)", mark, match.group())

    def mark(word: re.Match[str]) -> str:
        # A longer one may be longer than a line of a small screen.
        return f'<span class="{"whole" if len(word.group()) <= _SHORT else "long"}">{word.group()}</span>'

    parts = re.split(r"(<pre\b.*?</pre>)", html, flags=re.DOTALL)
    for number, part in enumerate(parts[::2]):
        marked = re.sub(r"(?<=<code>).*?(?=</code>)", whole, part, flags=re.DOTALL)
        parts[2 * number] = re.sub(r"(?<=<td>)\d{8}-\d{6}-[0-9a-f]{4}(?=</td>)", whole, marked)
    return "".join(parts)


def _message_lines() -> Iterator[str]:
    """The messages of each part of the package, as Markdown."""
    for folder in sorted(path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()):
        found = [(module, text) for module in sorted(folder.rglob("*.py")) for text in messages(module)]
        if not found:
            continue
        yield f"\n## {folder.name}\n"
        yield from (f"- {_as_text(text)} ({module.stem})" for module, text in found)


def messages(module: Path) -> Iterator[str]:
    """The sentences in a module: strings of at least four words and a verb that are no docstrings, in their order.

    What is raised is a message without a verb, too. Code, pieces of sentences and the texts of --help are none.
    """
    tree = ast.parse(module.read_text(encoding="utf-8"))
    skipped = {id(part) for node in ast.walk(tree) for part in _no_messages(node)}
    raised = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    seen = set()
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, (ast.Constant, ast.JoinedStr)):
            continue
        text = _template(node)
        if (
            len(re.findall(r"[A-Za-z]{2,}", text)) >= 4
            and " " in text
            and not _CODE.search(text)
            and (id(node) in raised or (module.name not in _ONLY_HELP and is_sentence(text)))
            and text not in seen
        ):
            seen.add(text)
            yield text


def is_sentence(text: str) -> bool:
    """Whether the words have a verb and are no piece of a longer text."""
    return bool(_VERB.search(text)) and not _FRAGMENT.search(text)


def _no_messages(node: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, patterns, texts of --help; and the pieces of a formatted string, which are shown as one."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.JoinedStr):
        yield from (piece for piece in ast.walk(node) if piece is not node and isinstance(piece, ast.Constant))
    if isinstance(node, ast.keyword) and node.arg in _OF_HELP:
        yield from ast.walk(node.value)
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
        yield from ast.walk(node)


def _template(node: ast.Constant | ast.JoinedStr) -> str:
    """The string with the names of values in angle brackets."""
    if isinstance(node, ast.Constant):
        # A text that str.format fills has its names in braces.
        text = node.value if isinstance(node.value, str) else ""
        return re.sub(r"\{([a-z_]+)\}", r"<\1>", text).replace("{0}", "<value>")
    pieces = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            pieces.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            names = re.findall(r"[A-Za-z_]\w*", ast.unparse(part.value))
            pieces.append(f"<{names[-1].replace('_', ' ').strip() if names else 'value'}>")
    return "".join(pieces)


def _as_text(text: str) -> str:
    """The text as Markdown shows it unchanged, on one line."""
    line = " ".join(text.split())
    return (
        re.sub(r"([\\`*_{}\[\]<>#|&])", r"\\\1", line)
        .replace("\\<", "&lt;")
        .replace("\\>", "&gt;")
        .replace("\\&", "&amp;")
    )
