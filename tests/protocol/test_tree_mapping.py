"""Nothing of one tree reaches a process that measures the other, whichever way it is imported."""

from __future__ import annotations

import dataclasses
import json
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_nsight.controller.workers.worker_failure import describe_wrong_imports
from pytest_nsight.protocol.job import TreeMapping
from pytest_nsight.protocol.manifest_events import WrongImport

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def trees(tmp_path: Path) -> TreeMapping:
    """Two trees with a package `ops` that says where it is from; a module `extra` that only the user's has."""
    for name in ("root", "root/.nsight/s/against"):
        package = tmp_path / name / "src/ops"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"PLACE = {name!r}\n")
        (package / "part.py").write_text(f"PLACE = {name!r}\n")
    (tmp_path / "root/src/ops/extra.py").write_text("")
    venv = tmp_path / "root/.venv/site-packages"
    venv.mkdir(parents=True)
    (venv / "helper.py").write_text("")
    root = tmp_path / "root"
    return TreeMapping(str(root), str(root / ".nsight/s/against"), (str(root / ".nsight/s"), str(root / ".venv")))


def run(mapping: TreeMapping, code: str, *, before: str = "", path: tuple[str, ...] = ()) -> list[str]:
    """What `code`, run as a worker of the other tree, prints."""
    lines = [
        "import sys, os, importlib",
        f"sys.path.insert(0, {str(ROOT)!r})",
        "from pytest_nsight.protocol.job import TreeMapping",
        "from pytest_nsight.worker.other_tree_plugin import find_wrong_imports, install_mapping",
        "sys.path.pop(0)",
        before,
        f"mapping = TreeMapping(**{dataclasses.asdict(mapping)!r})",
        f"sys.path[:0] = [mapping.map(entry) for entry in {path!r}]",
        "install_mapping(mapping)",
        "wrong = lambda: [(one.module, one.file) for one in find_wrong_imports(mapping)]",
        code,
    ]
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, cwd="/"
    )
    return result.stdout.splitlines()


EDITABLE = """
from importlib.util import spec_from_file_location
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        file = {{"ops": "__init__.py", "ops.part": "part.py", "ops.extra": "extra.py"}}.get(name)
        if file:
            where = [{folder!r}] if name == "ops" else None
            return spec_from_file_location(name, os.path.join({folder!r}, file), submodule_search_locations=where)
sys.meta_path.insert(0, Editable)
"""


def test_an_entry_of_sys_path_leads_to_the_other_tree(trees: TreeMapping) -> None:
    source = str(Path(trees.root, "src"))

    assert run(trees, "import ops.part; print(ops.PLACE, ops.part.PLACE)", path=(source,)) == [
        "root/.nsight/s/against root/.nsight/s/against"
    ]
    assert run(trees, "print(wrong())", path=(source,)) == ["[]"]


def test_an_absolute_link_in_the_other_tree_does_not_lead_back(trees: TreeMapping) -> None:
    for tree in (trees.root, trees.tree):
        Path(tree, "linked").symlink_to(Path(trees.root, "src/ops"))

    printed = run(trees, "import linked.part; print(linked.part.PLACE, wrong())", path=(trees.root,))

    assert printed == ["root/.nsight/s/against []"]


def test_the_finder_of_an_editable_install_leads_to_the_other_tree(trees: TreeMapping) -> None:
    before = EDITABLE.format(folder=str(Path(trees.root, "src/ops")))

    printed = run(trees, "import ops.part; print(ops.PLACE, ops.part.PLACE, wrong())", before=before)

    assert printed == ["root/.nsight/s/against root/.nsight/s/against []"]


def test_what_only_the_users_tree_has_is_not_there_and_the_error_says_why(trees: TreeMapping) -> None:
    before = EDITABLE.format(folder=str(Path(trees.root, "src/ops")))
    code = "try:\n    import ops.extra\nexcept ModuleNotFoundError as error:\n    print(error)"

    by_finder = run(trees, code, before=before)
    by_path = run(trees, code, path=(str(Path(trees.root, "src")),))

    assert "which the revision lacks: an untracked file or a build product" in by_finder[0]
    assert by_path == ["No module named 'ops.extra'"]


def test_a_namespace_package_of_an_editable_install_is_mapped(trees: TreeMapping) -> None:
    Path(trees.root, "src/space/inner").mkdir(parents=True)
    Path(trees.tree, "src/space/inner").mkdir(parents=True)
    Path(trees.root, "src/space/inner/mod.py").write_text("PLACE = 'root'")
    Path(trees.tree, "src/space/inner/mod.py").write_text("PLACE = 'other'")
    before = f"""
from importlib.machinery import ModuleSpec
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "space":
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [{str(Path(trees.root, "src/space"))!r}]
            return spec
sys.meta_path.append(Editable)
"""
    assert run(trees, "import space.inner.mod as m; print(m.PLACE)", before=before) == ["other"]


