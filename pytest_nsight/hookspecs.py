"""Hooks that a conftest.py or another plugin may implement; pytest calls them in the controller process.

They are hooks of this plugin, not of pytest. An implementation needs no import: pytest finds it by its name in any
conftest.py, or in a plugin that is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_nsight.model.verdicts import Verdict


@pytest.hookspec
def pytest_nsight_verdict(config: pytest.Config, verdict: Verdict) -> None:
    """Called with each verdict of a session, once it is final and before any test is reported.

    A conftest.py sends verdicts elsewhere with it, to a dashboard for example. A session that saves has verdicts of
    the kind SAVED only.

    It cannot change them: the value is frozen, and whether a test fails is decided by the verdict. An exception
    ends the session with pytest's own report.

    Example:
        .. code-block:: python

            def pytest_nsight_verdict(config, verdict):
                if verdict.kind.fails:
                    print(verdict.subject.label, verdict.sentence)

    Args:
        config: of the user's pytest.
        verdict: of one case, or of one of its parts. Its `comparison` holds the times in ns, the ratio with its
            90 % confidence interval and the p-values; None where nothing was compared.
    """


@pytest.hookspec
def pytest_nsight_environment(config: pytest.Config) -> Mapping[str, str] | None:
    """Called before the first run; what it returns is stored with every run as part of its environment.

    It may be called before the tests are collected, and then again after that; the last answer counts.

    A difference in such a field never makes times incomparable: the report says "changed since the baseline".
    Fields that the plugin itself records cannot be replaced, and names by which it refuses to compare runs, such as
    `driver`, are an error.

    Example:
        .. code-block:: python

            def pytest_nsight_environment(config):
                return {"cutlass": cutlass.__version__}

    Args:
        config: of the user's pytest.

    Returns:
        Names and values, both text; None for nothing. Where several implementations name the same field, the one
        that was registered first counts.
    """
