"""Options that a session refuses: those that exclude each other, and those of other plugins that do it harm."""

from __future__ import annotations

import argparse

import pytest

from pytest_nsight.model.errors import UsageError

_EXCLUSIVE = (
    ("against", ("save", "replay", "pool"), "compares two trees that it measures itself"),
    ("pool", ("save", "replay"), "stores runs for calibration"),
    ("pool", ("shard",), "stores runs of all cases"),
    ("drill", ("replay", "pool"), "profiles what it has measured"),
)
"""Option, the options that it excludes, and why."""


def refuse_combinations(config: pytest.Config) -> None:
    """Refuses options that exclude each other, and those of other plugins that do a session harm.

    Args:
        config: of the session.

    Raises:
        UsageError: there is such an option; says why, and what to leave out.
    """
    for option, excluded, why in _EXCLUSIVE:
        given = [name for name in excluded if config.getoption(f"nsight_{name}")]
        if given and config.getoption(f"nsight_{option}"):
            raise UsageError(f"--nsight-{option} {why}; run it without --nsight-{given[0]}")
    for option in ("setupplan", "setuponly"):
        if getattr(config.option, option, False):
            name = f"--setup-{option.removeprefix('setup')}"
            raise UsageError(f"{name} runs no test, so nothing can be measured; run it without --nsight")
    if getattr(config.option, "codspeed", False):
        raise UsageError("--codspeed measures the tests itself; run it without --nsight")
    if config.getini("nsight_mark") and getattr(config.option, "benchmark_compare_fail", None):
        raise UsageError(
            "--benchmark-compare-fail would pass whatever happens: with --nsight and nsight_mark = benchmark, "
            "pytest-benchmark times nothing; leave it out here (add -o addopts= if an ini file gives it): the "
            "baselines of --nsight-save take its place"
        )
    if getattr(config.option, "update_snapshots", False):
        raise UsageError(
            "--snapshot-update would remove the snapshots of measured tests, which run in other processes than "
            "syrupy looks at; run it without --nsight"
        )
    if _is_recorded_by_testmon(config.option):
        raise UsageError(
            "pytest-testmon cannot see what measured tests depend on, as they run in other processes, and would "
            "leave them out when it changes; add --testmon-nocollect, or choose tests with --nsight-affected"
        )


def _is_recorded_by_testmon(option: argparse.Namespace) -> bool:
    wanted = ("testmon", "testmon_noselect", "testmon_forceselect")
    unwanted = ("testmon_nocollect", "no-testmon")
    has_any = [any(getattr(option, name, False) for name in names) for names in (wanted, unwanted)]
    return has_any == [True, False]
