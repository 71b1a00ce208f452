"""A plugin for the controller: it finds two GPUs that are made up. Loaded before the driver is asked."""

from __future__ import annotations

from pytest_nsight.processes import machine

machine.gpus = lambda: (machine.Gpu("Made Up", "GPU-aaa"), machine.Gpu("Made Up", "GPU-bbb"))
