"""The five floors: imports go down only, and a primitive is one file with one public class."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Higher numbers stand on lower ones; primitives and corpora are neighbours that do not know each other.
FLOORS = {"primitives": 0, "corpora": 0, "connectors": 1, "methods": 2, "benchmarks": 3, "scripts": 4}
ENTRY = 4
FILES = [*sorted(file for package in FLOORS for file in (ROOT / package).rglob("*.py")), ROOT / "run.py"]
PRIMITIVES = [
    file for folder in ("drafting", "verification") for file in sorted((ROOT / "primitives" / folder).glob("[!_]*.py"))
]


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports(tree: ast.AST) -> set[str]:
    """Return the packages of ours that a module imports, anywhere in it."""
    dotted = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    dotted |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in dotted} & FLOORS.keys()


def runtime_tree(file: Path) -> ast.AST:
    """Parse a module without what only a type checker sees."""

    class Untyped(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST:
            if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                return ast.Pass()
            return self.generic_visit(node)

    tree: ast.AST = Untyped().visit(ast.parse(file.read_text(encoding="utf-8")))
    return tree


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_go_down(file: Path) -> None:
    package = file.relative_to(ROOT).parts[0]
    floor = FLOORS.get(package, ENTRY)
    above = {name for name in imports(runtime_tree(file)) - {package} if FLOORS[name] >= floor}
    # run.py is an entry point like those of scripts/ and shares their launcher.
    assert above <= ({"scripts"} if file.name == "run.py" else set())


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_are_absolute(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]


@pytest.mark.parametrize("file", PRIMITIVES, ids=name_of)
def test_a_primitive_is_one_file_with_one_public_class_registered_under_the_files_name(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    assert len(classes) == 1
    registered = [
        decorator.args[0].value
        for decorator in classes[0].decorator_list
        if isinstance(decorator, ast.Call) and isinstance(decorator.args[0], ast.Constant)
    ]
    assert registered == [file.stem]


def test_only_the_model_adapters_know_the_inside_of_transformers() -> None:
    inside = ROOT / "primitives" / "models"
    knowing = [
        name_of(file)
        for file in FILES
        if inside not in file.parents
        for node in ast.walk(runtime_tree(file))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("transformers.")
    ]
    assert knowing == []
