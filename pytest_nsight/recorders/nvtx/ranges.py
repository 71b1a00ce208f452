"""The NVTX ranges that mark in Nsight Systems' record where a round begins and ends; runs in the worker process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from typing import Any, Protocol

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.trace import OWN_DOMAIN
from pytest_nsight.recorders.nvtx.nvtx_injection import InjectedDomain, find_entry

NAME_LIMIT_BYTES = 4096
"""Longest range name in UTF-8; under Nsight Systems 2022.4 one of 64 KiB comes back as another text."""

_PAYLOAD_LIMIT = 2**63


class RangeEmitter(Protocol):
    """Opens and closes ranges on the calling thread.

    Attributes:
        mechanism: how the ranges reach the tool, for people; why not, where `is_live` is false.
        is_live: whether a tool receives the ranges.
    """

    @property
    def mechanism(self) -> str:
        """How the ranges reach the tool."""

    @property
    def is_live(self) -> bool:
        """Whether a tool receives the ranges."""

    def start(self) -> None:
        """Called before a case; Nsight Systems records the whole process, so nothing happens."""

    def stop(self) -> None:
        """Called after a case; nothing happens, either."""

    def push(self, name: str, payload: int) -> None:
        """Opens a range inside the one opened last.

        Args:
            name: for people; short.
            payload: the range's identity, a signed 64-bit number; exported as `int64Value`.

        Raises:
            UsageError: the name cannot be recorded as it is, or the payload is too large.
        """

    def pop(self) -> None:
        """Closes the range opened last."""


def encode_name(name: str) -> bytes:
    """The bytes of a range name as a tool gets them.

    Raises:
        UsageError: the name is too long, has a NUL or is not text; the tool would record another name.
    """
    try:
        text = name.encode()
    except UnicodeEncodeError:
        raise UsageError(f"The range name {name!r} cannot be written in UTF-8; choose a plain name.") from None
    if len(text) > NAME_LIMIT_BYTES:
        raise UsageError(
            f"The range name {name[:40]!r}... is {len(text)} bytes long, and at most {NAME_LIMIT_BYTES} can "
            "be recorded; choose a shorter name."
        )
    if b"\0" in text:
        raise UsageError(f"The range name {name!r} holds a NUL, which ends a name in a trace; choose a plain name.")
    return text


def _checked(payload: int) -> int:
    if not -_PAYLOAD_LIMIT <= payload < _PAYLOAD_LIMIT:
        raise UsageError(f"The payload {payload} of a range does not fit in 64 bits; choose a smaller number.")
    return int(payload)


class _Emitter:
    is_live = True

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


class _PackageEmitter(_Emitter):
    """Through a `Domain` object of the nvtx package."""

    def __init__(self, domain: Any, version: str) -> None:
        self.mechanism = f"nvtx package {version}"
        self._domain = domain

    def push(self, name: str, payload: int) -> None:
        encode_name(name)
        self._domain.push_range(message=name, payload=_checked(payload))

    def pop(self) -> None:
        self._domain.pop_range()


class _InjectionEmitter(_Emitter):
    """Through the tool's own library."""

    def __init__(self, domain: InjectedDomain) -> None:
        self.mechanism = "NVTX injection interface"
        self._domain = domain

    def push(self, name: str, payload: int) -> None:
        self._domain.push(encode_name(name), _checked(payload))

    def pop(self) -> None:
        self._domain.pop()


class _SilentEmitter(_Emitter):
    """No tool listens; names and payloads are checked all the same, so that they fail early."""

    is_live = False

    def __init__(self, reason: str) -> None:
        self.mechanism = reason

    def push(self, name: str, payload: int) -> None:
        encode_name(name)
        _checked(payload)

    def pop(self) -> None:
        pass


def _from_package() -> RangeEmitter | None:
    """An emitter over the nvtx package; None where the package is missing, too old, or emits nothing."""
    try:
        import nvtx  # noqa: PLC0415 - costs 15 ms, and only a process under a tool needs it
    except ImportError:
        return None
    domain = nvtx.get_domain(OWN_DOMAIN)
    # Without this method the package predates `Domain.push_range`; `DummyDomain` has it, but does nothing.
    if type(domain).__name__ == "DummyDomain" or not hasattr(domain, "push_range"):
        return None
    return _PackageEmitter(domain, metadata.version("nvtx"))


def choose(environ: Mapping[str, str]) -> RangeEmitter:
    """Attaches to the tool that the environment announces. Call `emitter` instead, which does so once.

    Args:
        environ: environment variables of this process.

    Returns:
        An emitter through the nvtx package where that works, else through the tool's library, else one
        that is not live and says why.
    """
    library = environ.get("NVTX_INJECTION64_PATH")
    if not library:
        return _SilentEmitter("no tool attached: NVTX_INJECTION64_PATH is not set")
    try:
        # The package calls a domain enabled, too, where it failed to attach: so look at the tool first.
        find_entry(library)
        return _from_package() or _InjectionEmitter(InjectedDomain(library, OWN_DOMAIN))
    except OSError as error:
        return _SilentEmitter(f"tool attached, but {error}")


@lru_cache(maxsize=1)
def emitter() -> RangeEmitter:
    """The emitter of this process, in the domain `pytest_nsight`; always the same object."""
    return choose(os.environ)


@contextmanager
def within(target: RangeEmitter, name: str, payload: int) -> Iterator[None]:
    """A range around a block; closed when the block raises, too."""
    target.push(name, payload)
    try:
        yield
    finally:
        target.pop()
