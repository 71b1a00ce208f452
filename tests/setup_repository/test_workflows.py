"""The workflows are pinned, keep tokens from foreign code, cancel no other job, and their steps do as they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.setup_repository.initialise import TEMPLATES, render, set_up
from pytest_nsight.setup_repository.workflows import install_commands, render_workflows
from tests.controller.test_joined_shards import Made
from tests.controller.test_joined_shards import write as write_shard

pytestmark = pytest.mark.slow

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
OURS = ROOT / ".github" / "workflows"
INSTALL = ("make setup",)
RENDERED = render_workflows(
    {path.name: path.read_text() for path in (TEMPLATES / "workflows").iterdir()},
    branch="main",
    paths="perf_tests/",
    install=INSTALL,
)
ALL = {**RENDERED, **{name: (OURS / name).read_text() for name in ("test.yml", "publish.yml")}}
JUDGES = [("gpu-gate.yml", "measure"), ("gpu-shards.yml", "judge"), ("gpu-compare.yml", "compare")]
Job = dict[str, Any]


def jobs(name: str) -> dict[str, Job]:
    found: dict[str, Job] = yaml.safe_load(ALL[name])["jobs"]
    return found


def shell(workflow: str, job: str, step: str) -> str:
    (text,) = [each["run"] for each in jobs(workflow)[job]["steps"] if each.get("name") == step]
    return str(text)


def run(script: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """As GitHub runs a step whose shell is "bash"."""
    path = folder / "step.sh"
    path.write_text(script)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(path)],
        cwd=folder,
        env={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def fake(folder: Path, name: str, script: str) -> Path:
    """A program that writes its arguments into calls.txt, then does what the script says."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/bash\nprintf "%s\\n" "{name} $*" >>"{folder}/calls.txt"\n{script}\n')
    path.chmod(0o755)
    return path


def calls(folder: Path) -> list[str]:
    path = folder / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("name", RENDERED)
def test_our_own_workflows_are_the_ones_that_init_writes(name):
    assert (OURS / name).read_text() == RENDERED[name], f"write {name} again from its template"


@pytest.mark.parametrize("name", ALL)
def test_no_placeholder_is_left_and_actions_are_pinned_by_hash(name):
    assert not re.search(r"@[A-Z]+@", ALL[name])
    used = re.findall(r"uses: *(\S+)(.*)", ALL[name])
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) and "# v" in version for action, version in used)


@pytest.mark.parametrize(
    ("has", "installed"),
    [
        ({}, "'pytest-nsight[gpu]'"),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, "'pytest-nsight[gpu]' --editable ."),
        ({"pyproject.toml": "[build-system]\nrequires = ['poetry-core']\n"}, "'pytest-nsight[gpu]' --editable ."),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 100\n"}, "'pytest-nsight[gpu]'"),
        (
            {"pyproject.toml": "[tool.ruff]\n", "setup.cfg": "[flake8]\n"},
            "'pytest-nsight[gpu]'",
        ),
        (
            {"pyproject.toml": "[tool.ruff]\n", "setup.cfg": "[metadata]\nname = x\n"},
            "'pytest-nsight[gpu]' --editable .",
        ),
        (
            {"setup.py": "", "requirements.txt": ""},
            "'pytest-nsight[gpu]' --editable . --requirement requirements.txt",
        ),
    ],
)
def test_the_project_is_installed_by_the_files_that_it_has(tmp_path, has, installed):
    for name, text in has.items():
        (tmp_path / name).write_text(text)

    assert install_commands(tmp_path)[1] == f".venv/bin/pip install {installed}"


