"""Finds what a session leaves out though its user may think it was measured: no case passes by being absent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_nsight.baselines import store
from pytest_nsight.baselines.failed_saves import load_failed_saves
from pytest_nsight.controller.collection.collection_record import FIXTURE, Collected
from pytest_nsight.controller.collection.raised_calls import describe_stored
from pytest_nsight.controller.collection.untested_files import describe_untested, write_prune
from pytest_nsight.controller.settings import Settings
from pytest_nsight.gate.state import GateState, SerialisedReport
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.units import count, name_cases, name_some
from pytest_nsight.protocol.phase_reports import last_attempt

_MOST_OPTIONS = 3
_NUMBER = re.compile(r"#\d+(?=\[|$)")


def describe_unmarked(unmarked: Sequence[str], fixtures: Sequence[str] = (FIXTURE,)) -> str:
    """A sentence on tests that use a fixture that measures without the mark, "" if there are none.

    Args:
        unmarked: ids of the tests.
        fixtures: that they use.
    """
    if not unmarked:
        return ""
    verb, named = "uses" if len(unmarked) == 1 else "use", " or ".join(fixtures)
    return (
        f"{count(len(unmarked), 'test')} {verb} the fixture {named} without the mark, so nothing is measured: "
        f"{name_cases(unmarked)}; add @pytest.mark.nsight"
    )


def describe_unreported(cases: Sequence[str]) -> str:
    """A sentence on marked tests that failed and that pytest did not report, "" if there are none."""
    if not cases:
        return ""
    return (
        f"{count(len(cases), 'marked test')} failed, and pytest did not report {_them(cases)}: {name_cases(cases)}"
        "; let nothing end pytest before its last test (pytest.exit), and no conftest.py or plugin run marked "
        "tests in its own way (pytest_runtest_protocol)"
    )


def _them(things: Sequence[str]) -> str:
    """The pronoun that stands for so many."""
    return "it" if len(things) == 1 else "them"


def describe_removed(removed: Sequence[str], folder: str = "", *, are_calls: bool = False) -> str:
    """A sentence on stored cases whose tests are gone, "" if there are none.

    Args:
        removed: their node ids.
        folder: of all baselines as the user gave it, "" for the one that the ini file or the default names.
        are_calls: whether they were calls of a script. Only the script knows which are gone, so the command has
            to name them.
    """
    if not removed:
        return ""
    remedy = write_prune(removed if are_calls else (), folder)
    verb = "has" if len(removed) == 1 else "have"
    them = _them(removed)
    return (
        f"{count(len(removed), 'stored case')} {verb} no test any more, so nothing checks {them}: "
        f"{name_cases(removed)}; if that is intended, remove {them} with: {remedy}"
    )


def describe_renumbered(now: Iterable[str], stored: Iterable[str]) -> str:
    """A sentence on calls of a script that share a name and are more or fewer than stored, "" if there are none.

    Args:
        now: node ids of the calls that the script makes.
        stored: node ids of those that baselines hold.
    """
    calls, before = (Counter(_NUMBER.sub("", case) for case in cases) for cases in (now, stored))
    changed = [
        f"{name} ({count(calls[name], 'call')}, {before[name]} stored)"
        for name in sorted(calls.keys() & before.keys())
        if calls[name] != before[name]
    ]
    if not changed:
        return ""
    return (
        "calls of one name are numbered in their order, so what is behind an added or removed call is compared "
        f"with the runs of another: {name_some(changed, _MOST_OPTIONS)}; give each a name of its own (label= of "
        "Timer, a function around each do_bench), and save again"
    )


def describe_without_mark(cases: Sequence[str], folder: str) -> str:
    """A sentence on stored cases whose tests are no longer marked, "" if there are none.

    Args:
        cases: their node ids.
        folder: of all baselines as the user gave it, "" for the one that the ini file or the default names.
    """
    if not cases:
        return ""
    return (
        f"{count(len(cases), 'stored case')} without the mark nsight any more, so nothing checks "
        f"{_them(cases)}: {name_cases(cases)}; put the mark back, or remove the stored runs "
        f"with: {write_prune(cases, folder)}"
    )


def describe_lost_parts(parts: Sequence[str]) -> str:
    """A sentence on stored parts of measured cases that have no range any more, "" if there are none."""
    if not parts:
        return ""
    verb = "has" if len(parts) == 1 else "have"
    return (
        f"{count(len(parts), 'stored part')} {verb} no range any more, so nothing checks "
        f"{_them(parts)}: {name_cases(parts)}; put the range back, or accept the case as it "
        "is with --nsight-save"
    )


def describe_expected(cases: Sequence[str]) -> str:
    """A sentence on failing verdicts that are expected, "" if there are none."""
    if not cases:
        return ""
    tests = "its test is" if len(cases) == 1 else "their tests are"
    named = name_cases(sorted(cases))
    return f"{count(len(cases), 'case')} with a failing verdict did not fail, as {tests} marked xfail: {named}"


def find_nothing_measured(collected: Collected) -> tuple[str, ...]:
    """Sentences for a session that had no test to measure."""
    tests = count(len(collected.known), "collected test")
    why = (
        _describe_deselected(collected)
        or f"no selected test has the mark nsight ({tests}); add @pytest.mark.nsight to one"
    )
    return (f"nothing was measured: {why}", *filter(None, [describe_unmarked(collected.unmarked)]))


def _describe_deselected(collected: Collected) -> str:
    """Why no test is left of those that could be measured, "" if there are none."""
    others, selection = collected.marked_others, collected.selection
    if not others:
        return ""
    is_one, options = len(others) == 1, name_some(selection, _MOST_OPTIONS)
    remedy = "select it" if is_one else "select one of them"
    if collected.scope and options and all(one.startswith(("-k ", "-m ")) for one in selection):
        cases = "the script's only case does not match" if is_one else f"none of {len(others)} cases matches"
        return f"{cases} {options} ({name_cases(others)}); {remedy}"
    kind = "of the script" if collected.scope else "with the mark nsight"
    noun = "case" if collected.scope else "test"
    which = f"the only {noun} {kind} was" if is_one else f"all {len(others)} {noun}s {kind} were"
    return f"{which} deselected by {options or 'a conftest.py or a plugin'} ({name_cases(others)}); {remedy}"


def describe_skipped(cases: Sequence[str], *, expects_failures: bool) -> tuple[str, ...]:
    """A sentence for a session all of whose cases were skipped; none where there are no such cases.

    Args:
        cases: their node ids.
        expects_failures: whether some of them failed as their mark xfail expects.
    """
    if not cases:
        return ()
    were = "was" if len(cases) == 1 else "were all"
    what, option = ("skipped or failed as xfail expects", "-rsx") if expects_failures else ("skipped", "-rs")
    measured = f"{count(len(cases), 'selected case')} {were} {what} ({name_cases(cases)})"
    return (f"nothing was measured: {measured}; pytest {option} shows why",)


def describe_unchecked(skipped: Sequence[str], failed: Sequence[str]) -> tuple[str, ...]:
    """Sentences on cases with stored runs of the machine's model that have no verdict; none where there are none.

    Args:
        skipped: those that were skipped.
        failed: those that failed as xfail expects.
    """
    were = "was" if len(skipped) == 1 else "were"
    kinds = ((skipped, f"{were} skipped", "-rs"), (failed, "failed as xfail expects", "-rx"))
    return tuple(
        f"not checked: {count(len(cases), 'case')} with stored runs of this model {what} ({name_cases(cases)}); "
        f"pytest {option} shows why, and --deselect takes out what need not run here"
        for cases, what, option in kinds
        if cases
    )


@dataclass(frozen=True, slots=True)
class CollectionGaps:
    """What the collection of a session has left out.

    Attributes:
        certain: sentences on tests that measure nothing, and on stored cases without a test.
        possible: sentences on stored cases that the user's selection may have meant to leave out, and on calls of a
            script that may be compared with others.
    """

    certain: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()


def find_gaps(settings: Settings, state: GateState, collected: Collected) -> CollectionGaps:
    """What the collection has left out.

    Raises:
        BaselineError: the baselines cannot be read.
    """
    unmarked = tuple(filter(None, [describe_unmarked(collected.unmarked)]))
    if not state.device or settings.against or state.other.commit:
        return CollectionGaps(unmarked)
    folder = settings.baselines_option
    stored = store.load(settings.baselines, store.model_slug(state.device)).runs
    cases = {subject.case for subject in stored if not subject.is_canary}
    removed = collected.find_removed(cases, settings.root)
    raised = collected.raised.find_stored(removed)
    gone = [case for case in removed if case not in raised]
    found = (
        describe_without_mark(collected.find_without_mark(cases), folder),
        describe_stored(raised),
        describe_removed(gone, folder, are_calls=bool(collected.scope)),
    )
    certain = (*unmarked, *filter(None, found))
    untested = collected.files.find_untested(cases.difference(removed), settings.root)
    sentences = describe_untested(collected.files, untested, folder)
    renumbered: tuple[str, ...] = ()
    if collected.scope and not settings.save:
        # A call that could not be saved has its number all the same.
        known = cases.union(load_failed_saves(settings.baselines, store.model_slug(state.device)))
        before = [case for case in known if case.rpartition("::")[0] == collected.scope]
        renumbered = tuple(filter(None, [describe_renumbered(collected.known, before)]))
    # Nobody knows whether -k, -m or --nsight-affected would have chosen a test that was not collected.
    if collected.files.has_filter or settings.affected:
        return CollectionGaps(certain, (*sentences, *renumbered))
    return CollectionGaps((*certain, *sentences), renumbered)


def _find_lost_parts(state: GateState, stored: StoredRuns) -> tuple[str, ...]:
    """Parts that the last save of a measured case stored, or the other tree has, and that no run of it has now."""
    measured = {run.subject for run in state.summaries}
    if state.other.commit:
        stored = StoredRuns(state.other.runs)
    return tuple(
        part.label
        for case in sorted({subject.case for subject in measured})
        for part in stored.parts_of_newest_session(case)
        if part not in measured
    )


def find_unchecked(state: GateState, stored: StoredRuns) -> tuple[str, ...]:
    """Sentences on stored parts without a range, and on skipped cases: all, or those that have stored runs."""
    lost = tuple(filter(None, [describe_lost_parts(_find_lost_parts(state, stored))]))
    return (*lost, *_describe_skipped(state, stored))


def find_unsaved(state: GateState) -> tuple[str, ...]:
    """A sentence for a save that has skipped all cases."""
    skipped = _list_skipped(state)
    if len(skipped) < len(state.plan.case_ids):
        return ()
    return describe_skipped(tuple(skipped), expects_failures=any(skipped.values()))


def _list_skipped(state: GateState) -> dict[str, bool]:
    """Case that was skipped -> whether it failed as xfail expects, which pytest reports as skipped, too."""
    found = {case: _read_skip(state, case) for case in state.plan.case_ids}
    return {case: any("wasxfail" in report for report in reports) for case, reports in found.items() if reports}


def _describe_skipped(state: GateState, stored: StoredRuns) -> tuple[str, ...]:
    """Sentences on skipped cases: if nothing was measured beside them, else on those with stored runs."""
    skipped = _list_skipped(state)
    if len(skipped) == len(state.plan.case_ids):
        return describe_skipped(tuple(skipped), expects_failures=any(skipped.values()))
    known = {run.subject.case for run in stored.all}
    return describe_unchecked(
        [case for case, is_expected in skipped.items() if case in known and not is_expected],
        [case for case, is_expected in skipped.items() if case in known and is_expected],
    )


def _read_skip(state: GateState, case: str) -> tuple[SerialisedReport, ...]:
    """The reports of a case's last attempt if it was skipped, else none."""
    reports = tuple(last_attempt(state.reports.get(case, ())))
    is_skipped = any(report["outcome"] == "skipped" for report in reports) and not state.has_passed(case)
    return reports if is_skipped else ()
