"""The identity of what a body launches, from one process without nsys.

    python -m benchmarks.cupti.identify

Prints the identity of every case (two processes must print the same), then whether each mutation is seen.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.cupti.cases import CASES, Body
from benchmarks.cupti.mutations import MUTATIONS
from pytest_nsight.judge.code_changes import describe_change
from pytest_nsight.model.identity import Identity
from pytest_nsight.recorders.launch_identity.identity_recorder import ROUNDS, make_identity_recorder

_WARMUP = 3
_ROUND = "round"


class Identifier:
    """Identifies bodies, one after the other, as an identity pass does."""

    def __init__(self) -> None:
        self._recorder = make_identity_recorder()

    def identify(self, build: Callable[[], Body]) -> Identity:
        """Builds a body, runs it, and says what a round of it launches."""
        self._recorder.start()
        body = build()
        for _ in range(_WARMUP):
            body()
            torch.cuda.synchronize()
        for _ in range(ROUNDS):
            self._recorder.push(_ROUND, 0)
            body()
            torch.cuda.synchronize()
            self._recorder.pop()
        self._recorder.stop()
        self._recorder.keep(_ROUND, _ROUND)
        self._recorder.forget()
        found = self._recorder.identify()[_ROUND]
        del body
        torch.cuda.empty_cache()
        return found


def report_cases(identifier: Identifier) -> None:
    """Prints the identity of every case."""
    for case in CASES:
        began_s = time.perf_counter()
        found = identifier.identify(partial(case.build, "cuda"))
        line = {
            "finding": "identity",
            "case": case.name,
            "digest": found.digest,
            "launches": sum(times for _, times in found.order),
            "why_none": found.why_none,
            "seconds": round(time.perf_counter() - began_s, 3),
        }
        print(json.dumps(line), flush=True)


def report_mutations(identifier: Identifier) -> None:
    """Prints for every mutation whether it is seen, and whether that is right."""
    wrong = 0
    for mutation in MUTATIONS:
        line: dict[str, Any]
        try:
            before = identifier.identify(mutation.before)
            after = identifier.identify(mutation.after)
        except Exception as error:  # One that this machine cannot run must not hide the others.
            line = {
                "finding": "mutation",
                "name": mutation.name,
                "failed": f"{type(error).__name__}: {error}"[:300],
            }
            print(json.dumps(line), flush=True)
            wrong += 1
            continue
        why_none = before.why_none or after.why_none
        # What has no identity any more is timed: its change is seen.
        is_seen = bool(before.digest) and before.digest != after.digest
        is_right = is_seen == mutation.changes_work and not (why_none and not is_seen)
        wrong += not is_right
        seen = describe_change(before, after)
        line = {"finding": "mutation", "name": mutation.name, "right": is_right, "seen": seen, "why_none": why_none}
        if not is_right:
            line["launches"] = [str(one) for one in (*before.expand(), *after.expand())]
        print(json.dumps(line), flush=True)
    print(json.dumps({"finding": "mutations", "tried": len(MUTATIONS), "wrong": wrong}), flush=True)


def main() -> int:
    if not torch.cuda.is_available():
        print("identify: torch sees no CUDA device; run this on a machine with one", file=sys.stderr)
        return 1
    began_s = time.perf_counter()
    identifier = Identifier()
    report_cases(identifier)
    report_mutations(identifier)
    line = {"finding": "identification", "seconds": round(time.perf_counter() - began_s, 2)}
    print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
