"""A user's rule file, run by its content: the same path with another text is another rule, in the same process too.

Python knows a module by its name and byte code by the time of its source, so that an edited file may run as it was.
Here the text that is read is the text that runs. Modules beside the file that it imports are its own: they are read the
same way, count in its digest, and do not meet those of a rule in another folder.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import RLock
from types import CodeType, ModuleType

from dagsched.errors import PolicyError

MODULE = "dagsched_user_rule_"
"""How the names of the modules begin that rule files become."""

_KEPT_AWAY = frozenset({*sys.stdlib_module_names, "dagsched", "__main__"})
"""Names that mean what they mean everywhere, whatever lies beside a rule."""


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A rule file that has run, and the texts that it ran with.

    Attributes:
        module: what its functions are looked up in.
        texts: SHA-256 of the file and of every module beside it that it imported, by path.
    """

    module: ModuleType
    texts: Mapping[Path, str]

    @property
    def digest(self) -> str:
        """SHA-256 over all texts."""
        return hashlib.sha256("".join(f"{path.name} {self.texts[path]}\n" for path in self.texts).encode()).hexdigest()

    @property
    def is_current(self) -> bool:
        """Whether every text is still what lies on disk."""
        try:
            return all(_hash(path.read_bytes()) == digest for path, digest in self.texts.items())
        except OSError:
            return False


_lock = RLock()
_loaded: dict[Path, RuleFile] = {}


def load_rule(path: str | Path) -> RuleFile:
    """Run a rule file, or take what it made when it ran with the same texts.

    Raises:
        PolicyError: if there is no such file, or it fails.
    """
    path = Path(path)
    if not path.is_file():
        raise PolicyError(f"file {path} does not exist")
    path = path.resolve()
    with _lock:
        known = _loaded.get(path)
        if known is None or not known.is_current:
            if known is not None:
                sys.modules.pop(known.module.__name__, None)
            known = _loaded[path] = _run(path)
        return known


def _run(path: Path) -> RuleFile:
    """Execute the file while its folder comes first for imports; afterwards every other module is as it was."""
    texts: dict[Path, str] = {}
    finder = _Beside(path.parent, texts)
    name = f"{MODULE}{_hash(str(path).encode('utf-8', 'surrogateescape'))[:16]}"
    loader = _FromText(name, str(path), texts)
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    aside = {known: other for known, other in list(sys.modules.items()) if finder.has(known.partition(".")[0])}
    for known in aside:
        del sys.modules[known]
    sys.modules[name] = module  # dataclasses look their module up
    sys.meta_path.insert(0, finder)
    try:
        loader.exec_module(module)
        _check_imports(finder, texts)
    except KeyboardInterrupt:
        sys.modules.pop(name, None)
        raise
    except BaseException as error:  # also SystemExit: loading a rule must not end the program
        sys.modules.pop(name, None)
        text = " ".join(str(error).split())
        raise PolicyError(f"{path} failed to load: {type(error).__name__}: {text}") from error
    finally:
        sys.meta_path.remove(finder)
        for known in [known for known in sys.modules if finder.has(known.partition(".")[0])]:
            del sys.modules[known]
        sys.modules.update(aside)
    return RuleFile(module, texts)


def _check_imports(finder: _Beside, texts: Mapping[Path, str]) -> None:
    """Refuse modules beside the rule that a function imports: read when it is called, they would count in no digest."""
    for path in texts:
        tree = ast.parse(path.read_bytes())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in (inner for function in functions for inner in ast.walk(function)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            else:
                continue
            for name in names:
                if finder.has(name.partition(".")[0]):
                    raise ImportError(
                        f"line {node.lineno} of {path.name} imports {name} inside a function; import it at the top of "
                        f"the file, so that it is read with it"
                    )


class _FromText(SourceFileLoader):
    """Compiles the text each time: byte code in ``__pycache__`` is known by whole seconds and size only."""

    def __init__(self, name: str, path: str, texts: dict[Path, str]) -> None:
        super().__init__(name, path)
        self._texts = texts

    def get_code(self, fullname: str) -> CodeType:
        """See :class:`importlib.abc.InspectLoader`."""
        path = self.get_filename(fullname)
        text = self.get_data(path)
        self._texts[Path(path)] = _hash(text)
        return self.source_to_code(text, path)


class _Beside(MetaPathFinder):
    """Finds the modules and packages that lie in one folder."""

    def __init__(self, folder: Path, texts: dict[Path, str]) -> None:
        self._folder = folder
        self._texts = texts

    def has(self, name: str) -> bool:
        """Whether a module of this name, without dots, lies in the folder."""
        return name not in _KEPT_AWAY and _source(self._folder, name) is not None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        del target
        first, _, _ = fullname.partition(".")
        if not self.has(first):
            return None
        for folder in [self._folder] if path is None else [Path(place) for place in path]:
            file = _source(folder, fullname.rpartition(".")[2])
            if file is not None:
                inside = [str(file.parent)] if file.name == "__init__.py" else None
                loader = _FromText(fullname, str(file), self._texts)
                return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=inside)
        return None


def _source(folder: Path, name: str) -> Path | None:
    """The file of a package or module in a folder."""
    places = (folder / name / "__init__.py", folder / f"{name}.py")
    return next((file for file in places if file.is_file()), None)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