def test_a_stale_compiled_file_of_the_users_tree_is_not_read(trees: TreeMapping, tmp_path: Path) -> None:
    source = Path(trees.root, "src/ops/part.py")
    stale = tmp_path / "stale.py"
    stale.write_text("PLACE = 'stale'")
    compiled = source.parent / "__pycache__" / f"part.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(str(stale), str(compiled), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    code = "import ops.part; print(ops.part.PLACE)"
    before = EDITABLE.format(folder=str(source.parent))

    assert run(trees, code, before=before) == ["root/.nsight/s/against"]
    by_users = subprocess.run(
        [sys.executable, "-c", code], cwd=source.parents[1], capture_output=True, text=True, check=True
    )
    assert by_users.stdout.strip() == "stale"


def test_a_module_that_was_loaded_from_the_users_tree_is_named(trees: TreeMapping) -> None:
    code = f"sys.path.insert(0, {str(Path(trees.root, 'src'))!r}); sys.meta_path.pop(0); import ops"

    printed = run(trees, f"{code}; print(wrong())")

    (leak,) = json.loads(printed[0].replace("(", "[").replace(")", "]").replace("'", '"'))
    assert leak == ["ops", str(Path(trees.root, "src/ops/__init__.py"))]
    assert "imported ops from" in describe_wrong_imports("1234567890", [WrongImport(*leak)])
    assert "pip install --editable" in describe_wrong_imports("1234567890", [WrongImport(*leak)])


@pytest.mark.parametrize("is_editable", [False, True])
def test_a_module_of_another_checkout_is_named_with_it(
    trees: TreeMapping, tmp_path: Path, *, is_editable: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(Path(trees.root, "src"), elsewhere / "src")
    for tree in (trees.root, elsewhere):
        Path(tree, "pyproject.toml").write_text('[project]\nname = "ops"\n')
    before = EDITABLE.format(folder=str(elsewhere / "src/ops")) if is_editable else ""
    path = () if is_editable else (str(elsewhere / "src"),)
    code = "import ops; print(*((one.module, one.file, one.checkout) for one in find_wrong_imports(mapping)))"

    printed = run(trees, code, before=before, path=path)

    leak = ("ops", str(elsewhere / "src/ops/__init__.py"), str(elsewhere))
    assert printed == [str(leak)]
    sentence = describe_wrong_imports("1234567890", [WrongImport(*leak)])
    assert sentence.startswith(
        f"the runs of 1234567 imported ops from {leak[1]}, which belongs to another checkout of this project "
        f"({elsewhere}): "
    )
    assert "type pip install --editable . in the tree that pytest was started in" in sentence


def install(folder: Path, name: str, files: Sequence[str], origin: Mapping[str, object] | None = None) -> Path:
    """Puts a distribution into a folder of packages, which it returns.

    Args:
        folder: where that is made.
        name: of the distribution.
        files: as its record names them, all of them empty.
        origin: what pip notes of it unless it came from an index.
    """
    site = folder / "site"
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))
    for file in files:
        (site / file).parent.mkdir(exist_ok=True)
        (site / file).touch()
    return site


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_note_of_pip_is_passed_over(trees: TreeMapping, tmp_path: Path, text: str) -> None:
    site = install(tmp_path, "ops", ["ops.py"], {})
    (site / "ops-1.dist-info/direct_url.json").write_text(text)

    assert run(trees, "import ops; print(wrong())", path=(str(site),)) == ["[]"]


def test_a_copy_that_pip_installed_from_the_tree_is_named(trees: TreeMapping, tmp_path: Path) -> None:
    origin = {"url": Path(trees.root).as_uri(), "dir_info": {}}
    site = install(tmp_path, "ops", ["ops.py", "__editable___ops_finder.py"], origin)
    (site / "other.py").write_text("")

    printed = run(trees, "import ops, other; print(wrong())", path=(str(site),))

    assert printed == [f"[('ops', {str(site / 'ops.py')!r})]"]


