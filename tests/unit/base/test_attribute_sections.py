"""An ``Attributes:`` section lists every public field of its class, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import glow_nb

PACKAGE = Path(glow_nb.__file__).parent
ENTRY = re.compile(r"    (\w+(?:, \w+)*):")
OPERAND = re.compile(r"\b(Value|Constant|Placeholder)\b")
NODES = re.compile(r"define_node|\bNode\b")


def listed(docstring: str) -> list[str]:
    """Return the names in the ``Attributes:`` section of *docstring*."""
    section = re.split(r"^\S", docstring.partition("Attributes:\n")[2], flags=re.MULTILINE)[0]
    entries = filter(None, map(ENTRY.match, section.splitlines()))
    return [name for entry in entries for name in entry[1].split(", ")]


def annotated(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield name and annotation of each public field that is declared in the class."""
    for line in definition.body:
        match line:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                yield name, ast.unparse(line.annotation)


def assigned(definition: ast.ClassDef) -> Iterator[str]:
    """Yield the public attributes that the methods of the class set."""
    for part in ast.walk(definition):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                if not name.startswith("_"):
                    yield name


def properties(definition: ast.ClassDef) -> set[str]:
    methods = (line for line in definition.body if isinstance(line, ast.FunctionDef))
    return {m.name for m in methods if any("property" in ast.unparse(d) for d in m.decorator_list)}


def faults(definition: ast.ClassDef) -> Iterator[str]:
    """Yield what its section lacks, and what it has too much.

    The operands of an operator may be left out: its formula names them. Constants of the class may
    be listed or not, and so may properties.
    """
    names = listed(ast.get_docstring(definition) or "")
    head = " ".join(map(ast.unparse, (*definition.decorator_list, *definition.bases)))
    fields = dict(annotated(definition))
    is_dataclass = "dataclass" in head or "define" in head
    needed = {
        name
        for name, kind in fields.items()
        if "ClassVar" not in kind and not (NODES.search(head) and OPERAND.search(kind))
    }
    set_by_methods = set() if is_dataclass else set(assigned(definition))
    needed |= set_by_methods
    for name in sorted(needed - set(names)):
        yield f"{definition.name} does not list {name}"
    for name in names:
        if name not in {*fields, *set_by_methods, *properties(definition)}:
            yield f"{definition.name} lists {name}, which it does not have"


def classes(text: str) -> list[ast.ClassDef]:
    """Return the classes of a module that have an ``Attributes:`` section."""
    if "Attributes:\n" not in text:
        return []
    found = (part for part in ast.parse(text).body if isinstance(part, ast.ClassDef))
    return [each for each in found if "Attributes:\n" in (ast.get_docstring(each) or "")]


def test_sections_of_attributes_are_complete() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {fault}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for definition in classes(path.read_text(encoding="utf-8"))
        for fault in faults(definition)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ("first: One.", "Pair does not list second"),
        ("first, second, third: Some.", "Pair lists third, which it does not have"),
        ("first, second: Both.", None),
    ],
)
def test_what_is_missing_and_what_is_too_much_is_found(section: str, fault: str | None) -> None:
    text = f'''
@dataclass
class Pair:
    """Two numbers.

    Attributes:
        {section}
    """

    first: int
    second: int
    _hidden: int
'''
    (definition,) = classes(text)
    assert list(faults(definition)) == ([] if fault is None else [fault])
