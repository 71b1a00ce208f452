"""Values of options and ini settings, read one by one, and what is wrong with them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.controller.options import DEFAULT_BASELINES, VALUES
from pytest_nsight.model.argument_types import explain_end_of_options, is_end_of_options
from pytest_nsight.model.errors import UsageError

_PREFIX = "nsight_"
_LONGEST_REASON = 500
_SHOWN = 40
_MOST = 100_000
"""Largest number of runs or rounds: no session can measure more, and this many can still be planned."""


class GivenValues:
    """What the command line gives, else the ini file.

    Args:
        config: pytest's.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(self, name: str) -> Any:
        """The value of a setting, None where neither gives one.

        Raises:
            UsageError: the ini file's is no such value, is empty, or is in quotes.
        """
        if self.is_option(name):
            return self._config.getoption(f"nsight_{name}")
        try:
            value = self._config.getini(f"nsight_{name}")
        except (TypeError, ValueError, pytest.UsageError) as error:  # by pytest's version
            raise UsageError(f"nsight_{name} in the ini file: {error}; {_remedy(name, str(error))}") from None
        if isinstance(value, str) and not value.strip():
            raise UsageError(_explain_empty(self.source(name)))
        # A command may begin and end with words in quotes of their own.
        if isinstance(value, str) and re.fullmatch(r"\"[^\"]*\"|'[^']*'", value):
            raise UsageError(
                f"{self.source(name)} is {value}, with quotes, which only a .toml file needs; "
                f"write: nsight_{name} = {value[1:-1]}"
            )
        return value

    def flag(self, name: str) -> bool:
        """Whether a switch is on.

        Raises:
            UsageError: the ini file's value is neither true nor false.
        """
        return bool(self(name))

    def text(self, name: str) -> str:
        """A text, "" where neither gives one.

        Raises:
            UsageError: the ini file's value is empty, or in quotes.
        """
        return self(name) or ""

    def number(self, name: str) -> int | None:
        """A number of at least 1, None where neither gives one.

        Raises:
            UsageError: it is no such number, or too large.
        """
        value = self(name)
        return None if value is None else positive(self.source(name), value)

    def is_option(self, name: str) -> bool:
        """Whether the command line gives it."""
        return self._config.getoption(f"nsight_{name}") is not None

    def start(self, name: str) -> Path:
        """Where a relative path starts: where pytest was started, or, given in the ini file, at the root."""
        return self._config.invocation_params.dir if self.is_option(name) else self._config.rootpath

    def baselines(self) -> Path:
        """The folder of the baselines.

        Raises:
            UsageError: the ini file's value is empty, or in quotes.
        """
        return self.start("baselines") / (self("baselines") or DEFAULT_BASELINES)

    def source(self, name: str) -> str:
        """The option or the setting that gives it, for an error."""
        if self.is_option(name) or self._config.inipath is None:
            return f"--nsight-{name.replace('_', '-')}"
        return f"nsight_{name} in {self._config.inipath.name}"


def refuse_empty(config: pytest.Config) -> None:
    """Refuses empty options: an unset shell variable must not turn a replay into a measurement.

    Raises:
        UsageError: an option was given without a value.
    """
    pool = ("pool", "pool_confirming", "pool_minutes")
    for name in ("reason", "replay", "against", *pool, "affected", "shard", *VALUES, "affected_by", "report"):
        given, source = config.getoption(f"nsight_{name}"), f"--nsight-{name.replace('_', '-')}"
        values = given if name in ("affected_by", "report") and given is not None else [given]
        for value in values:
            if is_end_of_options(value):
                raise UsageError(explain_end_of_options(source))
            if value is not None and not value.strip():
                raise UsageError(_explain_empty(source))


def refuse_unknown(config: pytest.Config) -> None:
    """Refuses settings that nobody reads: with a misspelt nsight_strict the gate would not be strict.

    Raises:
        UsageError: the ini file, or -o, gives one.
    """
    overrides = {text.partition("=")[0].strip() for text in config.getoption("override_ini") or ()}
    # pytest only warns of these. Some of its versions do not warn of what -o gives.
    unread = {name for name in overrides if not _is_setting(config, name)}
    unread.update(config._get_unknown_ini_keys())  # noqa: SLF001 - its only name
    for name in sorted(unread):
        if re.match(r"(--)?nsight([-_]|$)", name):
            raise UsageError(_explain_unknown(config, name, "-o" if name in overrides else _ini_name(config)))


