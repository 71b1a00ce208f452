"""What several cases have in common: one sentence for all that a reason or a wider band concerns."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from pytest_nsight.model.units import count, name_cases, percent
from pytest_nsight.model.values import Subject, is_gpu
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from pytest_nsight.report.verdict_text import reason, reason_above_details

EXPLAINED = (VerdictKind.NO_BASELINE, VerdictKind.ENVIRONMENT)
"""What passes and still asks for something to be done, often the same for many cases."""

# What stands behind it in a sentence is the cause, without the case's own times.
_CAUSE = " cannot be judged: "
_FIGURE = re.compile(r"[\d.]+")


def without_figures(text: str) -> str:
    """The text as it is compared with others that may say the same of other numbers."""
    return _FIGURE.sub("", text)


def group_by_reason(
    verdicts: Sequence[Verdict], *, each_figure: bool = False
) -> dict[tuple[VerdictKind, str], list[Verdict]]:
    """Verdicts that say the same thing, in the order of the first of each group.

    Args:
        verdicts: any.
        each_figure: whether two sentences that ask for the same, and differ in their figures only, stay apart.
    """
    groups: dict[tuple[VerdictKind, str], list[Verdict]] = {}
    for verdict in verdicts:
        text = reason(verdict)
        if verdict.kind in EXPLAINED and not each_figure:
            text = without_figures(text.partition(_CAUSE)[2] or text)
        groups.setdefault((verdict.kind, text), []).append(verdict)
    return groups


def state_reason(verdicts: Sequence[Verdict], named: Mapping[Subject, str]) -> str:
    """Who has a reason, and the reason without its list of changes.

    Args:
        verdicts: of one group, at least one.
        named: subject -> its name in the table.
    """
    return f"{name_group(verdicts, named)}: {reason_above_details(verdicts[0])}"


def name_group(verdicts: Sequence[Verdict], named: Mapping[Subject, str]) -> str:
    """Who has a reason; ", of the first" where the figures in it differ.

    Args:
        verdicts: of one group, at least one.
        named: subject -> its name, escaped for the place where it stands.
    """
    names = [named[verdict.subject] for verdict in verdicts]
    if len(names) == 1:
        return names[0]
    of_first = "" if len({reason(verdict) for verdict in verdicts}) == 1 else ", of the first"
    return f"{count(len(names), 'case')} ({name_cases(names)}){of_first}"


def state_wider_bands(verdicts: Sequence[Verdict], named: Mapping[Subject, str]) -> list[str]:
    """Which cases have a wider band than the user asked for, why, and what then passes.

    Args:
        verdicts: any.
        named: subject -> its name in the table.
    """
    cases: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        compared = verdict.comparison
        if compared is None or compared.basis is None:
            continue
        asked, judged = (percent(band, signed=False) for band in (compared.band, compared.effective_band))
        if asked == judged:
            continue
        on_gpu = all(is_gpu(run.board) for run in compared.basis.runs)
        cause = "because of the timer's resolution" if on_gpu else "because runs on a CPU scatter"
        margin = percent(math.expm1(compared.basis.margin), signed=False)
        passes = f"a smaller slowdown is no regression, and equality is shown within {margin}"
        cases.setdefault((f"band {judged} instead of {asked}", f"{cause}: {passes}"), []).append(
            named[verdict.subject]
        )
    is_of_all = len(verdicts) > 1 and any(len(names) == len(verdicts) for names in cases.values())
    return [
        f"{band} for {'all cases' if is_of_all else name_cases(names)}, {passes}"
        for (band, passes), names in cases.items()
    ]
