"""The tables of code: what launched the kernels, and where Python was while devices were idle."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.analysis.idle_lines import IdleLine
from pytest_nsight.analysis.launching_code import CodeTime
from pytest_nsight.model.units import count, duration
from pytest_nsight.report.table import shorten_all
from pytest_nsight.show.layout import ELLIPSIS, Section, column, share, time

_KERNEL_WIDTH, _LINE_WIDTH = 32, 40
"""Characters of the name of a kernel, or of an inner line, beside the code that it belongs to."""


def tabulate_codes(codes: Sequence[CodeTime], top: int) -> Section | None:
    """Kernel time by the code that launched it; None where the recording does not say.

    Args:
        codes: the longest in total first.
        top: how many rows there are, beside the one that sums up.
    """
    if not codes:
        return None
    return _tabulate_launching(
        "Kernel time by the code that launched it",
        ("code", "no backtrace"),
        codes,
        top,
        "of PyTorch the outermost operator, after the node of autograd that called it; of another program its "
        "function nearest to CUDA; kernels: how many different ones; mostly: the one that takes the most time",
    )


def tabulate_lines(lines: Sequence[CodeTime], top: int) -> Section | None:
    """Kernel time by the line of Python that launched it; None where the recording does not say.

    Args:
        lines: the longest in total first.
        top: how many rows there are, beside the one that sums up.
    """
    if not lines:
        return None
    return _tabulate_launching(
        "Kernel time by the line of Python that launched it",
        ("line", "no stack of Python"),
        lines,
        top,
        "the innermost line of the program's own files; kernels: how many different ones; mostly: the one that "
        "takes the most time",
    )


def tabulate_idle_lines(lines: Sequence[IdleLine], top: int) -> Section | None:
    """Idle time of the devices by the line of Python in which the host was; None where Python was not sampled.

    Args:
        lines: the most time first.
        top: how many rows there are, beside the one that sums up.
    """
    if not lines:
        return None
    shown, rest = lines[:top], lines[top:]
    names = [one.line or "no sample of Python" for one in shown]
    rows = [(one.total_ns, one.share, one.inside, share(one.inside_ns / one.total_ns)) for one in shown]
    if rest:
        names.append(count(len(rest), "other"))
        rows.append((sum(one.total_ns for one in rest), sum(one.share for one in rest), "", ""))
    short = shorten_all([inside for *_, inside, _ in rows], _LINE_WIDTH, ELLIPSIS)
    return Section(
        f"Where Python was while devices were idle: {duration(sum(one.total_ns for one in lines))}",
        column("line", names, is_number=False),
        [
            [
                column("idle", [time(total_ns) for total_ns, *_ in rows]),
                column("share", [share(part) for _, part, *_ in rows]),
            ],
            [
                column("most in", [short[inside] for *_, inside, _ in rows], is_number=False),
                column("", [part if inside else "" for *_, inside, part in rows]),
            ],
        ],
        "of the thread that launches next; line: the innermost one of the program's own files; most in: the line "
        "that is running or waiting for the largest part of that time",
    )


def _tabulate_launching(
    title: str, words: tuple[str, str], codes: Sequence[CodeTime], top: int, footnote: str
) -> Section:
    """Kernel time by what launched it.

    Args:
        title: of the table.
        words: the head of the first column, and what stands there for launches without code.
        codes: the longest in total first, one at least.
        top: how many rows there are, beside the one that sums up.
        footnote: what the columns are.
    """
    head, unknown = words
    shown, rest = codes[:top], codes[top:]
    names = [one.code or unknown for one in shown]
    short = shorten_all([one.kernel for one in shown], _KERNEL_WIDTH, ELLIPSIS)
    rows = [(one.launches, one.total_ns, one.share, f"{one.kernels:,}", short[one.kernel]) for one in shown]
    if rest:
        names.append(count(len(rest), "other"))
        sums = (
            sum(one.launches for one in rest),
            sum(one.total_ns for one in rest),
            sum(one.share for one in rest),
        )
        rows.append((*sums, "", ""))
    return Section(
        title,
        column(head, names, is_number=False),
        [
            [
                column("launches", [f"{launches:,}" for launches, *_ in rows]),
                column("total", [time(total_ns) for _, total_ns, *_ in rows]),
                column("share", [share(part) for _, _, part, *_ in rows]),
                column("kernels", [number for *_, number, _ in rows]),
            ],
            [
                column("mostly", [kernel for *_, kernel in rows], is_number=False),
            ],
        ],
        footnote,
    )
