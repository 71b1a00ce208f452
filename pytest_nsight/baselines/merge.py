"""Two versions of a baseline file that both saved, united: what git cannot do line by line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.baselines.atomic_files import explaining, read_regular_file, replace
from pytest_nsight.baselines.decode import decode
from pytest_nsight.baselines.encode import encode
from pytest_nsight.baselines.file_format import NewerFormatError, Runs, by_age
from pytest_nsight.model.errors import BaselineError, UsageError
from pytest_nsight.model.values import KEPT_RUNS, RunSummary
from pytest_nsight.processes.git_calls import ask_git

_VERSIONS = ("the common ancestor's version", "our version", "their version")


@dataclass(frozen=True, slots=True)
class Merged:
    """What uniting two versions came to.

    Attributes:
        path: the file that now holds the runs.
        runs: runs that it holds.
        from_ours: runs that only our version had.
        from_theirs: runs that only their version had.
    """

    path: Path
    runs: int
    from_ours: int
    from_theirs: int


def unite(base: Runs, ours: Runs, theirs: Runs, keep: int = KEPT_RUNS) -> Runs:
    """All runs that either version added, without those that either removed.

    Args:
        base: the stored runs before either version changed them.
        ours: those of the branch that is merged into; where both changed the same run, this one counts.
        theirs: those of the branch that is merged.
        keep: how many runs of a subject to keep, the newest.
    """
    united = {}
    for subject in sorted({*ours, *theirs}):
        versions = [{run.run: run for run in runs.get(subject, ())} for runs in (base, ours, theirs)]
        found = [_choose(id_, *versions) for id_ in {**versions[1], **versions[2]}]
        kept = sorted((run for run in found if run is not None), key=by_age)[-keep:]
        if kept:
            united[subject] = tuple(kept)
    return united


def _choose(
    id_: str, base: Mapping[str, RunSummary], ours: Mapping[str, RunSummary], theirs: Mapping[str, RunSummary]
) -> RunSummary | None:
    """The version of a run that stays, None where one version removed it and the other left it unchanged."""
    before, one, other = base.get(id_), ours.get(id_), theirs.get(id_)
    if one == before:
        return other
    return one if one is not None else (None if other == before else other)


def merge(files: Sequence[Path]) -> str:
    """Merges what the command line names: a file in conflict, or base, ours and theirs as git gives them.

    Args:
        files: one, or three and the name to show.

    Returns:
        What was merged, "" where git asked.

    Raises:
        NsightError: the number of files is another, one cannot be read, or the merged one cannot be written.
    """
    match files:
        case [path]:
            merged = merge_conflict(path)
            origins = f"{merged.from_ours} of them only ours, {merged.from_theirs} only theirs"
            return f"{path}: {merged.runs} runs, {origins}; now type: git add {shlex.quote(str(path))}"
        case [base, ours, theirs, *names] if len(names) <= 1:
            merge_files(base, ours, theirs, str(names[0] if names else ours))
            return ""
    raise UsageError(f"{len(files)} files for merge-baselines; give one file in conflict, or git's %O %A %B %P")


def merge_files(base: Path, ours: Path, theirs: Path, name: str) -> Merged:
    """Unites two versions of a baseline file into the file of ours, as git asks a merge driver to.

    Args:
        base: the version that both started from; empty if there is none.
        ours: the version of the branch that is merged into; replaced.
        theirs: the version of the branch that is merged.
        name: the file's name in the repository, for messages.

    Raises:
        BaselineError: a version is damaged or of a newer format; `ours` is unchanged.
    """
    contents = []
    for path in (base, ours, theirs):
        with explaining("read", path):
            contents.append(read_regular_file(path))
    return _merge(contents, ours, name)


def merge_conflict(path: Path) -> Merged:
    """Unites the versions of a baseline file that a merge left in conflict, as git's index holds them.

    Raises:
        BaselineError: git has no two versions of the file, or one is damaged; the file is unchanged.
    """
    contents = [_read_stage(path, stage) for stage in (1, 2, 3)]
    if contents[1] is None or contents[2] is None:
        raise BaselineError(
            f"git holds no two versions of {path}: it is in no conflict, or one branch deleted it; see "
            "`git status`. If it was committed with conflict markers, take it from a commit before that, "
            f"`git checkout <commit> -- {shlex.quote(str(path))}`, or delete it and save again"
        )
    return _merge([content or b"" for content in contents], path, str(path))


def _read_stage(path: Path, stage: int) -> bytes | None:
    shown = ask_git(path.parent, "show", f":{stage}:./{path.name}", in_callers_repository=True)
    return None if shown.code else shown.output


def _merge(contents: Sequence[bytes], path: Path, name: str) -> Merged:
    base, ours, theirs = (
        _decode_version(content, version, name) for content, version in zip(contents, _VERSIONS, strict=True)
    )
    united = unite(base, ours, theirs)
    replace(path, encode(united))
    ids_of_ours, ids_of_theirs, ids = _ids(ours), _ids(theirs), _ids(united)
    return Merged(path, len(ids), len(ids & ids_of_ours - ids_of_theirs), len(ids & ids_of_theirs - ids_of_ours))


def _ids(runs: Runs) -> set[tuple[object, str]]:
    return {(subject, run.run) for subject, stored in runs.items() for run in stored}


def _decode_version(content: bytes, version: str, name: str) -> Runs:
    if not content.strip():
        return {}
    try:
        return decode(content.decode("utf-8"))
    except NewerFormatError as error:
        raise NewerFormatError(
            f"{version} of {name} was {error}; upgrade pytest-nsight, then merge again"
        ) from error
    except (BaselineError, UnicodeDecodeError) as error:
        raise BaselineError(
            f"{version} of {name} is damaged: {error}; restore it on its branch, then merge again"
        ) from error
