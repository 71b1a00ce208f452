"""The commits that a bisection searches: from one commit to another along first parents, as git describes them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.controller.trees.git_revision import Revision, find_commit
from pytest_nsight.model.bisection import Commit
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import count
from pytest_nsight.processes.git_calls import ask_git

COMMAND = "bisect"

_FORMAT = "%H%x00%aI%x00%P%x00%s"
_FIELDS = 4


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A line of commits.

    Attributes:
        repository: top folder of the user's working tree.
        good: where it begins.
        commits: all after it, the oldest first; at least one.
    """

    repository: Path
    good: Commit
    commits: tuple[Commit, ...]

    @property
    def bad(self) -> Commit:
        """Where it ends."""
        return self.commits[-1]

    def revision(self, commit: Commit) -> Revision:
        """A commit as worktrees are made of it."""
        return Revision(commit.short, commit.hash, self.repository, COMMAND)

    def branch_of(self, merge: Commit, last_good: Commit) -> tuple[str, str] | None:
        """Where the commits begin and end that a merge brought in.

        Args:
            merge: the first bad commit.
            last_good: the commit before it. If it is on the merged branch, what follows it there is searched first.

        Returns:
            A good commit, or the common ancestor of both sides, and the last commit of the side to search; None if
            the commit is no merge of two, or brought nothing in.
        """
        if len(merge.parents) != 2:
            return None
        first, second = merge.parents
        if ask_git(self.repository, "merge-base", "--is-ancestor", last_good.hash, first).code == 0:
            tip = second
        elif last_good.hash != second:
            return last_good.hash, second
        else:
            tip = first
        found = ask_git(self.repository, "merge-base", first, second)
        fork = found.text.strip() if found.code == 0 else ""
        return (fork, tip) if fork and fork != tip else None


def list_commits(root: Path, good: str, bad: str) -> CommitLine:
    """The commits from one to another, along first parents: a merged branch counts as one commit, the merge.

    A commit that does not contain GOOD is left out: it lacks what GOOD has, however good it is.

    Args:
        root: a folder of the repository.
        good: anything that git takes for a commit.
        bad: likewise; GOOD must be one of its ancestors.

    Raises:
        UsageError: no git, no repository, no such commit, or GOOD is no ancestor of BAD.
    """
    otherwise = "there is nothing to search"
    first, last = (find_commit(root, name, COMMAND, otherwise) for name in (good, bad))
    if first.commit == last.commit:
        raise UsageError(f"bisect: {good} and {bad} are the same commit, {first.short}; give two")
    top = first.repository
    if ask_git(top, "merge-base", "--is-ancestor", first.commit, last.commit).code:
        if ask_git(top, "merge-base", "--is-ancestor", last.commit, first.commit).code == 0:
            raise UsageError(f"bisect: {bad} is older than {good}; give GOOD, the older one, first")
        if ask_git(top, "rev-parse", "--is-shallow-repository").text.strip() == "true":
            raise UsageError(
                f"bisect: this clone is shallow, and nothing in it leads from {good} ({first.short}) to {bad} "
                f"({last.short}); fetch the rest: git fetch --unshallow --tags"
            )
        ask = shlex.join(("git", "merge-base", good, bad))
        raise UsageError(
            f"bisect: {good} ({first.short}) is no ancestor of {bad} ({last.short}), so no line of commits leads "
            f"from one to the other; give their common ancestor as GOOD: {ask}"
        )
    span = f"{first.commit}..{last.commit}"
    listed = ask_git(top, "log", "--first-parent", "--reverse", "-z", f"--format={_FORMAT}", span)
    shown = ask_git(top, "log", "--max-count=1", "-z", f"--format={_FORMAT}", first.commit)
    descended = ask_git(top, "rev-list", "--ancestry-path", span)
    for answer in (listed, shown, descended):
        if answer.code:
            raise UsageError(f"bisect: git cannot list the commits {good}..{bad}: {answer.complaint}; fetch them")
    (start,) = _parse(shown.text)
    with_good = set(descended.text.split())
    return CommitLine(top, start, tuple(commit for commit in _parse(listed.text) if commit.hash in with_good))


def describe_search(line: CommitLine) -> str:
    """What is about to be searched."""
    return f"{count(len(line.commits), 'commit')} from {line.good.short} to {line.bad.short}, along first parents"


def write_search(good: str, bad: str, case: str) -> str:
    """The command that searches the commits between two others, on a line of its own.

    Args:
        good: hash of the older one.
        bad: hash of the newer one.
        case: node id of what is measured.
    """
    return f"  {shlex.join(('pytest-nsight', COMMAND, good, bad, '-k', case))}"


def _parse(text: str) -> list[Commit]:
    fields = text.removesuffix("\0").split("\0")
    rows = [fields[at : at + _FIELDS] for at in range(0, len(fields), _FIELDS)]
    return [Commit(hash_, date, subject, tuple(parents.split())) for hash_, date, parents, subject in rows]