def pretend_origin(folder: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any]) -> None:
    """Makes the installed plugin one that pip took from there."""
    metadata = folder / "pytest_nsight-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-nsight\nVersion: 1.0\n")
    (metadata / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize(
    ("url", "vcs", "installed"),
    [
        ("https://git.example/o/n.git", "git", "'pytest-nsight[gpu] @ git+https://git.example/o/n.git@abc123'"),
        ("https://git.example/o/n.zip", "", "'pytest-nsight[gpu]'"),
        ("file:///home/me/n", "git", "'pytest-nsight[gpu]'"),
        ("https://x/'; touch evil; '", "git", "'pytest-nsight[gpu]'"),
    ],
)
def test_a_copy_that_came_from_git_is_installed_from_there(tmp_path, monkeypatch, url, vcs, installed):
    """Until the package is on the index, it is the only place."""
    origin = {"url": url, **({"vcs_info": {"vcs": vcs, "commit_id": "abc123"}} if vcs else {})}
    pretend_origin(tmp_path, monkeypatch, origin)

    assert install_commands(tmp_path / "project")[1] == f".venv/bin/pip install {installed}"


@pytest.mark.parametrize(
    ("origin", "is_said"),
    [
        ({"url": "file:///home/me/n", "dir_info": {"editable": True}}, True),
        ({"url": "file:///home/me/n", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}, True),
        ({"url": "https://git.example/o/n.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}, False),
    ],
)
def test_a_copy_that_no_runner_can_install_is_said_with_the_line_to_edit(tmp_path, monkeypatch, origin, is_said):
    pretend_origin(tmp_path, monkeypatch, origin)
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--quiet")

    first, second = render(set_up(root)), render(set_up(root))

    assert ("the line `.venv/bin/pip install 'pytest-nsight[gpu]'" in first) == is_said
    assert ("git+<URL of its repository>" in first) == is_said
    line = "    .venv/bin/pip install 'pytest-nsight[gpu]'\n"
    assert (line in (root / ".github/workflows/gpu-gate.yml").read_text()) == is_said
    assert "URL of its repository" not in second, "kept workflows are the user's"


@pytest.mark.parametrize("name", ALL)
def test_no_checkout_leaves_credentials_behind(name):
    for job in jobs(name).values():
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", ALL)
def test_a_job_that_runs_code_of_the_repository_has_no_write_token(name):
    workflow = yaml.safe_load(ALL[name])
    for job in workflow["jobs"].values():
        commands = " ".join(step.get("run", "") for step in job["steps"])
        granted = {**workflow["permissions"], **job.get("permissions", {})}
        if job["runs-on"] != "ubuntu-latest" or re.search(r"pytest -|\.ci/run|make |pip install", commands):
            assert "write" not in granted.values()
            assert "github.token" not in json.dumps(job)
            assert "secrets." not in json.dumps(job)


@pytest.mark.parametrize("name", ALL)
def test_no_pull_request_cancels_the_job_of_another(name):
    group = yaml.safe_load(ALL[name])["concurrency"]["group"]
    assert re.search(r"pull_request\.number|head_sha|run_id", group)


@pytest.mark.parametrize("name", ALL)
def test_no_text_of_a_stranger_becomes_part_of_a_script(name):
    for job in jobs(name).values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "pass it through env"


def test_each_board_can_be_chosen_by_a_label_of_its_runner():
    workflow = yaml.safe_load(ALL["update-baselines.yml"])
    asked = workflow[True]["workflow_dispatch"]["inputs"]["runner"]  # YAML 1.1 takes "on" for true.

    assert asked["default"] == "gpu"
    assert workflow["jobs"]["measure"]["runs-on"] == ["self-hosted", "${{ inputs.runner || 'gpu' }}"]


def test_a_fork_waits_for_a_reviewer():
    for name, job in (("gpu-gate.yml", "measure"), ("gpu-compare.yml", "compare"), ("gpu-shards.yml", "measure")):
        assert "gpu-fork" in jobs(name)[job]["environment"]
    assert "head.repo.full_name == github.repository" in jobs("update-baselines.yml")["measure"]["if"]


def test_zizmor_finds_nothing(tmp_path):
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for name, text in ALL.items():
        (folder / name).write_text(text)
    command = [tool("zizmor"), "--offline", "--no-progress", str(folder)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def tool(name: str) -> str:
    found = shutil.which(name, path=Path(sys.executable).parent)
    assert found, f"{name} is not installed: make setup"
    return found


def test_the_workflows_follow_the_schema_of_github(tmp_path):
    """Unknown keys, wrong types and missing fields; the schema comes with the tool."""
    for name, text in ALL.items():
        (tmp_path / name).write_text(text)
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]

    done = subprocess.run([*command, *map(str, tmp_path.iterdir())], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_actionlint_finds_nothing(tmp_path):
    """Keys, expressions, contexts, needs and permissions are such that GitHub accepts them."""
    paths = [tmp_path / name for name in ALL]
    for path in paths:
        path.write_text(ALL[path.name])
    labels = tmp_path / "actionlint.yaml"
    labels.write_text("self-hosted-runner: {labels: [gpu]}\n")
    command = [tool("actionlint"), "-no-color", "-config-file", str(labels), "-shellcheck", tool("shellcheck")]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout

    broken = tmp_path / "broken.yml"
    broken.write_text(ALL["publish.yml"].replace("needs: build", "needs: biuld"))
    done = subprocess.run([tool("actionlint"), str(broken)], capture_output=True, text=True, check=False)
    assert "biuld" in done.stdout, "it reads what it is given"


@pytest.mark.parametrize("name", ALL)
def test_shellcheck_finds_nothing_in_the_steps(name, tmp_path):
    for place, step in enumerate(step for job in jobs(name).values() for step in job["steps"] if "run" in step):
        script = tmp_path / f"{place}.sh"
        # As GitHub starts a step whose shell is "bash".
        script.write_text(f"set -eo pipefail\n{step['run']}")
        done = subprocess.run(
            [tool("shellcheck"), "--shell=bash", str(script)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_only_the_job_that_publishes_has_an_identity_and_it_runs_no_code():
    publish = yaml.safe_load(ALL["publish.yml"])
    granted = {name: job.get("permissions", publish["permissions"]) for name, job in publish["jobs"].items()}

    assert granted == {"build": {"contents": "read"}, "publish": {"id-token": "write"}}
    assert publish["jobs"]["publish"]["environment"] == "pypi"
    assert [step for step in publish["jobs"]["publish"]["steps"] if "run" in step] == []
    assert not [name for name in ALL if name != "publish.yml" and "id-token" in ALL[name]]


@pytest.mark.parametrize(("tag", "code"), [("v1.2.0", 0), ("v1.2", 1)])
def test_a_tag_that_is_not_the_version_publishes_nothing(tmp_path, tag, code):
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "pytest_nsight-1.2.0-py3-none-any.whl").touch()

    done = run(shell("publish.yml", "build", "The version is the tag's"), tmp_path, TAG=tag)

    assert done.returncode == code


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        ("success", 0, "measured"),
        ("failure", 1, "the gate failed"),
        ("cancelled", 1, "not measured"),
        ("skipped", 1, "not measured"),
    ],
)
def test_the_required_check_passes_only_what_was_measured(tmp_path, outcome, code, said):
    done = run(shell("gpu-gate.yml", "result", "Say how it ended"), tmp_path, OUTCOME=outcome)

    assert done.returncode == code
    assert said in done.stdout


def test_several_paths_are_measured(tmp_path):
    fake(tmp_path, "pytest", "exit 0")

    done = run(
        shell("gpu-gate.yml", "measure", "Measure and judge"), tmp_path, NSIGHT_PATHS="perf_tests/ a/test_b.py"
    )

    assert done.returncode == 0, done.stderr
    assert calls(tmp_path)[0].startswith(
        "pytest --nsight --nsight-collector nsys --nsight-keep perf_tests/ a/test_b.py --junitxml="
    )


@pytest.mark.parametrize(("workflow", "job"), JUDGES)
@pytest.mark.parametrize(
    ("verdicts", "unmeasured", "code"),
    [
        (["UNCHANGED", "NO_BASELINE"], [], 0),
        (["NO_BASELINE", "INCONCLUSIVE"], ["ENVIRONMENT"], 1),
        ([], [], 1),
    ],
)
def test_a_session_in_which_nothing_was_judged_is_no_pass(tmp_path, verdicts, unmeasured, code, workflow, job):
    result = {
        "benchmarks": [{"extra_info": {"nsight": {"verdict": verdict}}} for verdict in verdicts],
        "nsight": {"unmeasured": [{"verdict": verdict} for verdict in unmeasured]},
    }
    (tmp_path / "nsight.json").write_text(json.dumps(result))

    done = run(shell(workflow, job, "Something was judged"), tmp_path)

    assert done.returncode == code
    assert f" of {len(verdicts) + len(unmeasured)} verdicts are settled" in done.stdout
    if workflow != "gpu-compare.yml":
        assert all(f"1 {verdict}" in done.stdout for verdict in (*verdicts, *unmeasured))


@pytest.mark.parametrize(("workflow", "job"), JUDGES)
def test_what_is_checked_for_verdicts_is_written_by_the_step_before(workflow, job):
    steps = jobs(workflow)[job]["steps"]
    (place,) = (place for place, step in enumerate(steps) if step.get("name") == "Something was judged")

    assert "json=nsight.json" in steps[place - 1]["run"]


def test_shards_without_a_baseline_are_no_pass(tmp_path):
    """What the report of shards writes, and nothing made up, is what the step reads."""
    files = [f"{write_shard(tmp_path, number, Made(unstored=True))}/shard.json" for number in (1, 2)]
    command = [sys.executable, "-m", "pytest_nsight.cli", "report", *files, "--report", "json=nsight.json"]
    reported = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    judged = run(shell("gpu-shards.yml", "judge", "Something was judged"), tmp_path)

    assert reported.returncode == 0, reported.stderr
    assert "without baseline" in reported.stdout
    assert judged.returncode == 1
    assert "NO_BASELINE: start update-baselines on these runners' GPU model" in judged.stderr


@pytest.mark.parametrize(("workflow", "job"), [("gpu-gate.yml", "measure"), ("gpu-compare.yml", "compare")])
def test_a_session_that_measured_nothing_and_wrote_no_report_is_no_pass_and_says_so(tmp_path, workflow, job):
    done = run(shell(workflow, job, "Something was judged"), tmp_path)

    assert done.returncode == 1
    assert "Nothing was measured" in done.stderr
    assert "Traceback" not in done.stderr


def download(folder: Path, uploaded: dict[int, str]) -> list[str]:
    """Places files as the actions do, by the paths that the workflow gives them.

    upload-artifact keeps the folders from the first wildcard on, and download-artifact puts each artifact that a
    pattern has found into a folder of its name.
    """
    upload, fetch = (
        next(step["with"] for step in jobs("gpu-shards.yml")[job]["steps"] if action in step.get("uses", ""))
        for job, action in (("measure", "upload-artifact"), ("judge", "download-artifact"))
    )
    before, wildcard, _ = upload["path"].partition("*")
    assert wildcard
    assert "pattern" in fetch
    assert "merge-multiple" not in fetch
    files = []
    for number, path in uploaded.items():
        name = upload["name"].replace("${{ strategy.job-index }}", str(number))
        files.append(f"{fetch['path']}/{name}/{path.removeprefix(before)}")
        (folder / files[-1]).parent.mkdir(parents=True)
        (folder / files[-1]).touch()
    return files


def test_each_runner_measures_its_shard_and_one_job_judges_all_of_them(tmp_path):
    fake(tmp_path, "pytest", "exit 0")
    fake(tmp_path, "pytest-nsight", "exit 1")
    strategy = jobs("gpu-shards.yml")["measure"]["strategy"]
    measure, judge = shell("gpu-shards.yml", "measure", "Measure this shard"), jobs("gpu-shards.yml")["judge"]
    files = download(tmp_path, {number: f".nsight/20250101-00000{number}-ab/shard.json" for number in (0, 1)})

    for shard in strategy["matrix"]["shard"]:
        assert run(measure, tmp_path, NSIGHT_PATHS="perf_tests/ a/", SHARD=shard).returncode == 0
    judged = run(shell("gpu-shards.yml", "judge", "Judge all shards together"), tmp_path)

    measured = [call.partition("--nsight-shard ")[2] for call in calls(tmp_path)[:2]]
    assert measured == ["1/2 perf_tests/ a/", "2/2 perf_tests/ a/"]
    assert judged.returncode == 1
    assert calls(tmp_path)[2].startswith(f"pytest-nsight report {' '.join(files)} --html nsight.html --report ")
    assert (strategy["fail-fast"], judge["if"], judge["runs-on"]) == (False, "always()", "ubuntu-latest")


@pytest.mark.parametrize(
    ("measured", "judged", "code"),
    [
        ("success", "success", 0),
        ("failure", "success", 1),
        ("success", "failure", 1),
        ("cancelled", "skipped", 1),
    ],
)
def test_shards_pass_only_if_all_were_measured_and_judged(tmp_path, measured, judged, code):
    step = shell("gpu-shards.yml", "result", "Say how it ended")

    assert run(step, tmp_path, MEASURED=measured, JUDGED=judged).returncode == code


def uploads(workflow: str, job: str) -> dict[str, set[str]]:
    """Artifact -> its paths."""
    steps = [step["with"] for step in jobs(workflow)[job]["steps"] if "upload-artifact" in step.get("uses", "")]
    return {step["name"]: set(step["path"].split()) for step in steps}


def test_the_jobs_of_shards_can_take_the_place_of_those_of_the_gate():
    """Then gpu-comment finds what it posts, and the required check keeps its name."""
    of_gate, of_shards = uploads("gpu-gate.yml", "measure"), uploads("gpu-shards.yml", "judge")

    assert of_gate["nsight-report"] - of_shards["nsight-report"] == {"nsight-junit.xml"}
    assert of_shards["nsight-html"] == of_gate["nsight-html"]
    note = "Note the pull request"
    assert shell("gpu-shards.yml", "judge", note) == shell("gpu-gate.yml", "measure", note)
    assert "result" in jobs("gpu-shards.yml").keys() & jobs("gpu-gate.yml").keys()
    assert yaml.safe_load(ALL["gpu-shards.yml"])["env"] == yaml.safe_load(ALL["gpu-gate.yml"])["env"]


def test_the_base_of_a_comparison_is_the_first_parent(tmp_path):
    fake(tmp_path, "pytest", "exit 0")
    fake(tmp_path, "git", "echo 1a2b3c")

    done = run(shell("gpu-compare.yml", "compare", "Measure both and judge"), tmp_path, NSIGHT_PATHS="perf_tests/")

    assert done.returncode == 0
    assert calls(tmp_path)[0] == "git rev-parse HEAD^1"
    assert "--nsight-against 1a2b3c perf_tests/" in calls(tmp_path)[1]


class TestComment:
    """The job that has a write token treats all that it gets as foreign text."""

    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "nsight.md").write_text("<!-- pytest-nsight: NVIDIA H200 -->\n**failed** thanks to @someone\n")
        (tmp_path / "nsight-pull-request.txt").write_text("17\n")
        return tmp_path

    def post(self, folder, *, head="abc", comments="", page=""):
        fake(
            folder,
            "gh",
            f"""case "$*" in
  *pulls/17*) echo {head} ;;
  *runs/9/artifacts*) echo "{page}" ;;
  *--paginate*) printf '{comments}' ;;
  *) cat comment.md >posted.md ;;
esac""",
        )
        step = shell("gpu-comment.yml", "comment", "Post the comment")
        server = "https://git.example"
        return run(step, folder, GH_TOKEN="t", REPOSITORY="o/n", MEASURED="abc", RUN="9", SERVER=server)

    def test_the_first_report_is_a_new_comment_that_notifies_nobody(self, folder):
        assert self.post(folder).returncode == 0
        assert "--method POST repos/o/n/issues/17/comments" in calls(folder)[-1]
        assert "@\u200bsomeone" in (folder / "posted.md").read_text()

    def test_a_later_report_replaces_that_of_its_machine_only(self, folder):
        comments = "5\\t<!-- pytest-nsight: NVIDIA A100 -->\\n6\\t<!-- pytest-nsight: NVIDIA H200 -->\\n"

        assert self.post(folder, comments=comments).returncode == 0
        assert "--method PATCH repos/o/n/issues/comments/6" in calls(folder)[-1]

    @pytest.mark.parametrize("number", ["", "17; rm -rf /", "../18", "-1"])
    def test_a_number_that_is_none_is_refused(self, folder, number):
        (folder / "nsight-pull-request.txt").write_text(number)

        done = self.post(folder)

        assert done.returncode == 1
        assert "is not the number of a pull request" in done.stdout
        assert calls(folder) == []

    def test_a_report_of_another_commit_is_not_posted(self, folder):
        assert self.post(folder, head="def").returncode == 0
        assert len(calls(folder)) == 1

    def test_a_text_that_is_no_report_is_refused(self, folder):
        (folder / "nsight.md").write_text("buy this\n")

        assert self.post(folder).returncode == 1
        assert not (folder / "posted.md").exists()

    @pytest.mark.parametrize(("page", "is_linked"), [("123", True), ("", False), ("1) evil", False)])
    def test_the_comment_links_to_the_html_page_of_its_run(self, folder, page, is_linked):
        assert self.post(folder, page=page).returncode == 0

        link = "(https://git.example/o/n/actions/runs/9/artifacts/123)"
        assert (link in (folder / "posted.md").read_text()) == is_linked
        assert ("actions/runs/9/artifacts/" in (folder / "posted.md").read_text()) == is_linked

    def test_a_long_report_is_cut_to_what_github_takes(self, folder):
        (folder / "nsight.md").write_text("<!-- pytest-nsight: x -->\n" + "y" * 200_000)

        assert self.post(folder).returncode == 0
        assert len((folder / "posted.md").read_text()) == 65_000

    @pytest.mark.parametrize(("answer", "output", "said"), [("12", "found=yes\n", ""), ("", "", "not measured")])
    def test_a_gate_that_left_no_report_ends_quietly(self, tmp_path, answer, output, said):
        """One that was cancelled in the queue, or never approved, has uploaded nothing."""
        fake(tmp_path, "gh", f"echo -n '{answer}'")
        (tmp_path / "output").touch()

        done = run(
            shell("gpu-comment.yml", "comment", "Look for a report"),
            tmp_path,
            REPOSITORY="o/n",
            RUN="9",
            GITHUB_OUTPUT=str(tmp_path / "output"),
        )

        assert done.returncode == 0
        assert (tmp_path / "output").read_text() == output
        assert said in done.stdout
        assert "repos/o/n/actions/runs/9/artifacts" in calls(tmp_path)[0]
        others = [step for step in jobs("gpu-comment.yml")["comment"]["steps"] if step.get("id") != "report"]
        assert {step["if"] for step in others} == {"steps.report.outputs.found == 'yes'"}

    def test_nothing_measured_posts_nothing(self, folder):
        (folder / "nsight.md").unlink()

        assert self.post(folder).returncode == 0
        assert calls(folder) == []

    def test_a_failure_of_the_api_posts_no_second_comment(self, folder):
        answers = "*pulls/17*) echo abc ;; */artifacts*) ;; *--paginate*) exit 1 ;; *) touch posted.md ;;"
        fake(folder, "gh", f'case "$*" in {answers} esac')
        step = shell("gpu-comment.yml", "comment", "Post the comment")

        environ = {"GH_TOKEN": "t", "REPOSITORY": "o/n", "MEASURED": "abc", "RUN": "9", "SERVER": "s"}
        assert run(step, folder, **environ).returncode != 0
        assert not (folder / "posted.md").exists()


class TestBaselines:
    """The job that writes takes baselines from the machine that measured, and nothing else."""

    STORED = ("baselines/nvidia-h200/nsight_counters.jsonl", "baselines/nvidia-h200/test_x.json")

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "o/n.git")
        git(tmp_path, "clone", "--quiet", str(tmp_path / "o/n.git"), "work")
        work = tmp_path / "work"
        (work / "code.py").write_text("x = 1\n")
        git(work, "add", "code.py")
        git(work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "first")
        git(work, "push", "--quiet", "origin", "HEAD:main", "HEAD:feature")
        measured = work / "measured" / "baselines" / "nvidia-h200"
        measured.mkdir(parents=True)
        (measured / "test_x.json").write_text("{}")
        (measured / "nsight_counters.jsonl").write_text("{}\n")
        (measured / "evil.py").write_text("import os")
        (measured / "link.json").symlink_to("/etc/passwd")
        (work / "measured" / "nsight.md").write_text("a table")
        (work / "measured" / "code.py").write_text("x = 2\n")
        fake(work, "gh", "exit 0")
        return work

    def commit(self, work, **environ):
        return run(
            shell("update-baselines.yml", "propose", "Commit the baselines"),
            work,
            GH_TOKEN="secret",
            REPOSITORY="o/n",
            SERVER=f"file://{work.parent}",
            REASON="a $(touch hacked) reason",
            RUN="77",
            **environ,
        )

    def test_by_hand_a_pull_request_is_opened(self, folder):
        done = self.commit(folder, HEAD="")

        assert done.returncode == 0, done.stderr
        changed = git(folder.parent / "o/n.git", "diff", "--name-only", "main", "baselines-77").splitlines()
        assert tuple(changed) == self.STORED
        opened, started = calls(folder)
        assert "gh pr create --repo o/n --head baselines-77" in opened
        assert started == "gh workflow run gpu-gate.yml --repo o/n --ref baselines-77", "its check is required"
        assert not (folder / "hacked").exists()

    def test_where_actions_may_open_no_pull_request_the_step_says_which_setting_lets_them(self, folder):
        fake(folder, "gh", "exit 1")

        done = self.commit(folder, HEAD="")

        assert done.returncode == 1
        assert "The branch baselines-77 holds the baselines" in done.stdout
        assert "'Allow GitHub Actions to create and approve pull requests'" in done.stdout

    def test_on_a_pull_request_its_branch_gets_the_commit_and_the_gate_runs_again(self, folder):
        done = self.commit(folder, HEAD="feature")

        assert done.returncode == 0, done.stderr
        bare = folder.parent / "o/n.git"
        assert git(bare, "log", "-1", "--format=%s", "feature") == "Update baselines: a $(touch hacked) reason"
        changed = git(bare, "diff", "--name-only", "main", "feature").splitlines()
        assert tuple(changed) == self.STORED
        assert calls(folder) == ["gh workflow run gpu-gate.yml --repo o/n --ref feature"]

    def test_no_change_makes_no_commit(self, folder):
        self.commit(folder, HEAD="feature")
        again = self.commit(folder, HEAD="feature")

        assert again.returncode == 0
        assert "did not change" in again.stdout

    def test_a_list_of_failed_saves_that_the_runner_has_deleted_is_deleted(self, folder):
        for model in ("nvidia-h200", "nvidia-h100"):
            (folder / "baselines" / model).mkdir(parents=True)
            (folder / "baselines" / model / "nsight_failed_saves.jsonl").write_text("{}\n")
        git(folder, "add", "baselines")
        git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "two failed")

        done = self.commit(folder, HEAD="feature")

        assert done.returncode == 0, done.stderr
        left = git(folder.parent / "o/n.git", "ls-tree", "-r", "--name-only", "feature", "baselines").splitlines()
        assert [path for path in left if path.endswith("saves.jsonl")] == [
            "baselines/nvidia-h100/nsight_failed_saves.jsonl"
        ], "only that of the model which was measured"

    def test_the_token_is_in_no_file(self, folder):
        self.commit(folder, HEAD="feature")

        config = (folder / ".git" / "config").read_text()
        assert "secret" not in config
        assert "AUTHORIZATION" not in config


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()
