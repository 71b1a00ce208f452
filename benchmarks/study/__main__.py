"""Records the study of the models: `python -m benchmarks.study FOLDER` on a machine with a GPU and nsys.

Each model runs twice, in a process of its own: by itself, for Python's clock without a profiler, and under nsys.
FOLDER/study.json holds what `pytest-nsight show` says of the reports; it is written anew after each model, so that
a run that ends early leaves the models before. Then: `python -m benchmarks.study.document FOLDER/study.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from benchmarks.study.program import AMOUNTS, FUSIONS
from benchmarks.study.transformer import CONTEXTS, SIZES
from pytest_nsight import api
from pytest_nsight.collectors.nsys.find import find
from pytest_nsight.compare.compare_command import compare, write_changes

_KERNELS = 4
"""Rows of the kernel table that the document needs."""

_RANGES = ("forward", "backward", "optimizer")
_PREFIX = "attention_"

Json = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Records what is asked for; returns an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="*", choices=tuple(SIZES), default=tuple(SIZES))
    parser.add_argument("--contexts", nargs="+", type=int, default=CONTEXTS)
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    nsys = find()
    study: Json = {
        "recorded": datetime.now(timezone.utc).date().isoformat(),
        "nsys": ".".join(map(str, nsys.version)),
        "torch": str(torch.__version__),
        "models": {},
        "fusion": {},
    }
    for name in given.models:
        options = ["--contexts", *map(str, given.contexts)]
        clocks = {"plain": _run(name, options), "profiled": _profile(nsys.path, given.folder, name, options)}
        study["models"][name] = {"clocks": clocks, **_summarise_model(given.folder, name, clocks["profiled"])}
        _write(study, given.folder)
    for name in FUSIONS:
        clocks = {"plain": _run(name, []), "profiled": _profile(nsys.path, given.folder, name, [])}
        trace = api.load_trace(given.folder / f"{name}.nsys-rep")
        pictures = {label: _summarise(trace, label) for label in AMOUNTS}
        study["fusion"][name] = {"clocks": clocks, "pictures": pictures}
        _write(study, given.folder)
    before, after = (given.folder / f"{name}.nsys-rep" for name in FUSIONS)
    changes = write_changes(compare(before, after), "markdown", _KERNELS)
    study["changes"] = changes.replace(f"{given.folder}/", "")
    _write(study, given.folder)
    return 0


def _run(model: str, options: Sequence[str], prefix: Sequence[str] = ()) -> Json:
    command = [*prefix, sys.executable, "-m", "benchmarks.study.program", model, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    clocks: Json = json.loads(lines[-1])
    return clocks


def _profile(nsys: Path, folder: Path, model: str, options: Sequence[str]) -> Json:
    report = folder / f"{model}.nsys-rep"
    recording = ["--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true"]
    return _run(model, options, [str(nsys), "profile", *recording, f"--output={report}"])


def _summarise_model(folder: Path, model: str, clocks: Mapping[str, Any]) -> Json:
    trace = api.load_trace(folder / f"{model}.nsys-rep")
    labels = [f"context{context} {kind}" for kind in ("infer", "train") for context in clocks[kind]]
    pictures = {label: _summarise(trace, label) for label in labels}
    return {"parameters": clocks["parameters"], "device": trace.devices[0].name, "pictures": pictures}


def _summarise(trace: api.Trace, name: str) -> Json:
    """The rows of `pytest-nsight show REPORT --range NAME` that the document shows."""
    tables = api.picture(trace, name=name)
    places = tables["ranges"]["path"].str.split("/").str[-1]
    shown = (tables["ranges"]["depth"] == 1) | places.isin(_RANGES) | places.str.startswith(_PREFIX)
    columns = ["name", "category", "calls", "total_ns"]
    rows = {
        "devices": tables["devices"][["name", "wall_ns", "busy_ns", "utilisation"]],
        "bottlenecks": tables["bottlenecks"].head(1),
        "ranges": tables["ranges"][shown],
        "categories": tables["categories"],
        "kernels": tables["kernels"][columns].head(_KERNELS),
    }
    return {table: frame.to_dict("records") for table, frame in rows.items()}


def _write(study: Json, folder: Path) -> None:
    (folder / "study.json").write_text(json.dumps(study, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
