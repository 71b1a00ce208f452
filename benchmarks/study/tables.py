"""Reads the rows of a recorded study, and writes Markdown tables of them. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

OUT_OF_MEMORY = "out of memory"
CATEGORIES = ("GEMM", "elementwise", "softmax", "normalisation", "reduction", "memory", "optimizer", "other")
_LONGEST_NAME = 80


def each_named_picture(study: Json, kind: str) -> Iterable[tuple[str, Json, str, Json]]:
    """(model's name, model, context, picture) of all that was measured with a profiler and without."""
    for name, model in study["models"].items():
        for context in model["clocks"]["profiled"][kind]:
            if context in model["clocks"]["plain"][kind]:
                yield name, model, context, find_picture(model, context, kind)


def each_picture(study: Json, kind: str) -> Iterable[tuple[Json, str, Json]]:
    """The same without the name."""
    return ((model, context, picture) for _, model, context, picture in each_named_picture(study, kind))


def write_grid(study: Json, kind: str, cell: Callable[[Json, str], str]) -> str:
    """Models down, contexts across."""
    contexts = list(dict.fromkeys(context for _, _, context, _ in each_named_picture(study, "infer")))
    known = {(name, context) for name, _, context, _ in each_named_picture(study, kind)}
    rows = [
        [
            name,
            *(cell(model, context) if (name, context) in known else OUT_OF_MEMORY for context in contexts),
        ]
        for name, model in study["models"].items()
    ]
    return write_table(["model", *(f"context {context}" for context in contexts)], rows)


def write_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [list(map(str, head)), ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def find_picture(model: Json, context: str, kind: str) -> Json:
    """What was shown of a context's `infer` or `train`."""
    picture: Json = model["pictures"][f"context{context} {kind}"]
    return picture


def outer_range(picture: Json) -> Json:
    """The row of the steps themselves."""
    row: Json = next(row for row in picture["ranges"] if row["depth"] == 1)
    return row


def inner_range(picture: Json, name: str) -> Json:
    """The row of a range within the steps."""
    row: Json = next(row for row in picture["ranges"] if row["path"].split("/")[-1] == name)
    return row


def per_step(row: Json, column: str) -> float:
    """A column of a row by the number of its ranges."""
    return float(row[column] / row["count"])


def steps_of(model: Json, picture: Json) -> int:
    """Steps in a picture, which are those of its outermost range."""
    count: int = outer_range(picture)["count"]
    assert count == model["clocks"]["profiled"]["steps"], "the trace lacks steps that the program ran"
    return count


def step_count(study: Json) -> int:
    """How many steps of each sort there were."""
    steps: int = next(iter(study["models"].values()))["clocks"]["profiled"]["steps"]
    return steps


def clock_ms(model: Json, side: str, kind: str, context: str) -> float:
    """Mean of Python's clock over the steps; `side` is "plain" or "profiled"."""
    return statistics.fmean(model["clocks"][side][kind][context])


def kernel_ms(model: Json, picture: Json) -> float:
    """Kernel time of a step."""
    return float(sum(row["total_ns"] for row in picture["categories"]) / steps_of(model, picture) / 1e6)


def category_shares(picture: Json) -> list[str]:
    """Shares of the kernel time in the order of CATEGORIES."""
    shares = {row["category"]: row["share"] for row in picture["categories"]}
    return [percent(shares[name], signed=False) if name in shares else "-" for name in CATEGORIES]


def percent(ratio: float, *, signed: bool = True) -> str:
    """A ratio in percent."""
    return f"{100 * ratio:+.1f} %" if signed else f"{100 * ratio:.1f} %"


def short_name(kernel: str) -> str:
    """A kernel's name, its end left out where it is long."""
    return kernel if len(kernel) <= _LONGEST_NAME else f"{kernel[:_LONGEST_NAME]}.."
