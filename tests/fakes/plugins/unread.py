"""A plugin for the controller: it cannot read the records of the processes that UNREAD numbers, from 0."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from pytest_nsight.collectors.torch.torch_collector import TorchCollector
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.trace import Trace

_numbers = itertools.count()
_collect = TorchCollector.collect


def _collect_or_fail(self: TorchCollector, folder: Path) -> Trace:
    if str(next(_numbers)) in os.environ["UNREAD"].split():
        raise CollectorError("The importer failed.")
    return _collect(self, folder)


TorchCollector.collect = _collect_or_fail  # type: ignore[method-assign]
