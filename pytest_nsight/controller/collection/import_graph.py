"""Which files of a project a Python file may import, read from their text; nothing is imported.

It sees import statements anywhere in a file, `importlib.import_module`, `__import__`, `pytest.importorskip` with
constant names, `pytest_plugins`, `__all__` of a package, and the `__init__.py` of every package on the way. What is
found nowhere now may be found once a test has changed sys.path, so every file that could be it counts, unless its
name would begin inside a package. It does not see data files, computed names, files that are loaded by their paths,
the sources of compiled modules, and modules that are installed as a copy; `unseen` names all but the first.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec
from importlib.util import resolve_name
from pathlib import Path

from pytest_nsight.controller.collection.repository_files import ModuleFiles
from pytest_nsight.protocol.installed_copies import installed_copies
from pytest_nsight.protocol.other_checkouts import INSTALLED

# Function -> the name of its first parameter.
_IMPORTING = {"import_module": "name", "importorskip": "modname", "__import__": "name"}
_FROM = {"importlib", "pytest", "builtins"}
_LOADING = {"spec_from_file_location", "SourceFileLoader"}
_LISTING = {"glob", "rglob", "iterdir", "listdir", "iter_modules"}

_Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign


@dataclass(frozen=True, slots=True)
class _Names:
    """What a file imports.

    Attributes:
        absolute: dotted names; of `from a import b` both a and a.b, which need not be a module.
        relative: (folder that it starts from, dotted name).
        is_computed: whether it also imports what only a run can know.
        is_loading: whether it also loads or runs files by their paths.
    """

    absolute: tuple[str, ...] = ()
    relative: tuple[tuple[Path, str], ...] = ()
    is_computed: bool = False
    is_loading: bool = False


@dataclass(slots=True)
class ImportGraph:
    """The imports of a project's files.

    Attributes:
        repository: top folder of the project; what lies outside or is installed is not followed.
        missing: files that are gone; a file that would import one counts as importing it.
        unseen: file -> what of its imports cannot be followed.
    """

    repository: Path
    missing: Collection[Path] = ()
    unseen: dict[Path, str] = field(default_factory=dict)
    _imports: dict[Path, frozenset[Path]] = field(default_factory=dict)
    _specs: dict[str, ModuleSpec | None] = field(default_factory=dict)
    _copies: frozenset[str] | None = None
    _files: ModuleFiles | None = None

    def reach(self, roots: Collection[Path]) -> Mapping[Path, Path]:
        """Every file that these files import, directly or not, with themselves.

        Returns:
            File -> the one that imports it, one of them if several do; a root comes from itself.
        """
        found = {root: root for root in roots}
        waiting = list(found)
        while waiting:
            importer = waiting.pop()
            for file in sorted(self._list_imports(importer)):
                if file not in found:
                    found[file] = importer
                    waiting.append(file)
        return found

    def _list_imports(self, file: Path) -> frozenset[Path]:
        if file not in self._imports:
            found = frozenset(self._find_imports(file))
            # A link and what it leads to may both change.
            real = (path.resolve() for path in (file, *found))
            self._imports[file] = (found | {path for path in real if self.is_own(path)}) - {file}
        return self._imports[file]

    def _find_imports(self, file: Path) -> Iterator[Path]:
        yield from self._packages_of(file)
        if file.suffix not in SOURCE_SUFFIXES:
            self.unseen[file] = "the sources that it is built from"
            return
        if not file.exists():
            return
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, ValueError, SyntaxError):
            self.unseen[file] = "its imports, because it cannot be parsed"
            return
        names = _read_names(tree, file)
        if names.is_computed:
            self.unseen[file] = "modules that it imports by a computed name"
        elif names.is_loading:
            self.unseen[file] = "files that it loads or runs by their paths"
        for name in names.absolute:
            yield from self._find_module(name)
        if copy := next(filter(self._is_copy, names.absolute), ""):
            what = f"{copy}, which pip has installed as a copy or built"
            self.unseen[file] = f"{self.unseen[file]}; {what}" if file in self.unseen else what
        for folder, name in names.relative:
            yield from self._find_in_folder(folder, name)

    def _packages_of(self, file: Path) -> Iterator[Path]:
        """The `__init__.py` of every package that the file lies in."""
        for folder in file.parents:
            init = folder / "__init__.py"
            if not self._is_there(init) or not folder.is_relative_to(self.repository):
                return
            yield init

    def _find_in_folder(self, folder: Path, name: str) -> Iterator[Path]:
        path = folder.joinpath(*name.split(".")) if name else folder
        for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if self._is_there(candidate):
                yield candidate
        # Compiled modules have the platform in their names.
        yield from (other for other in path.parent.glob(f"{path.name}.*.so") if name)

    def _find_module(self, name: str) -> Iterator[Path]:
        spec = self._find_spec(name)
        if spec is None or _is_namespace(spec):
            if self._files is None:
                self._files = ModuleFiles(self.repository, self.missing)
            top = self._find_spec(name.partition(".")[0])
            # A package that is found takes its modules from its own folder, whatever sys.path has later.
            is_settled = top is not None and not _is_namespace(top)
            yield from filter(self.is_own, (self._files.find_missing if is_settled else self._files.find)(name))
            return
        if spec.origin is not None and spec.has_location:
            file = Path(spec.origin)
            file = file if self.is_own(file) else file.resolve()
            if self.is_own(file):
                yield file

    def _is_copy(self, name: str) -> bool:
        """Whether a module comes from a copy of this project that pip has installed."""
        spec = self._find_spec(name)
        if spec is None or spec.origin is None or not spec.has_location or self.is_own(Path(spec.origin)):
            return False
        if self._copies is None:
            self._copies = frozenset(installed_copies(str(self.repository), lambda path: self.is_own(Path(path))))
        return os.path.realpath(spec.origin) in self._copies

    def _find_spec(self, name: str) -> ModuleSpec | None:
        """Where a module is, from the imported modules and from the finders, without importing it."""
        if name not in self._specs:
            self._specs[name] = self._look_up(name)
        return self._specs[name]

    def _look_up(self, name: str) -> ModuleSpec | None:
        known: ModuleSpec | None = getattr(sys.modules.get(name), "__spec__", None)
        if known is not None:
            return known
        package, _, _ = name.rpartition(".")
        places = None
        if package:
            parent = self._find_spec(package)
            if parent is None or parent.submodule_search_locations is None:
                return None
            places = list(parent.submodule_search_locations)
        for finder in sys.meta_path:
            try:
                spec = finder.find_spec(name, places)
            except (ImportError, AttributeError, ValueError, OSError):
                continue
            if spec is not None:
                return spec
        return None

    def _is_there(self, path: Path) -> bool:
        return path in self.missing or path.is_file()

    def is_own(self, path: Path) -> bool:
        """Whether a file belongs to the project and is not installed in it."""
        return path.is_relative_to(self.repository) and not any(part in INSTALLED for part in path.parts)


def _is_namespace(spec: ModuleSpec) -> bool:
    """Whether it is a package without an `__init__.py`, for which an entry of sys.path may yet bring one."""
    return spec.origin is None and spec.submodule_search_locations is not None


def _read_names(tree: ast.Module, file: Path) -> _Names:
    absolute: list[str] = []
    relative: list[tuple[Path, str]] = []
    is_computed = is_loading = False
    functions = _importing_functions(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            absolute += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}".strip(".") for alias in node.names if alias.name != "*")]
            relative += _start_from(file, node.level, names)
        elif isinstance(node, ast.ImportFrom):
            absolute += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and (function := functions.get(_called_name(node))):
            names, levels = _imported_by(node, function)
            is_computed = is_computed or not names
            absolute += names if not levels else []
            relative += _start_from(file, levels, names) if levels else []
        elif isinstance(node, ast.Call):
            is_loading = is_loading or _called_name(node) in _LOADING
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            absolute += _constants_of(node, "pytest_plugins")
            if file.name == "__init__.py":
                offered = _constants_of(node, "__all__")
                relative += [(file.parent, name) for name in offered if name.isidentifier()]
                is_computed = is_computed or _lists_files(node)
    is_loading = is_loading or "runpy" in absolute
    # Importing a.b.c imports a and a.b, too.
    whole = (".".join(name.split(".")[:end]) for name in absolute for end in range(1, name.count(".") + 2))
    return _Names(tuple(dict.fromkeys(whole)), tuple(dict.fromkeys(relative)), is_computed, is_loading)


def _importing_functions(tree: ast.Module) -> Mapping[str, str]:
    """Name of each function that imports, as this file calls it -> which one it is."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module in _FROM)
    aliases = (alias for node in imports for alias in node.names)
    renamed = {alias.asname: alias.name for alias in aliases if alias.asname and alias.name in _IMPORTING}
    return {name: name for name in _IMPORTING} | renamed


