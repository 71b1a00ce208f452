"""`pytest-nsight baselines`: what is stored, and the removal of cases whose tests are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.baselines import store
from pytest_nsight.baselines.failed_saves import load_failed_saves, store_failed_saves
from pytest_nsight.baselines.inventory import (
    StoredCase,
    list_cases,
    list_models,
    remove_cases,
    select_cases,
)
from pytest_nsight.baselines.stored_counters import store_counters
from pytest_nsight.controller.collection.collected_tests import ProjectTests, list_tests
from pytest_nsight.controller.options import DEFAULT_BASELINES
from pytest_nsight.controller.rootdir import find_configured_root
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import count, name_cases
from pytest_nsight.model.values import Subject
from pytest_nsight.processes.machine import measured_product
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.stored_cases import render_list, render_saves


@dataclass(frozen=True, slots=True)
class BaselinesQuery:
    """Which stored cases a command is about.

    Attributes:
        folder: folder of all baselines.
        model: name of a model's folder, "" for all models.
        words: a case's id must contain each of them; when cases are removed, whole ids.
    """

    folder: Path = Path(DEFAULT_BASELINES)
    model: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoneCases:
    """Cases of one GPU model that should no longer be stored.

    Attributes:
        model: name of the model's folder.
        stored: how many cases it holds, the canaries not counted.
        cases: node ids of those to remove.
        kept: node ids of those whose test exists with other parameters here, which may depend on the machine.
    """

    model: str
    stored: int
    cases: tuple[str, ...]
    kept: tuple[str, ...] = ()


def list_stored(query: BaselinesQuery, width: int) -> str:
    """A table of the stored cases for each GPU model, and under it the selected cases whose last save failed.

    Raises:
        NsightError: nothing is stored there, or a file is damaged.
    """
    return "\n\n".join(
        "\n".join([render_list(cases, width), *_list_failed_saves(query, cases[0].model)])
        for cases in _select(query)
    )


def _list_failed_saves(query: BaselinesQuery, model: str) -> list[str]:
    return [
        visible(f"{one.case}: {one.sentence}; save it again with --nsight-save")
        for one in load_failed_saves(query.folder, model).values()
        if Subject(one.case).holds(query.words)
    ]


def show_stored(query: BaselinesQuery, width: int) -> str:
    """Every save of the selected cases.

    Raises:
        NsightError: nothing is stored there, or a file is damaged.
    """
    return "\n\n".join(render_saves(case, width) for cases in _select(query) for case in cases)


def prune(query: BaselinesQuery, *, is_wanted: bool) -> tuple[str, int]:
    """Removes the stored cases whose tests no longer exist, or the named ones, for each GPU model.

    Args:
        query: where to look. Its words are node ids of stored cases to remove, with or without a test; without
            words, pytest finds the cases that have no test.
        is_wanted: whether to remove them, and not only list them.

    Returns:
        What would go or has gone, line by line; and the exit code, 1 if something would.

    Raises:
        NsightError: nothing is stored there, a file is damaged or cannot be written, pytest cannot collect the
            tests, it collects those of another project, or a named case is not stored.
    """
    gone = _find_gone(query)
    text = _describe_gone(gone)
    if not any(one.cases for one in gone):
        return text, 0
    if is_wanted:
        return f"{text}\n{_remove_gone(query.folder, gone)}", 0
    return f"{text}\nnothing was removed; to remove them, add --delete", 1


def _find_gone(query: BaselinesQuery) -> tuple[GoneCases, ...]:
    named = query.words
    stored = {
        cases[0].model: {case.subject.case for case in cases if not case.subject.is_canary}
        for cases in _select(BaselinesQuery(query.folder, query.model))
    }
    every = {case for cases in stored.values() for case in cases}
    if unknown := sorted(set(named) - every):
        raise UsageError(f"{unknown[0]} is not stored in {query.folder}; pytest-nsight baselines show has ids")
    if named:
        return tuple(GoneCases(model, len(cases), _in(cases, named)) for model, cases in stored.items())
    files = {case.partition("::")[0] for case in every}
    collected = list_tests(files)
    _refuse_other_project(query.folder, collected, files)
    functions = {_function_of(case) for case in collected.ids}
    gone, here = collected.find_removed(every), store.model_slug(measured_product())
    found = []
    for model, cases in stored.items():
        kept = [case for case in gone if model != here and _function_of(case) in functions]
        removed = [case for case in gone if case not in kept]
        found.append(GoneCases(model, len(cases), _in(cases, removed), _in(cases, kept)))
    return tuple(found)


def _refuse_other_project(folder: Path, collected: ProjectTests, files: Collection[str]) -> None:
    """Makes sure that a pytest of this project can say which cases are gone.

    The folder that the project's own settings name is its own, even if no test is left.

    Raises:
        UsageError: the baselines are those of another project, or may be.
    """
    home = folder.resolve().parent
    if folder.resolve() == Path(collected.baselines).resolve():
        return
    root = Path(collected.root)
    other = find_configured_root(home)
    here = _count_existing(root, files)
    is_others = other is not None and other.resolve() != root.resolve() and _count_existing(other, files) >= here
    if is_others or not here:
        raise UsageError(
            f"{folder} may hold the baselines of another project than {root}, where pytest has looked for their "
            f"tests, so nothing was removed; start it in the project of these baselines, {other or home}, or name "
            "the cases to remove"
        )


def _count_existing(root: Path, files: Iterable[str]) -> int:
    return sum((root / file).is_file() for file in files)


def _in(stored: Collection[str], cases: Iterable[str]) -> tuple[str, ...]:
    return tuple(case for case in cases if case in stored)


def _function_of(case: str) -> str:
    """A case's id without its parameters."""
    file, _, name = case.partition("::")
    return f"{file}::{name.partition('[')[0]}"


def _describe_gone(gone: Sequence[GoneCases]) -> str:
    lines = []
    for one in gone:
        lines.append(f"{one.model}: {len(one.cases)} of {count(one.stored, 'stored case')} to remove")
        lines += [f"  {visible(case)}" for case in one.cases]
        if one.kept:
            tests = "test has" if len(one.kept) == 1 else "tests have"
            lines.append(
                f"  {count(len(one.kept), 'case')} kept, as the {tests} other parameters on this machine: "
                f"{visible(name_cases(one.kept))}; name what is to be removed all the same"
            )
    return "\n".join(lines)


def _remove_gone(folder: Path, gone: Sequence[GoneCases]) -> str:
    changed = [path for one in gone if one.cases for path in remove_cases(folder, one.model, one.cases)]
    for one in gone:
        store_failed_saves(folder, one.model, failed=(), settled=one.cases)
        store_counters(folder, one.model, counters=(), outdated=one.cases)
    files = "".join(f"\n  {path}" for path in changed)
    return f"removed from {count(len(changed), 'file')}; commit {folder}:{files}"


def _select(query: BaselinesQuery) -> Iterator[tuple[StoredCase, ...]]:
    models = list_models(query.folder)
    if query.model and query.model not in models:
        raise UsageError(f"{query.folder} has no model {query.model}; it has {', '.join(models)}")
    selected = [
        select_cases(list_cases(query.folder, model), query.words) for model in models if query.model in (model, "")
    ]
    if not any(selected):
        raise UsageError(f"no case stored in {query.folder} has {' and '.join(query.words)} in its id")
    return (cases for cases in selected if cases)
