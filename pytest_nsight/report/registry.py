"""The forms that a finished session is written in, and how each gets to its file.

A new report is a function `render(SessionResult) -> str` and one line of REPORTS. Installed packages add theirs
through the entry point group `pytest_nsight.reports`: the entry point's name is the report's, and it refers to an
object, such as a module, with `render` and `suffix`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.verdicts import SessionResult
from pytest_nsight.report import (
    ci_formats,
    dashboard_formats,
    html_report,
    markdown,
    pytest_benchmark_json,
    session_file,
)

GROUP = "pytest_nsight.reports"


@dataclass(frozen=True, slots=True)
class Report:
    """One form of a finished session.

    Attributes:
        render: the whole text of it.
        suffix: of a file that holds it, ".csv".
    """

    render: Callable[[SessionResult], str]
    suffix: str


REPORTS = {
    "json": Report(pytest_benchmark_json.render, ".json"),
    "markdown": Report(markdown.render, ".md"),
    "html": Report(html_report.render, ".html"),
    "session": Report(session_file.render, ".json"),
    "github-action-benchmark": Report(dashboard_formats.github_action_benchmark, ".json"),
    "bencher": Report(dashboard_formats.bencher, ".json"),
    "otava": Report(dashboard_formats.otava, ".csv"),
    "pytorch-benchmark": Report(dashboard_formats.pytorch_benchmark, ".json"),
    "openmetrics": Report(dashboard_formats.openmetrics, ".txt"),
}
"""What `--nsight-report NAME=PATH` can write, beside the reports of installed packages."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report that somebody asked for.

    Attributes:
        name: a name in REPORTS, or of an entry point.
        path: the file to write.
    """

    name: str
    path: Path


def read_requests(texts: Iterable[str], folder: Path, source: str = "--nsight-report") -> tuple[ReportFile, ...]:
    """The files that were asked for, each such as "markdown=out.md".

    A folder as path, or one that ends with a slash, gets the file `nsight` with the report's suffix.

    Args:
        texts: what is asked for.
        folder: where relative paths start.
        source: the option or setting that asks for it, for an error.

    Raises:
        UsageError: one is not NAME=PATH, no report has that name, two have the same file, or one would replace a
            file of Python or have the name of a test, as where the path is forgotten and tests stand in its place.
    """
    files = tuple(_read_request(text, folder, source) for text in texts)
    refuse_shared_files(files)
    return files


def refuse_shared_files(files: Iterable[ReportFile]) -> None:
    """Refuses to write one report over another.

    Raises:
        UsageError: two have the same file.
    """
    names: dict[Path, str] = {}
    for file in files:
        other = names.setdefault(file.path.resolve(), file.name)
        if other != file.name:
            raise UsageError(
                f"the reports {other} and {file.name} would both be written to {file.path}, one over the other; "
                "give each a file of its own"
            )


def _read_request(text: str, folder: Path, source: str) -> ReportFile:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise UsageError(f"{source} is {text!r}; give NAME=PATH, where NAME is {_names()}")
    report = find_report(name, source)
    file = folder / path
    refuse_tests(file, f"the report {name}", report.suffix)
    is_folder = path.endswith("/") or file.is_dir()
    return ReportFile(name, file / f"nsight{report.suffix}" if is_folder else file)


def refuse_tests(file: Path, what: str, suffix: str) -> None:
    """Refuses to write to a file of Python or to the name of a test, which follow an option without its path.

    Args:
        file: what would be written.
        what: is to be written, for the error.
        suffix: of such files.

    Raises:
        UsageError: it is one.
    """
    python = Path(str(file).partition("::")[0])
    if python.suffix != ".py" or not python.is_file():
        return
    harm = f"replace {file}, a file of Python" if file == python else f"be written to {file}, the name of a test"
    raise UsageError(f"{what} would {harm}; give it a path of its own, such as nsight{suffix}")


def find_report(name: str, source: str = "--nsight-report") -> Report:
    """The report of that name, the package's own or that of an installed one.

    Args:
        name: of the report.
        source: the option or setting that asks for it, for an error.

    Raises:
        UsageError: there is none, or it cannot be imported.
    """
    if name in REPORTS:
        return REPORTS[name]
    found = [point for point in _installed() if point.name == name]
    if not found:
        raise UsageError(f"{source} asks for {name!r}, and there is no such report; choose one of {_names()}")
    try:
        loaded = found[0].load()
        return Report(loaded.render, loaded.suffix)
    except Exception as error:  # whatever the import of somebody else's package raises
        raise UsageError(
            f"{source} asks for {name!r}: {found[0].value} of {_package(found[0])} cannot be used "
            f"({type(error).__name__}: {error}); repair or uninstall that package"
        ) from error


def publish(
    result: SessionResult, files: Iterable[ReportFile], *, step_summary: Path | None = None
) -> Mapping[ReportFile, str]:
    """Renders and writes; a report that fails never takes the others with it.

    Args:
        result: what to report.
        files: the reports to write, each over what stands there.
        step_summary: file that GitHub shows on a job's page; Markdown is appended to it.

    Returns:
        Each report that could not be written, and a sentence on why.
    """
    jobs = [(file, "w") for file in files]
    jobs += [(ReportFile("markdown", step_summary), "a")] if step_summary else []
    return {file: trouble for file, mode in jobs if (trouble := _write(result, file, mode))}


def _write(result: SessionResult, file: ReportFile, mode: str) -> str:
    """Writes one report; "" or why it was not written."""
    try:
        text = find_report(file.name).render(result)
    except Exception as error:  # of whatever kind: the verdicts and the other reports must not be lost with it
        what = f"{type(error).__name__}: {error}"
        if file.name in REPORTS:
            return f"the report {file.name} was not written: {what}; report this with the session's folder"
        return f"the report {file.name} was not written: its package raised {what}"
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        with file.path.open(mode, encoding="utf-8", errors="backslashreplace") as opened:
            opened.write(text)
    except OSError as error:
        return f"{file.path} was not written ({os.strerror(error.errno or 0)}); choose another place"
    return ""


def describe_written(path: Path) -> str:
    """A line that names a report's file once it is written."""
    return f"report written: {name_from_here(path)}"


def name_from_here(path: Path) -> str:
    """The path as the user types it, where it is below this folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def step_summary_path() -> Path | None:
    """Where GitHub Actions wants a job's summary; None elsewhere."""
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    return Path(name) if name else None


def workflow_commands(result: SessionResult, root: Path) -> str:
    """Workflow commands that mark failing tests on GitHub; "" elsewhere.

    Args:
        result: the finished session.
        root: pytest's root folder, where node ids start.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return ""
    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or root)
    is_inside = root.is_relative_to(workspace)
    return ci_formats.workflow_annotations(result, root.relative_to(workspace).as_posix() if is_inside else "")


def _names() -> str:
    return ", ".join([*REPORTS, *sorted(point.name for point in _installed() if point.name not in REPORTS)])


def _installed() -> Sequence[EntryPoint]:
    return tuple(entry_points(group=GROUP))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
