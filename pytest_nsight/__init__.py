"""Performance gate for GPU kernels: pytest under Nsight Systems, judged against stored baselines.

PYTEST_DONT_REWRITE: a worker imports the package before its pytest begins. Pytest would warn that it comes too late
to rewrite the package's assertions, and a project that turns warnings into errors would end there.
"""

__version__ = "0.1.0"

from pytest_nsight.model.errors import NsightError

__all__ = ["NsightError", "__version__"]
