"""Declares the command line options and ini settings. Apart from settings.py: every pytest start loads this module.

Options default to None, so that an option that was not given never hides an ini setting.
"""

from __future__ import annotations

import pytest

VALUES = {
    "collector": ("auto|nsys|torch", "what records the kernels (default: auto, the best that works here)"),
    "baselines": ("DIR", "folder of the stored baselines (default: baselines)"),
    "runs": (
        "N",
        "fresh processes that measure every case (default: 1; 5 with --nsight-save, 3 with --nsight-against)",
    ),
    "rounds": ("N", "rounds of a case in a run (default: 30 to 100, as the noise asks)"),
    "band": ("PCT", "smallest change that counts, such as 1%% (default) or 0.5%%"),
    "against_build": ("COMMAND", "shell command that builds the worktree of --nsight-against, run there once"),
    "json": ("PATH", "write the result as pytest-benchmark's JSON"),
    "markdown": ("PATH", "write the result as Markdown"),
}
_SWITCHES = {
    "strict": "fail on what settles nothing: no baseline, inconclusive, unusable environment, other collector",
    "keep": "keep the scrubbed traces, so that --nsight-replay can judge them again",
}


def add_options(parser: pytest.Parser) -> None:
    """Declares every --nsight option and its ini setting."""
    group = parser.getgroup("nsight", "GPU kernel performance gate (pytest-nsight)")
    group.addoption("--nsight", action="store_true", help="measure the tests marked nsight and judge them")
    group.addoption(
        "--nsight-save", action="store_true", help="add what is measured to the baselines, judge nothing"
    )
    group.addoption("--nsight-replay", metavar="DIR", help="judge the session recorded in DIR again; needs no GPU")
    text = "measure this tree and the git revision REF in alternation and compare those; needs no baseline"
    group.addoption("--nsight-against", metavar="REF", help=text)
    text = "measure the user's cases only, without the canaries, the plugin's own cases that watch the board"
    group.addoption("--nsight-no-canaries", dest="nsight_canaries", action="store_false", default=None, help=text)
    parser.addini("nsight_canaries", "measure the canaries beside the user's cases", type="bool", default=True)
    # What `pytest-nsight calibrate` starts pytest with.
    group.addoption("--nsight-pool", metavar="FILE", help="store all runs in FILE, judge nothing (see calibrate)")
    group.addoption("--nsight-pool-minutes", metavar="M", help="with --nsight-pool: stop before M minutes are over")
    for name, (metavar, text) in VALUES.items():
        group.addoption(f"--nsight-{name.replace('_', '-')}", metavar=metavar, default=None, help=text)
        parser.addini(f"nsight_{name}", text.replace("%%", "%"), default=None)
    for name, text in _SWITCHES.items():
        group.addoption(f"--nsight-{name}", action="store_true", default=None, help=text)
        parser.addini(f"nsight_{name}", text, type="bool", default=False)
