"""Which files a file imports, read from its text: every way that Python has to write a constant name."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pytest_nsight.controller.collection.import_graph import ImportGraph

FILES = {
    "own_kit/__init__.py": "",
    "own_kit/deep/__init__.py": "",
    "own_kit/deep/fast.py": "",
    "own_kit/named.py": "",
    "own_star/__init__.py": '__all__ = ["offered", "no_module"]\nno_module = 1\n',
    "own_star/offered.py": "",
    "own_star/other.py": "",
    "source/real/__init__.py": "",
    "source/real/kernel.py": "",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "own_linked").symlink_to("source/real")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def reach(project: Path, text: str) -> tuple[set[str], ImportGraph]:
    test = project / "test_case.py"
    test.write_text(text)
    graph = ImportGraph(project)
    found = graph.reach([test])
    return {path.relative_to(project).as_posix() for path in found} - {"test_case.py"}, graph


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("import importlib\nimportlib.import_module('.fast', 'own_kit.deep')", "own_kit/deep/fast.py"),
        ("import importlib\nimportlib.import_module('..named', package='own_kit.deep')", "own_kit/named.py"),
        ("import importlib\nimportlib.import_module(name='own_kit.named')", "own_kit/named.py"),
        ("from importlib import import_module as fetch\nfetch('own_kit.named')", "own_kit/named.py"),
        ("import pytest\npytest.importorskip(modname='own_kit.named')", "own_kit/named.py"),
        ("from own_star import *", "own_star/offered.py"),
        ("from own_linked import kernel", "own_linked/kernel.py"),
        ("from own_linked import kernel", "source/real/kernel.py"),
    ],
)
def test_every_constant_name_is_followed(project: Path, text: str, file: str) -> None:
    found, graph = reach(project, text)

    assert file in found
    assert not graph.unseen
    assert "own_star/other.py" not in found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import importlib\nimportlib.import_module('.fast', some_package)", "by a computed name"),
        ("import importlib\nimportlib.import_module(name=some_name)", "by a computed name"),
        ("import runpy\nrunpy.run_path('tools/ran.py')", "by their paths"),
        ("from runpy import run_module\nrun_module('own_kit.named')", "by their paths"),
        ("from importlib.util import spec_from_file_location\nspec_from_file_location('a', 'b')", "by their paths"),
    ],
)
def test_what_cannot_be_followed_is_named(project: Path, text: str, what: str) -> None:
    _, graph = reach(project, text)

    (unseen,) = graph.unseen.values()
    assert unseen.endswith(what)


def test_a_module_that_is_installed_as_a_copy_is_named(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path_factory.mktemp("site-packages") / "site-packages"
    about = installed / "copied_kit-1.0.dist-info"
    about.mkdir(parents=True)
    (installed / "copied_kit.py").write_text("")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: copied-kit\nVersion: 1.0\n")
    (about / "RECORD").write_text("copied_kit.py,,\ncopied_kit-1.0.dist-info/METADATA,,\n")
    (about / "direct_url.json").write_text(json.dumps({"url": f"file://{project}/python", "dir_info": {}}))
    (project / "python").mkdir()
    (project / "python/copied_kit.py").write_text("")
    monkeypatch.syspath_prepend(installed)

    _, graph = reach(project, "import json\nimport copied_kit")

    (unseen,) = graph.unseen.values()
    assert unseen == "copied_kit, which pip has installed as a copy or built"


@pytest.mark.parametrize("has_git", [True, False])
@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("def test():\n    import late_kernel", {"source/late_kernel.py", "old/late_kernel.py"}),
        ("from late_kit.fast import f", {"source/late_kit/fast.py"}),
        ("import importlib\nimportlib.import_module('late_kit.deep')", {"source/late_kit/deep/__init__.py"}),
        ("try:\n    import not_installed\nexcept ImportError:\n    from own_kit import no_module", set()),
    ],
)
def test_what_only_a_test_can_import_is_every_file_of_that_name(
    project: Path, text: str, files: set[str], has_git: bool
) -> None:
    late = ("late_kernel.py", "late_kit/fast.py", "late_kit/deep/__init__.py", "late_kernel.txt")
    written = [*(f"source/{name}" for name in late), "old/late_kernel.py", "made/pyvenv.cfg", "made/late_kernel.py"]
    for name in written:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    if has_git:
        (project / ".gitignore").write_text("/made/\n")
        subprocess.run(["git", "init", "--quiet", str(project)], check=True)
        subprocess.run(["git", "-C", str(project), "add", "old"], check=True)

    found, _ = reach(project, text)

    assert {name for name in found if not name.startswith("own_kit/")} == files


def test_the_folder_that_a_repository_lies_in_begins_no_name(project: Path) -> None:
    repository = project / "deeper/late_ops"
    repository.mkdir(parents=True)
    (repository / "fast.py").write_text("")

    assert reach(repository, "import late_ops.fast")[0] == set()


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("from math import sqrt", None),
        ("import own_kit\nfrom own_kit import no_module", None),
        ("import xml.no_module", None),
        # A folder without an __init__.py is a package, too, until sys.path leads to a better one.
        ("import source.late", "old/source/late.py"),
        ("import source", "old/source/__init__.py"),
    ],
)
def test_only_what_begins_with_an_unknown_name_is_searched(project: Path, text: str, file: str | None) -> None:
    written = ("old/math/sqrt.py", "old/own_kit/no_module.py", "old/xml/no_module.py", "old/source/late.py")
    for name in (*written, "old/source/__init__.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")

    found, _ = reach(project, text)

    assert (file in found) if file else not any(name.startswith("old/") for name in found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import fake_triton", set()),
        ("import fake_triton.jit", set()),
        ("import backends.fake_triton", set()),
        ("import kern.backends.fake_triton", {"kern/backends/fake_triton.py"}),
        ("import backends.cuda", set()),
        ("import mykern", {"lib/mykern.py"}),
    ],
)
def test_what_lies_in_a_package_is_searched_by_its_full_name_only(
    project: Path, text: str, found: set[str]
) -> None:
    """A tree has its own module for an optional package, which one machine has and another has not."""
    inits = ("kern/__init__.py", "kern/backends/__init__.py", "kern/backends/cuda/__init__.py")
    for name in (*inits, "kern/backends/fake_triton.py", "lib/mykern.py"):
        (project / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (project / "src" / name).write_text("")

    names = {name.removeprefix("src/") for name in reach(project, text)[0]}

    assert names - set(inits) == found


@pytest.mark.parametrize("folder", [".hidden", "web/node_modules", "old/site-packages", "conda", "virtual"])
def test_without_git_nothing_that_others_have_written_is_searched(project: Path, folder: str) -> None:
    (project / "conda/conda-meta").mkdir(parents=True)
    (project / "virtual").mkdir()
    (project / "virtual/pyvenv.cfg").write_text("")
    (project / folder / "deep").mkdir(parents=True, exist_ok=True)
    (project / folder / "deep/late_kernel.py").write_text("")

    assert reach(project, "import late_kernel")[0] == set()


def test_only_files_of_the_name_are_looked_at(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("late_kernel.py", "late_kit.py", "late_ops.py"):
        (project / "old").mkdir(exist_ok=True)
        (project / "old" / name).write_text("")
    seen: list[str] = []
    is_file = Path.is_file

    def note(path: Path) -> bool:
        seen.append(path.name)
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", note)

    assert reach(project, "import late_kernel")[0] == {"old/late_kernel.py"}
    assert not {"late_kit.py", "late_ops.py"} & set(seen)


@pytest.mark.parametrize(
    ("offered", "found", "what"),
    [
        ('__all__ = []\n__all__ += ["fast"]', True, None),
        ('__all__ = ["fast", "/", "**", "/fast"]', True, None),
        ("__all__ = [path.stem for path in Path(__file__).parent.glob('*.py')]", False, "by a computed name"),
        ("__all__ = [name for name in dir() if name[0] != '_']", False, None),
    ],
)
def test_what_a_package_offers_is_followed_or_named(
    project: Path, offered: str, found: bool, what: str | None
) -> None:
    (project / "own_kit/deep/__init__.py").write_text(offered)

    files, graph = reach(project, "from own_kit.deep import *")

    assert ("own_kit/deep/fast.py" in files) == found
    assert [text.endswith(str(what)) for text in graph.unseen.values()] == ([True] if what else [])


@pytest.mark.parametrize(
    "text", ["def run_module(x): pass\nrun_module(1)", "Runner().run_path()", "from own import fetch as f"]
)
def test_functions_of_ones_own_load_nothing(project: Path, text: str) -> None:
    assert not reach(project, text)[1].unseen


@pytest.mark.parametrize(
    "text",
    ["from " + "." * 60 + "a import b", f"import importlib\nimportlib.import_module('{'.' * 60}a')"],
)
def test_what_python_refuses_imports_nothing(project: Path, text: str) -> None:
    found, _ = reach(project, text)

    assert not found
