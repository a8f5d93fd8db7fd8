"""Limits on the shape of the code. Lists of exceptions may only shrink."""

import ast
import re
from pathlib import Path

from meta.repository import ROOT, SOURCE, definitions, files, name_of

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50

LONG_MODULES: frozenset[str] = frozenset()
LONG_FUNCTIONS: frozenset[str] = frozenset()

ENVIRONMENT = "src/stepwell/assembly/environment.py"
"""The one module that reads the process's environment."""

MODULES = [path for path in files(".py") if path.is_relative_to(SOURCE)]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(module: Path) -> list[tuple[str, Function]]:
    return [
        (f"{name_of(module)}: {name}", node)
        for name, node in definitions(module).items()
        if isinstance(node, Function)
    ]


def test_modules_are_short() -> None:
    """A module that has grown past the limit becomes a folder."""
    long = {
        name_of(path)
        for path in MODULES
        if len(path.read_text(encoding="utf-8").splitlines()) > MAX_MODULE_LINES
    }
    assert len(MODULES) > 100
    assert long == LONG_MODULES


def test_functions_are_short() -> None:
    """A function is one thought. Its docstring does not count: saying more is no fault."""
    long = {
        name
        for module in MODULES
        for name, node in functions(module)
        if _lines(node) - (_lines(node.body[0]) if _docstring(node) else 0) > MAX_FUNCTION_LINES
    }
    assert long == LONG_FUNCTIONS


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_what_is_public_is_documented() -> None:
    """Every module, and every public class, function and method, says what it is for."""
    silent = [name_of(path) for path in MODULES if ast.get_docstring(_tree(path)) is None]
    for module in MODULES:
        for name, node in definitions(module).items():
            if _is_public(name, definitions(module)) and _docstring(node) is None:
                silent.append(f"{name_of(module)}: {name}")
    assert silent == []


def _is_public(name: str, others: dict[str, ast.AST]) -> bool:
    """Return whether a name can be reached from outside; special methods need no introduction."""
    *scope, _ = name.split(".")
    in_function = any(
        isinstance(others[".".join(scope[: i + 1])], Function) for i in range(len(scope))
    )
    return not in_function and not any(part.startswith("_") for part in name.split("."))


def _docstring(node: ast.AST) -> str | None:
    return ast.get_docstring(node) if isinstance(node, Function | ast.ClassDef) else None


def test_one_module_reads_the_environment() -> None:
    """Settings come from the file; variables are read in one place, by the names it gives."""
    readers = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}
    }
    assert readers == {ENVIRONMENT}


def test_nothing_is_pickled() -> None:
    """Reading a record must not be able to run code."""
    unsafe = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
    users = {
        name_of(path)
        for path in files(".py")
        for node in ast.walk(_tree(path))
        if not unsafe.isdisjoint(_imported(node))
    }
    assert users == set()


def _imported(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names):
            return {alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(module=str(module), level=0):
            return {module.partition(".")[0]}
    return set()


def test_no_path_of_a_developers_machine() -> None:
    """No file names a home directory, nor the directory this checkout happens to be in."""
    homes = [r"/home/\w", r"/Users/\w", r"/root/", r"[A-Z]:\\+Users\\"]
    # Shorter ones, such as /src, may stand in a file for another reason.
    checkout = [re.escape(str(ROOT)) + r"(?!\w)"] if len(ROOT.parts) > 2 else []
    pattern = re.compile("|".join(homes + checkout))
    this = Path(__file__)
    found = [
        f"{name_of(path)}: {match[0]}"
        for path in files()
        if path != this and (match := pattern.search(_text(path)))
    ]
    assert found == []


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
