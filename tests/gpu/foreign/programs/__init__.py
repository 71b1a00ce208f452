"""All foreign programs."""

from tests.gpu.foreign.programs import fused_kernels, models, other_frameworks, torch_features
from tests.gpu.foreign.programs.registry import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program", "fused_kernels", "models", "other_frameworks", "torch_features"]