def _explain_unknown(config: pytest.Config, name: str, source: str) -> str:
    wanted = name.removeprefix("--").replace("-", "_")
    options = [option for option in vars(config.option) if re.match(r"nsight(_|$)", option)]
    if wanted in options and not _is_setting(config, wanted):
        given = f"--{wanted.replace('_', '-')}"
        return f"{name} in {source} is no setting; give {given} on the command line, or in addopts"
    settings = [option for option in (*options, "nsight_mark") if _is_setting(config, option)]
    # All begin with the prefix, so it makes none of them near.
    nearest = get_close_matches(wanted[len(_PREFIX) :], [one[len(_PREFIX) :] for one in settings], n=1)
    remedy = f"write {_PREFIX}{nearest[0]}, if that is meant" if nearest else "pytest --help lists all settings"
    return f"{name} in {source} is no setting of pytest-nsight or of another plugin, so it has no effect; {remedy}"


def _is_setting(config: pytest.Config, name: str) -> bool:
    """Whether some plugin has declared it for the ini file."""
    try:
        config.getini(name)
    except (TypeError, ValueError, pytest.UsageError) as error:
        # A setting with a wrong value is one.
        return not str(error).startswith("unknown configuration value")
    return True


def _ini_name(config: pytest.Config) -> str:
    return config.inipath.name if config.inipath is not None else "the ini file"


def _explain_empty(source: str) -> str:
    return f"{source} is empty; give it a value, or leave it out"


def _remedy(name: str, refusal: str) -> str:
    """What to write where pytest refuses a value; its table [tool.pytest] in a .toml file converts nothing."""
    if "expects a string" in refusal:
        return f'write it in quotes: nsight_{name} = "{refusal.rpartition(": ")[2]}"'
    if "expects a list" in refusal:
        return f'write a list of texts in quotes: nsight_{name} = ["..."]'
    return "give true or false"


def positive(source: str, value: object) -> int:
    """A number of runs, rounds or threads.

    Args:
        source: the option or setting, for the error.
        value: a number, or its text.

    Raises:
        UsageError: it is none, or too large.
    """
    text = str(value)
    # isdecimal() alone also accepts the digits of other scripts.
    if not (text.isascii() and text.isdecimal()) or not text.strip("0"):
        raise UsageError(f"{source} is {text[:_SHOWN]!a}; give a whole number of at least 1")
    if len(text) > len(str(_MOST)) or int(text) > _MOST:
        raise UsageError(f"{source} is {text[:_SHOWN]}; give a whole number of at most {_MOST}")
    return int(text)


def parse_minutes(value: str | None, pool: str | None) -> float | None:
    """--nsight-pool-minutes, None where it was not given.

    Raises:
        UsageError: it is no number above 0, or there is no pool.
    """
    if value is None:
        return None
    if pool is None:
        raise UsageError("--nsight-pool-minutes fills a pool; give it with --nsight-pool FILE")
    if not re.fullmatch(r"\d+(\.\d+)?", value) or not float(value) > 0:
        raise UsageError(f"--nsight-pool-minutes is {value!r}; give a number above 0")
    return float(value)


def parse_confirming(value: str | None, pool: str | None) -> int:
    """--nsight-pool-confirming, 0 where it was not given.

    Raises:
        UsageError: it is no number of at least 1, or there is no pool.
    """
    if value is None:
        return 0
    if pool is None:
        raise UsageError("--nsight-pool-confirming fills a pool; give it with --nsight-pool FILE")
    return positive("--nsight-pool-confirming", value)


def parse_reason(text: str | None, *, save: bool) -> str:
    """--nsight-reason in one line, "" where it was not given.

    Raises:
        UsageError: nothing is saved, or it is too long or not printable.
    """
    if text is None:
        return ""
    if not save:
        raise UsageError("--nsight-reason says why runs are saved; give it with --nsight-save")
    reason = " ".join(text.split())
    if not reason.isprintable():
        raise UsageError(f"--nsight-reason is {text!a}; give text without control characters, in UTF-8")
    if len(reason) > _LONGEST_REASON:
        raise UsageError(f"--nsight-reason has {len(reason)} characters; give at most {_LONGEST_REASON}")
    return reason
