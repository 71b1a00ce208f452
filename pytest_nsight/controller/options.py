"""Declares the command line options and ini settings. Apart from settings.py: every pytest start loads this module.

Options default to None, so that an option that was not given never hides an ini setting.
"""

from __future__ import annotations

import pytest

DEFAULT_BASELINES = "baselines"
"""Folder of the baselines in pytest's root folder, where no option or setting names another."""

VALUES = {
    "collector": (
        "NAME",
        "what records the kernels: auto (default, the best that works), nsys, cupti, torch, or another package's",
    ),
    "baselines": ("DIR", f"folder of the stored baselines (default: {DEFAULT_BASELINES})"),
    "runs": (
        "N",
        "processes that measure every case (default: 1; with --nsight-save 5, with --nsight-against 2 a tree)",
    ),
    "rounds": ("N", "rounds of a case in a run (default: 30 to 100, as the noise asks)"),
    "band": ("PCT", "smallest change that counts, such as 1%% (default) or 0.5%%"),
    "against_build": ("COMMAND", "shell command that builds the worktree of --nsight-against, run there once"),
    "visible_variables": (
        "NAMES",
        "names, such as MY_* or LICENSE, of environment variables that the profiler needs to see and may record",
    ),
    "cpu_threads": (
        "N",
        "threads of an operator where the CPU is what is measured (default: $OMP_NUM_THREADS, else 1)",
    ),
    "shard_by": (
        "HOW",
        "who divides tests among shards: duration (default: this plugin) or selection (pytest-split, -k, paths)",
    ),
    "durations": ("SESSION", "take durations for --nsight-shard from this kept session instead of the baselines"),
    "timeout": ("TIME", "longest that a case may take in one process, such as 90s or 2h (default: 30min)"),
    "json": ("PATH", "write the result as pytest-benchmark's JSON"),
    "markdown": ("PATH", "write the result as Markdown, for a comment or a job's summary"),
    "html": ("PATH", "write the result as one HTML page that needs nothing else"),
}
PATH_OPTIONS = (
    *(f"--nsight-{name}" for name, (metavar, _) in VALUES.items() if metavar in ("DIR", "PATH", "SESSION")),
    *("--nsight-replay", "--nsight-pool"),
)
"""Options whose values are paths; a relative one starts where pytest was started."""

REPORT_OPTION = "--nsight-report"
"""Its value is NAME=PATH."""

_SWITCHES = {
    "strict": "fail on what settles nothing: no baseline, inconclusive, unusable environment, other collector",
    "keep": "keep the scrubbed traces, so that --nsight-replay can judge them again",
    "drill": "after the verdict, read the counters of slower kernels with Nsight Compute and say which moved",
    "gpu_metrics": "sample SM active, tensor active, DRAM read and write, clock of the GPU; needs permission",
    "keep_report": "keep the profiler's own reports for its GUI; they may hold secrets of the environment",
    "user_ranges": "record the tests' own NVTX ranges, too, for pytest-nsight show",
}

SWITCH_OPTIONS = (
    *("--nsight", "--nsight-save", "--nsight-no-canaries", "--nsight-no-identity"),
    *(f"--nsight-{name.replace('_', '-')}" for name in _SWITCHES),
)
"""Options that take no value."""


def add_options(parser: pytest.Parser) -> None:
    """Declares every --nsight option and its ini setting."""
    group = parser.getgroup("nsight", "GPU kernel performance gate (pytest-nsight)")
    group.addoption("--nsight", action="store_true", help="measure the tests marked nsight and judge them")
    group.addoption(
        "--nsight-save", action="store_true", help="add what is measured to the baselines, judge nothing"
    )
    text = "with --nsight-save: why these runs become the baseline; stored with them and shown in their history"
    group.addoption("--nsight-reason", metavar="TEXT", help=text)
    group.addoption("--nsight-replay", metavar="DIR", help="judge the session recorded in DIR again; needs no GPU")
    text = "measure this tree and the git revision REF in alternation and compare those; needs no baseline"
    group.addoption("--nsight-against", metavar="REF", help=text)
    text = "measure only the cases that are affected by what has changed since the git revision REF"
    group.addoption("--nsight-affected", metavar="REF", help=text)
    text = "file whose change affects all cases: a glob relative to the root folder, in which * also matches /"
    group.addoption("--nsight-affected-by", metavar="GLOB", action="append", default=None, help=text)
    parser.addini("nsight_affected_by", f"{text}; several are separated by spaces", type="args", default=[])
    text = "measure the K-th of N shards and judge nothing; pytest-nsight report joins all shards and judges them"
    group.addoption("--nsight-shard", metavar="K/N", help=text)
    text = "measure the user's cases only, without the canaries, the plugin's own cases that watch the board"
    group.addoption("--nsight-no-canaries", dest="nsight_canaries", action="store_false", default=None, help=text)
    parser.addini("nsight_canaries", "measure the canaries beside the user's cases", type="bool", default=True)
    text = "time every case, also one whose machine code, launches and arguments are those of its baseline"
    group.addoption("--nsight-no-identity", dest="nsight_identity", action="store_false", default=None, help=text)
    text = "identify the launches of every case first, and do not time what is identical with its baseline"
    parser.addini("nsight_identity", text, type="bool", default=True)
    text = "benchmark: treat every test that uses pytest-benchmark's fixture as if it had the mark nsight"
    parser.addini("nsight_mark", text, default="")
    # What `pytest-nsight calibrate` starts pytest with.
    group.addoption("--nsight-pool", metavar="FILE", help="store all runs in FILE, judge nothing (see calibrate)")
    text = "with --nsight-pool: then N processes of a few random cases each"
    group.addoption("--nsight-pool-confirming", metavar="N", help=text)
    group.addoption("--nsight-pool-minutes", metavar="M", help="with --nsight-pool: stop before M minutes are over")
    for name, (metavar, text) in VALUES.items():
        group.addoption(f"--nsight-{name.replace('_', '-')}", metavar=metavar, default=None, help=text)
        parser.addini(f"nsight_{name}", text.replace("%%", "%"), default=None)
    text = "write the result in another form, such as otava=out.csv; NAME is a report of this or another package"
    group.addoption(REPORT_OPTION, metavar="NAME=PATH", action="append", default=None, help=text)
    parser.addini("nsight_report", f"{text}; one in each line", type="linelist", default=[])
    for name, text in _SWITCHES.items():
        group.addoption(f"--nsight-{name.replace('_', '-')}", action="store_true", default=None, help=text)
        parser.addini(f"nsight_{name}", text, type="bool", default=False)


def given_options(config: pytest.Config) -> tuple[str, ...]:
    """The options of this plugin that the command line names, apart from --nsight itself."""
    given = []
    for name, value in sorted(vars(config.option).items()):
        if name in ("nsight_canaries", "nsight_identity") and value is False:
            given.append(f"--{name.replace('nsight_', 'nsight-no-')}")
        elif name.startswith("nsight_") and value not in (None, False):
            given.append(f"--{name.replace('_', '-')}")
    return tuple(given)
