"""The reference has everything that it is about: names, options, variables, functions, files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import click
import pytest

import glow_nb
from glow_nb.base.errors import GlowError
from glow_nb.base.schema import attribute_specs, operand_specs
from glow_nb.cli import COMMANDS, main
from glow_nb.codegen.cache import MAGIC
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir import ops
from glow_nb.hlir.passes import GRAPH_PASSES
from glow_nb.network.saved import files
from glow_nb.network.saved.manifest import FORMAT
from glow_nb.simd.namespace import NAMESPACE
from website import errors, instructions, kernel_words, operators
from website.generated import PARTS
from website.links import ROOT
from website.names import MODULES, inherited_members, public_names, reference_of
from website.operators import family_of

REFERENCE = ROOT / "docs" / "reference"
SOURCES = sorted((ROOT / "glow_nb").rglob("*.py"))


@cache
def part(name: str) -> str:
    return PARTS[name]()


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def documented() -> set[str]:
    """Return the names that mkdocstrings documents, or that are said to be another one."""
    texts = [text for name in PARTS if name.startswith("names_of") for text in [part(name)]]
    whole = "\n".join([*texts, part("errors")])
    return {*re.findall(r"^::: (\S+)", whole, re.M), *re.findall(r"\{ #(\S+) \}", whole)}


def test_members_of_bases_without_an_entry_are_in_the_reference() -> None:
    members = inherited_members(glow_nb.Network)
    assert {"build", "kernels", "memory", "report", "source"} <= set(members)
    assert f"inherited_members: [{', '.join(members)}]" in reference_of("glow_nb")
    assert not set(members) & set(inherited_members(glow_nb.CompiledNetwork))
    assert "guards" in inherited_members(glow_nb.CompiledNetwork)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    wanted = {f"{module}.{name}" for name in public_names(module)}
    assert wanted - documented() == set()


def test_every_name_of_the_package_is_public_in_the_reference() -> None:
    assert {f"glow_nb.{name}" for name in glow_nb.__all__} <= documented()


@pytest.mark.parametrize("module", MODULES)
def test_no_group_names_what_is_not_public(module: str) -> None:
    grouped = {name for names in MODULES[module].values() for name in names.split()}
    assert grouped - set(public_names(module)) == set()


def test_every_name_that_pages_import_is_in_the_reference() -> None:
    known = {id(resolve_name(name)) for name in documented()}
    known |= {id(getattr(ops, name)) for name in ops.__all__}
    missing = {
        (page.name, name)
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for name, value in imported_by(page)
        if id(value) not in known and not isinstance(value, ModuleType) and page.name not in INSIDE
    }
    assert missing == set()


INSIDE = ("porting.md",)
"""Pages about parts of the package that are not public."""


def imported_by(page: Path) -> Iterator[tuple[str, object]]:
    """Yield what the Python of *page* imports from the package, by its whole name."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glow_nb"):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name, resolve_name(name)


def test_every_part_has_a_page() -> None:
    placed = {
        n for p in REFERENCE.glob("*.md") for n in re.findall(r"generated: (\w+)", p.read_text())
    }
    assert placed == set(PARTS)


def test_every_error_is_listed() -> None:
    def below(error: type[GlowError]) -> Iterator[type[GlowError]]:
        yield error
        for other in error.__subclasses__():
            yield from below(other)

    public = {e for e in below(GlowError) if e.__module__.startswith("glow_nb.base.")}
    assert public - set(errors.classes()) == set()
    assert all(error.__name__ in part("errors") for error in errors.classes())


def test_every_operator_is_there_with_its_fields() -> None:
    assert {c.__name__ for c in operators.operators()} == set(ops.__all__)
    for operator in operators.operators():
        entry = part("operators").partition(f"### `{operator.opcode}` {{")[2].partition("\n### ")[0]
        assert all(f"`{s.name}`" in entry for s in operand_specs(operator)), operator
        assert all(f"| `{s.name}` |" in entry for s in attribute_specs(operator)), operator


def test_every_attribute_has_a_meaning() -> None:
    rows = [line for line in part("operators").splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_instruction_is_there() -> None:
    text = part("instructions")
    missing = [opcode for opcode in instructions.instructions() if f"`{opcode}`" not in text]
    assert missing == []


def test_every_pass_is_there() -> None:
    for passes in (GRAPH_PASSES.passes, PROGRAM_PASSES.passes):
        own = [name for name in passes if passes[name].__module__.startswith("glow_nb.")]
        assert [name for name in own if f"### `{name}` {{" not in part("passes")] == []


def test_every_function_of_kernels_is_there_and_says_what_it_does() -> None:
    found = [name for names in kernel_words.members().values() for name in names]
    assert set(found) == set(NAMESPACE)
    rows = [line for line in part("kernels").splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []


def test_kinds_of_arguments_are_said_by_their_names() -> None:
    kinds = kernel_words.argument_kinds(kernel_words.definition_of("load_masked"))
    assert kinds == {
        "pointer": "pointer",
        "index": "integer",
        "lanes": "integer literal",
        "count": "integer",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_there(name: str) -> None:
    command = main.commands[name]
    entry = part("commands").partition(f"## `glow-nb {name}` ")[2].partition("\n## ")[0]
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    assert [p.opts for p in options if not any(opt in entry for opt in p.opts)] == []


def test_the_page_about_running_models_shows_every_command() -> None:
    text = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    shown = re.findall(r"^glow-nb ([\w-]+)", text, re.MULTILINE)
    assert set(COMMANDS) - set(shown) == set()


def test_every_variable_of_the_environment_is_there() -> None:
    strings = {
        node.value
        for path in SOURCES
        if "GLOW_NB_" in path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    used = {text for text in strings if re.fullmatch(r"GLOW_NB_[A-Z_]*[A-Z]", text)}
    listed = set(re.findall(r"^\| `(GLOW_NB_\w+)`", page("environment.md"), re.MULTILINE))
    assert used == listed


def test_the_formats_are_those_that_are_written() -> None:
    text = page("files.md")
    names = (files.MANIFEST, files.CONSTANTS, files.SUMS, FORMAT, MAGIC.decode())
    assert [name for name in names if name not in text] == []


def test_each_family_is_a_file() -> None:
    places = {family_of(operator) for operator in operators.operators()}
    folder = Path(ops.__file__).parent
    assert [place for place in places if not (folder / f"{place}.py").exists()] == []
