"""What a foreign program is: a name, the packages that it needs, and a function that prepares a round."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import torch

Body = Callable[[], object]
Build = Callable[[str, ExitStack], Body]
"""From the device, and a stack for what must be undone after the test, to the body of a round."""

SEED = 11


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        name: id of its case; baselines know it by that.
        project: whose code runs.
        packages: modules that must be importable.
        build: prepares it.
        metric: the duration that is gated.
        needs_gpu: whether no CPU can run it.
        varies: whether its launches differ from round to round by nature.
    """

    name: str
    project: str
    packages: tuple[str, ...]
    build: Build
    metric: str = "kernel"
    needs_gpu: bool = False
    varies: bool = False

    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [name for name in self.packages if importlib.util.find_spec(name) is None]


PROGRAMS: dict[str, Program] = {}


def program(
    project: str, *packages: str, metric: str = "kernel", needs_gpu: bool = False, varies: bool = False
) -> Callable[[Build], Build]:
    """Registers a function as a program; its name becomes the program's."""

    def register(build: Build) -> Build:
        name = build.__name__.replace("_", "-")
        assert name not in PROGRAMS, f"two programs are called {name}"
        PROGRAMS[name] = Program(name, project, packages, build, metric, needs_gpu, varies)
        return build

    return register


def normal(device: str, *shape: int, dtype: torch.dtype = torch.bfloat16, grad: bool = False) -> torch.Tensor:
    """Random numbers that are the same in every run."""
    generator = torch.Generator(device).manual_seed(SEED)
    made = torch.randn(*shape, generator=generator, device=device, dtype=torch.float32)
    return made.to(dtype).requires_grad_(grad)


def integers(device: str, below: int, *shape: int) -> torch.Tensor:
    """Random numbers from 0 that are the same in every run."""
    generator = torch.Generator(device).manual_seed(SEED)
    return torch.randint(below, shape, generator=generator, device=device)


def sized(device: str, on_gpu: int, on_cpu: int) -> int:
    """A size for the device; a CPU only shows that a program runs."""
    return on_gpu if device == "cuda" else on_cpu


def train(model: torch.nn.Module, forward: Callable[[], torch.Tensor]) -> Body:
    """A step without an optimizer, so that every round does the same: forward, loss, backward."""

    def body() -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        loss = forward().float().square().mean()
        loss.backward()
        return loss.detach()

    return body
