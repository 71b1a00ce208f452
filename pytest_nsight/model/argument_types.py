"""What arguments of the command line may be: each function that reads a text is a ``type=`` of argparse.

Each raises argparse.ArgumentTypeError with the text and what is allowed, which argparse prints behind the option.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable

from pytest_nsight.model.errors import UsageError


def is_end_of_options(value: object) -> bool:
    """Whether a text option was given the value `--`, for which argparse gives a list before Python 3.13.

    Args:
        value: of an option that takes one value, as argparse gives it.
    """
    return value in ([], "--")


def explain_end_of_options(option: str) -> str:
    """A sentence on an option that was given the value `--`.

    Args:
        option: as it was typed.
    """
    return f"{option} is --, which stands for the end of the options and is no value; give another, or leave it out"


def refuse_end_of_options(arguments: Iterable[str]) -> None:
    """Refuses `--` as the value of an option, which argparse would drop, without a look at the option's type.

    Args:
        arguments: of a command line.

    Raises:
        UsageError: an option has it.
    """
    for argument in arguments:
        if argument.startswith("-") and (argument.endswith("=--") or re.fullmatch(r"-\w--", argument)):
            raise UsageError(explain_end_of_options(argument.removesuffix("--").removesuffix("=")))


def positive_number(text: str) -> int:
    """A whole number above 0.

    Args:
        text: what the user typed, such as "15".

    Returns:
        The number.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def whole_number(text: str) -> int:
    """A whole number of at least 0.

    Args:
        text: what the user typed, such as "0".

    Returns:
        The number.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def positive_minutes(text: str) -> float:
    """A number of minutes above 0.

    Args:
        text: what the user typed, such as "2.5".

    Returns:
        The number.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def percentage(text: str) -> float:
    """A percentage of at least 0 as a ratio: 0.05 for "5" and for "5%".

    Args:
        text: what the user typed.

    Raises:
        argparse.ArgumentTypeError: the text is something else.
    """
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage of at least 0, such as 5")
    return value / 100