def _imported_by(call: ast.Call, function: str) -> tuple[list[str], int]:
    """The module that a call imports, and how many folders up its name starts, 0 for an absolute one.

    Returns:
        No module if only a run can know it.
    """
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    first = call.args[0] if call.args else given.get(_IMPORTING[function])
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return [], 0
    name = first.value.lstrip(".")
    levels = len(first.value) - len(name)
    package = call.args[1] if len(call.args) > 1 else given.get("package")
    if not levels or function != "import_module" or package is None or _is_own_package(package):
        return [name], levels
    if not isinstance(package, ast.Constant) or not isinstance(package.value, str):
        return [], 0
    try:
        return [resolve_name(first.value, package.value)], 0
    except ImportError:
        # Python refuses it, too.
        return [package.value], 0


def _is_own_package(package: ast.expr) -> bool:
    return isinstance(package, ast.Name) and package.id in ("__package__", "__name__")


def _start_from(file: Path, levels: int, names: Sequence[str]) -> list[tuple[Path, str]]:
    """Relative names with the folder that they start from; none beyond the root, where Python refuses them."""
    return [(file.parents[levels - 1], name) for name in names] if levels <= len(file.parents) else []


def _called_name(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_set(node: _Assignment, variable: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == variable for target in targets)


def _constants_of(node: _Assignment, variable: str) -> list[str]:
    """The texts in what a variable is set to, such as `pytest_plugins = "a", "b"`."""
    constants = ast.walk(node.value) if node.value is not None and _is_set(node, variable) else ()
    return [one.value for one in constants if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _lists_files(node: _Assignment) -> bool:
    """Whether `__all__` is made of the files that there are."""
    calls = ast.walk(node.value) if node.value is not None and _is_set(node, "__all__") else ()
    return any(isinstance(one, ast.Call) and _called_name(one) in _LISTING for one in calls)
