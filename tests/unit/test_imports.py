"""What an import pulls in: the graph level must work without numba, and start quickly."""

import importlib
import itertools
import linecache
import subprocess
import sys
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import glow_nb

PACKAGE = Path(glow_nb.__file__).parent

WITHOUT_NUMBA = (
    "glow_nb",
    "glow_nb.hlir.ops",
    "glow_nb.hlir.optimize",
    "glow_nb.llir.instructions",
    "glow_nb.llir.optimize",
    "glow_nb.formats.onnx.importer",
    "glow_nb.network.api",
)


def test_importing_does_not_import_numba() -> None:
    script = (
        "import importlib, sys\n"
        f"for name in {WITHOUT_NUMBA}:\n"
        "    importlib.import_module(name)\n"
        "    if {'numba', 'llvmlite'} & set(sys.modules): print(name)\n"
    )
    assert printed(script) == ""


def printed(script: str) -> str:
    """Return what *script* prints in a new interpreter."""
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return finished.stdout.strip()


def test_importing_the_package_alone_imports_no_onnx() -> None:
    assert printed("import sys, glow_nb; glow_nb.compile; print('onnx' in sys.modules)") == "False"


def test_a_part_of_the_package_comes_alone() -> None:
    script = (
        "import sys, glow_nb.base.errors; print(*sorted(m for m in sys.modules if m[:4] == 'glow'))"
    )
    parts = ("errors", "override", "version")
    assert printed(script).split() == [
        "glow_nb",
        "glow_nb.base",
        *(f"glow_nb.base.{p}" for p in parts),
    ]


def test_rules_take_graphs_and_programs_before_anything_is_compiled() -> None:
    script = (
        "import glow_nb.extend; from glow_nb.base.rewriting import LEVELS;"
        "print(*sorted(level.__name__ for level in LEVELS))"
    )
    assert printed(script) == "Function Program"


def test_parsers_know_all_operators() -> None:
    """Also where nothing else has imported these."""
    graph = (
        "func @main(%x : float32<2>) -> (%y : float32<2>) {"
        " %a = relu(%x) : float32<2> %b = save(%a, %y) }"
    )
    program = (
        "declare @main { %x = input float32<2> %y = output float32<2> }"
        " program { relu @out %y, @in %x from %a }"
    )
    for level, parse, text in (("hlir", "module", graph), ("llir", "program", program)):
        script = f"from glow_nb.{level}.parse import parse_{parse}; print(parse_{parse}({text!r}))"
        assert "relu" in printed(script)


@pytest.mark.parametrize(
    "use",
    [
        "glow_nb.observers.Timing",
        "glow_nb.bisection.bisect, glow_nb.base.errors.GlowError",
        "pickle.loads(pickle.dumps(glow_nb.OptionError('x'))), glow_nb.hlir.ops.Relu",
    ],
)
def test_names_come_when_they_are_asked_for(use: str) -> None:
    assert printed(f"import pickle, glow_nb; {use}; print('there')") == "there"


def test_public_names_load_no_code_generator() -> None:
    loaded = "{'llvmlite', 'numba', 'onnx'} & set(sys.modules)"
    assert printed(f"import sys, glow_nb; glow_nb.GlowError; print({loaded})") == "set()"


def test_every_public_name_exists() -> None:
    from glow_nb.network import public_names

    assert {name for name in glow_nb.__all__ if not hasattr(glow_nb, name)} == set()
    assert {*glow_nb.__all__, "bisection", "observers"} <= set(dir(glow_nb))
    importlib.import_module("glow_nb.network.api")  # which becomes an attribute of the package
    others = {name for name in dir(glow_nb) if not name.startswith("__")} - {*glow_nb.__all__}
    assert others == {"bisection", "observers", "quant", "runtime", "train"}
    offered = {name for name in vars(public_names) if not name.startswith("__")}
    assert offered - {"annotations"} == set(glow_nb.__all__)


def test_all_names_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from glow_nb import *", names)
    assert {"compile", "Builder", "GlowError", "INFERENCE"} <= set(names)


def test_no_modules_import_each_other() -> None:
    """Imports inside functions and for type checkers count, too."""
    graph = grimp.build_graph("glow_nb", exclude_type_checking_imports=False, cache_dir=None)
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    require_order(imported)


def test_each_module_can_be_the_first_that_a_process_imports() -> None:
    """Who imports a module imports the packages that it is in first, but for those of its own."""
    graph = grimp.build_graph("glow_nb", exclude_type_checking_imports=True, cache_dir=None)
    begun = {
        name: {
            package
            for module in graph.find_modules_directly_imported_by(name)
            if is_imported_at_once(graph, name, module)
            for package in with_packages(module)
        }.difference(with_packages(name))
        for name in graph.modules
    }
    require_order(begun)


def is_imported_at_once(graph: grimp.ImportGraph, importer: str, imported: str) -> bool:
    """Return whether *importer* imports a module outside of its functions."""
    place = PACKAGE.parent / importer.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    lines = [
        linecache.getline(str(file), found["line_number"])
        for found in graph.get_import_details(importer=importer, imported=imported)
    ]
    return any(not line[0].isspace() for line in lines)


def with_packages(module: str) -> list[str]:
    """Return the packages that *module* is in, and it."""
    return list(itertools.accumulate(module.split("."), lambda above, part: f"{above}.{part}"))


def require_order(imported: Mapping[str, Collection[str]]) -> None:
    """Fail if modules that import others, as *imported* tells, do so in a circle."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' imports '.join(reversed(error.args[1]))}")


def test_the_root_is_a_table_of_contents() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(modules) <= 6, sorted(modules)


def test_a_name_that_does_not_exist() -> None:
    for name in ("no_such_thing", "__no_such_thing__"):
        with pytest.raises(AttributeError, match=f"module 'glow_nb' has no attribute '{name}'"):
            getattr(glow_nb, name)
