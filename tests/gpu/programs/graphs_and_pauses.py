"""CUDA graphs that are captured before a pause of the identity recorder or in one: their identities, as JSON."""

from __future__ import annotations

import json

import torch

from pytest_nsight.recorders.launch_identity.identity_recorder import IdentityRecorder, make_identity_recorder

KERNELS = 3


def identify(recorder: IdentityRecorder, case: str, *, captures_paused: bool) -> None:
    x = torch.zeros(4096, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    recorder.start()
    graph = torch.cuda.CUDAGraph()

    def capture() -> None:
        with torch.cuda.graph(graph):
            for _ in range(KERNELS):
                x.add_(1)

    if not captures_paused:
        capture()
    with recorder.pause():
        if captures_paused:
            capture()
        x.add_(1)
        torch.cuda.synchronize()
    for _ in range(2):
        recorder.push("round", 0)
        graph.replay()
        torch.cuda.synchronize()
        recorder.pop()
    recorder.stop()
    recorder.keep(case, "round")
    recorder.forget()


def main() -> None:
    recorder = make_identity_recorder()
    identify(recorder, "before", captures_paused=False)
    identify(recorder, "within", captures_paused=True)
    found = recorder.identify()
    print(
        json.dumps(
            {case: {"why_none": one.why_none, "launches": len(list(one.expand()))} for case, one in found.items()}
        )
    )


if __name__ == "__main__":
    main()