@pytest.mark.parametrize(
    ("installed", "here", "there", "has_project", "leaks"),
    [
        pytest.param("new", "new", "old", True, ["kern"], id="built from this tree"),
        pytest.param("new", "new", None, True, ["kern"], id="new in this tree"),
        pytest.param("same", "same", "same", True, [], id="alike in both"),
        pytest.param("released", "new", "old", True, [], id="a dependency of another version"),
        pytest.param("released", "released", None, False, [], id="a dependency that was unpacked here"),
    ],
)
def test_a_wheel_of_a_project_below_the_top_is_a_copy_if_the_trees_differ_in_it(
    trees: TreeMapping,
    tmp_path: Path,
    installed: str,
    here: str,
    there: str | None,
    has_project: bool,
    leaks: list[str],
) -> None:
    site = install(tmp_path, "kern", ["kern/__init__.py"], None)
    (site / "kern/__init__.py").write_text(f"TEXT = {installed!r}")
    for tree, text in ((trees.root, here), (trees.tree, there)):
        module = Path(tree, "python/src/kern/__init__.py")
        module.parent.mkdir(parents=True)
        if has_project or tree == trees.root:
            (module.parents[2] / "pyproject.toml").write_text('[project]\nname = "kern"\n')
        if text is not None:
            module.write_text(f"TEXT = {text!r}")

    printed = run(trees, "import kern; print([name for name, _ in wrong()])", path=(str(site),))

    assert printed == [str(leaks)]


@pytest.mark.parametrize(
    ("installed", "project", "leaks"),
    [
        pytest.param("ops", '[project]\nname = "else"', ["ops"], id="sources in the tree"),
        pytest.param("built", '[project]\nname = "So.Me"', ["built"], id="a project of the tree"),
        pytest.param(
            "stranger",
            '[project]\nname = "ops"\ndependencies = ["so-me"]\n[[index]]\nname = "so-me"',
            [],
            id="a stranger",
        ),
        pytest.param("stranger", "", ["stranger"], id="unknown"),
    ],
)
def test_a_wheel_in_the_tree_is_a_copy_of_it_unless_it_is_a_stranger(
    trees: TreeMapping, tmp_path: Path, installed: str, project: str, leaks: list[str]
) -> None:
    # As deep as a workspace has it; a clone's own folder of data is none of its projects.
    member = Path(trees.root, "packages/some/pyproject.toml")
    member.parent.mkdir(parents=True)
    member.write_text(project)
    Path(trees.root, ".cache").mkdir()
    Path(trees.root, ".cache/setup.cfg").write_text("[metadata]\nname = so-me\n")
    wheel = Path(trees.root, "dist/some-1-py3-none-any.whl")
    wheel.parent.mkdir()
    wheel.touch()
    origin = {"url": wheel.as_uri(), "archive_info": {}}
    path = (str(install(tmp_path, "so_me", [f"{installed}/__init__.py", "../bin/some.py"], origin)),)

    printed = run(trees, f"import {installed}; print([name for name, _ in wrong()])", path=path)

    assert printed == [str(leaks)]


@pytest.mark.parametrize("name", ["So.Me", "else"])
def test_the_trees_own_project_is_a_copy_wherever_its_wheel_came_from(
    trees: TreeMapping, tmp_path: Path, name: str
) -> None:
    Path(trees.root, "setup.cfg").write_text(f"[options]\nname = x\n\n[metadata]\nname = {name}\n")
    site = install(tmp_path, "so_me", ["built.py"])

    printed = run(trees, "import built; print([name for name, _ in wrong()])", path=(str(site),))

    assert printed == [str(["built"] if name == "So.Me" else [])]


def test_an_environment_inside_of_the_tree_is_shared(trees: TreeMapping) -> None:
    site = str(Path(trees.root, ".venv/site-packages"))

    assert trees.map(site) == site
    assert run(trees, "import helper; print(wrong())", path=(site,)) == ["[]"]


def test_a_link_into_the_tree_is_mapped(trees: TreeMapping, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path(trees.root, "src"))

    assert trees.map(str(tmp_path / "link")) == str(Path(trees.tree, "src"))


def test_paths_in_arguments_are_mapped_and_nothing_else(trees: TreeMapping) -> None:
    root, tree = trees.root, trees.tree
    pairs = {
        f"{root}/perf/test_a.py::test_x[{root}]": f"{tree}/perf/test_a.py::test_x[{root}]",
        f"--rootdir={root}": f"--rootdir={tree}",
        "perf/test_a.py": "perf/test_a.py",
        "-k=a or b": "-k=a or b",
        f"{root}/.venv/x": f"{root}/.venv/x",
        f"{root}s/x": f"{root}s/x",
    }

    assert {given: trees.map_argument(given) for given in pairs} == pairs
