"""Performance gate for GPU kernels: pytest under Nsight Systems, judged against stored baselines.

PYTEST_DONT_REWRITE: a worker imports the package before its pytest begins. Pytest would warn that it comes too late
to rewrite the package's assertions, and a project that turns warnings into errors would end there.
"""

from importlib.metadata import PackageNotFoundError, version

from pytest_nsight.model.errors import NsightError

try:
    __version__ = version("pytest-nsight")
    """Of the installed package, from the tag that it was built at."""
except PackageNotFoundError:
    # Imported from a checkout that is not installed.
    __version__ = "0.0.0.dev0"

__all__ = ["NsightError", "__version__"]
