"""`--nsight-against`: revisions that cannot be measured. None of it counts as "nothing to compare with"."""

from __future__ import annotations

import shutil

from tests.faults.fault import HEAD, SESSION, SOUND, Fault
from tests.faults.steps import REPOSITORY, git, write

AGAINST = (*SESSION, "--nsight-against=HEAD")
IS_OTHER = "'/against/' in os.path.abspath(__file__)"


def _changed(test: str):
    """The tree of the user, after the commit."""
    return write("test_case.py", HEAD + test)


def _revision(name: str, test: str, *says: str, code: int, now: str = SOUND, **more: object) -> Fault:
    return Fault(
        name=f"a revision {name}",
        test=test,
        prepare=(*REPOSITORY, _changed(now)),
        command=AGAINST,
        code=code,
        says=says,
        needs=("git",),
        **more,
    )


FAULTS = (
    _revision(
        "whose process dies in a test",
        SOUND + "    os._exit(5)\n",
        "ended with exit code 5 before its time",
        code=1,
        never=("not in ",),
    ),
    _revision(
        "whose process is killed",
        SOUND + "    os.kill(os.getpid(), 9)\n",
        "died with SIGKILL",
        code=1,
        never=("not in ",),
    ),
    _revision(
        "whose process dies at import",
        "if IS_WORKER: os._exit(6)\n" + SOUND,
        "exit code 6",
        code=1,
        never=("(nothing)",),
    ),
    _revision(
        "whose test never ends",
        SOUND + "    time.sleep(600)\n",
        "took longer than 15.0 s",
        code=1,
        never=("not in ",),
        options=("--nsight-timeout=15s",),
    ),
    _revision(
        "that cannot be imported",
        "import nowhere\n" + SOUND,
        "cannot be imported in",
        "No module named 'nowhere'",
        code=0,
    ),
    _revision("without the test", "", "not in ", "nothing to compare with", code=0),
    _revision(
        "whose test fails", SOUND + "    assert 0, 'old bug'\n", "fails in ", "AssertionError: old bug", code=0
    ),
    Fault(
        name="a revision that git does not know",
        command=(*SESSION, "--nsight-against=nowhere"),
        prepare=REPOSITORY,
        code=4,
        says=("ERROR: --nsight-against nowhere: git knows no such commit; fetch it",),
        needs=("git",),
        is_fast=True,
    ),
    Fault(
        name="a revision that looks like an option",
        command=(*SESSION, "--nsight-against=--upload-pack=touch x"),
        prepare=REPOSITORY,
        code=4,
        says=("git knows no such commit",),
        needs=("git",),
    ),
    Fault(
        name="a comparison outside of a repository",
        command=AGAINST,
        code=4,
        says=("is in no git repository", "compare with stored baselines"),
        needs=("git",),
    ),
    Fault(
        name="a build of the revision that fails",
        command=AGAINST,
        prepare=REPOSITORY,
        options=("--nsight-against-build=echo no compiler; exit 3",),
        code=4,
        says=("nsight_against_build (echo no compiler; exit 3) failed with exit code 3", "no compiler"),
        leaves=("project/.nsight/2*/against-build.log",),
        needs=("git",),
    ),
    Fault(
        name="a machine without git",
        command=AGAINST,
        environ={"PATH": "/nowhere"},
        code=4,
        says=("git is needed and cannot be started",),
        is_fast=True,
    ),
    Fault(
        name="a hook of the repository that fails",
        command=AGAINST,
        prepare=(
            *REPOSITORY,
            write(".git/hooks/post-checkout", "#!/bin/sh\nsleep 600\n"),
            lambda folder: (folder / ".git/hooks/post-checkout").chmod(0o755),
        ),
        code=0,
        says=("2 passed",),
        needs=("git",),
    ),
    Fault(
        name="another worktree of the same folder is remembered by git",
        command=AGAINST,
        prepare=(
            *REPOSITORY,
            git("worktree", "add", "--detach", "old"),
            lambda folder: shutil.rmtree(folder / "old"),
        ),
        code=0,
        says=("2 passed",),
        needs=("git",),
    ),
)
