"""Debug information: what is in objects, shared objects and the folders of debuggers."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import CompileError, GlowError, OptionError, UnsupportedError
from glow_nb.base.types import Array
from glow_nb.codegen.compile import compile_kernel
from glow_nb.codegen.debugging import debug_folder
from glow_nb.codegen.debugging.debug_files import SOURCE_FOLDER, EntryLines
from glow_nb.codegen.debugging.debug_folder import CALLS, CODE, COMMANDS
from glow_nb.codegen.debugging.entry_lines import with_lines
from glow_nb.codegen.debugging.kernel_lines import with_debug_info
from glow_nb.codegen.elf_objects import debug_sections
from glow_nb.codegen.entry import generate_entry
from glow_nb.codegen.pool import _key
from glow_nb.codegen.shared_object import link_shared_object
from glow_nb.codegen.translate import compile_entry, translate_entry
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Exp, MatMul, Relu
from glow_nb.kernels.target import Target
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import instruction_lines, print_program
from glow_nb.system.cache_folder import CACHE_VARIABLE
from tests.unit.codegen.samples import Chain, source
from tests.unit.network.saved.models import dense_model, needs_loader

pytestmark = needs_loader

HOST = Target.host()
COPY = """
def kernel(dest, input, scratch, thread, threads):
    for i in range(8):
        put(dest, i, get(input, i))
"""
STACKED = """\
declare @main {
  %x = input float32<4>
  %y = output float32<4>
  %z = output float32<4>
}
program {
  relu @out %z, @in %x from %z
  stack {
    %sum = register float32<4>
    add @out %sum, @in %x, @in %x from %sum
    relu @out %y, @in %sum from %relu
  }
}
"""
ODD_NAME = 'a/../..\n"$(rm)'


def small(name: str = "product", second: str = "shown") -> Function:
    """Return ``exp(relu(x @ w) @ w)``, whose two products are named."""
    builder = glow_nb.Builder("small")
    x = builder.input("x", "float32<2 x 4>")
    w = builder.constant("w", np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
    first = builder.emit(Relu(builder.emit(MatMul(x, w), name=name)))
    builder.save(builder.emit(Exp(builder.emit(MatMul(first, w), name=second))), "y")
    return builder.function()


X: Array = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where folders for debuggers go."""
    monkeypatch.setattr(debug_folder, "default_folder", lambda: tmp_path)
    return tmp_path / "debug"


def program_file(folder: Path) -> Path:
    (path,) = folder.glob("program_*.glow")
    return path


def calls_of(folder: Path) -> list[dict[str, Any]]:
    (network,) = json.loads((folder / CALLS).read_text())
    assert network["file"] == program_file(folder).name
    calls: list[dict[str, Any]] = network["calls"]
    return calls


def debugged(function: Function | None = None, **options: Any) -> Any:
    return glow_nb.compile(function or small(), threads=1, debug=True, **options)


def test_a_kernel_with_lines_has_a_key_of_its_own_and_the_same_symbol() -> None:
    plain = source(COPY, arguments=2)
    lined = replace(plain, has_lines=True)
    assert lined.symbol == plain.symbol
    assert _key(lined, HOST) != _key(plain, HOST)


def test_only_an_object_that_is_asked_for_lines_has_debug_sections() -> None:
    plain = source(COPY, arguments=2)
    assert debug_sections(compile_kernel(plain, HOST)) == {}
    sections = debug_sections(compile_kernel(replace(plain, has_lines=True), HOST))
    names = {section.name for section in sections.values()}
    assert names >= {".debug_line", ".debug_info", ".debug_str"}
    (strings,) = [s.payload for s in sections.values() if s.name == ".debug_str"]
    words = set(strings.decode().split("\0"))
    assert words >= {plain.file_name, SOURCE_FOLDER, plain.symbol, "dest", "input", "float32"}


def test_the_debug_info_of_a_kernel_goes_to_its_symbol_unless_it_is_in_use() -> None:
    info = '!7 = distinct !DISubprogram(name: "k")'
    text = f"define void @k(ptr %0) #0 {{\n  ret void\n}}\n{info}"
    assert "define void @k(ptr %0) #0 !dbg !7 {" in with_debug_info(text, "k")
    used = f"define internal void @numba() !dbg !7 {{\n  ret void\n}}\n{text}"
    assert with_debug_info(used, "k") == used


def test_each_call_of_an_entry_gets_its_line() -> None:
    entry = generate_entry(Chain(3).calls, 2)
    text = with_lines(translate_entry(entry), entry.symbol, EntryLines("p.glow", 5, (6, 8, 13)))
    numbers = dict(re.findall(r"^(!\d+) = !DILocation\(.*line: (\d+),", text, re.MULTILINE))
    calls = re.findall(r"call void @glow_sample.* !dbg (!\d+)", text)
    assert [numbers[call] for call in calls] == ["6", "8", "13"]
    compile_entry(entry, HOST, EntryLines("p.glow", 5, (6, 8, 13)))  # LLVM takes it
    for wrong in ((6, 8), (6, 8, 13, 14)):
        with pytest.raises(CompileError, match="other calls than"):
            with_lines(translate_entry(entry), entry.symbol, EntryLines("p.glow", 5, wrong))


def test_an_entry_without_lines_has_no_debug_sections() -> None:
    assert debug_sections(compile_entry(generate_entry(Chain(3).calls, 2), HOST)) == {}


def test_instruction_lines_are_those_of_the_printed_program() -> None:
    program = parse_program(STACKED)
    begin, lines = instruction_lines(program)
    text = print_program(program).splitlines()
    assert text[begin - 1].startswith("program ")
    assert [text[line - 1].split()[0] for line in lines] == ["relu", "add"]


def test_linking_writes_the_folder_of_the_sources_and_keeps_each_string_once(
    tmp_path: Path,
) -> None:
    texts = [COPY, COPY.replace("8", "7")]
    sources = [replace(source(text, arguments=2), has_lines=True) for text in texts]
    objects = [compile_kernel(one, HOST) for one in sources]
    linked = link_shared_object(objects, str(tmp_path))
    assert linked.count(str(tmp_path).encode() + b"\0") == 1
    assert SOURCE_FOLDER.encode() not in linked
    assert linked.count(b"\0float32\0") == 1
    assert b".debug_line" in linked
    assert b".debug_line" not in link_shared_object(objects)


def test_a_debugged_network_computes_the_same_and_leaves_a_folder(folders: Path) -> None:
    net = debugged()
    (folder,) = folders.iterdir()
    assert net.debug_folder == folder
    plain = glow_nb.compile(small(), threads=1)
    assert isinstance(plain, glow_nb.CompiledNetwork)
    assert plain.debug_folder is None
    np.testing.assert_array_equal(net.run(X)["y"], plain.run(X)["y"])
    assert net.source == plain.source
    kernels = {f"{kernel.symbol}.py" for kernel in net.kernels}
    names = {path.name for path in folder.iterdir()}
    program = program_file(folder)
    assert names == {CODE, CALLS, COMMANDS, program.name, *kernels}
    text = program.read_text()
    assert text == print_program(net.program)
    for call in calls_of(folder):
        assert call["nodes"][0] in text.splitlines()[call["line"] - 1]
        assert call["operands"][0]["mode"] == "out"
    for kernel in net.kernels:
        whole = (folder / f"{kernel.symbol}.py").read_text()
        assert whole.startswith("# ") and "def kernel(" in whole
        assert f"# {kernel.symbol}" in whole  # what it computes, after the text


def test_a_folder_is_found_again_and_a_damaged_one_is_written_again(folders: Path) -> None:
    folder = debugged().debug_folder
    before = (folder / CODE).stat().st_ino
    assert debugged().debug_folder == folder
    assert (folder / CODE).stat().st_ino == before
    program_file(folder).write_text("")
    (folder / "of somebody").write_text("")
    assert debugged().debug_folder == folder
    assert program_file(folder).read_text().startswith("declare")
    assert [path.name for path in folders.iterdir()] == [folder.name]


def test_names_of_a_model_are_text_alone(folders: Path) -> None:
    folder = debugged(small(name=ODD_NAME)).debug_folder
    calls = calls_of(folder)
    assert any(ODD_NAME in call["nodes"] for call in calls)
    assert all(re.fullmatch(r"[\w.]+", path.name) for path in folder.iterdir())
    for path in folder.iterdir():
        assert ODD_NAME.encode() not in path.read_bytes()  # where it stands, it is quoted


def test_few_folders_are_kept(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_folder, "MOST_FOLDERS", 1)
    first = debugged().debug_folder
    os.utime(first, (1000, 1000))
    left = folders / ".a.1.2"
    left.mkdir()
    os.utime(left, (1000, 1000))
    second = debugged(small(second="other")).debug_folder
    assert [path.name for path in folders.iterdir()] == [second.name]


def test_a_folder_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_folder, "default_folder", lambda: tmp_path)
    (tmp_path / "debug").write_text("in the way")
    with pytest.raises(GlowError, match=rf"debug=True: .*{tmp_path}/debug.*; make room"):
        debugged()
    monkeypatch.setattr(debug_folder, "default_folder", lambda: None)
    with pytest.raises(GlowError, match="there is no cache folder; set GLOW_NB_CACHE_DIR"):
        debugged()


def test_an_interrupted_write_leaves_nothing(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Path.write_bytes

    def fail_at_code(path: Path, content: bytes) -> int:
        if path.name == CODE:
            raise KeyboardInterrupt
        return whole(path, content)

    monkeypatch.setattr(Path, "write_bytes", fail_at_code)
    with pytest.raises(KeyboardInterrupt):
        debugged()
    assert list(folders.iterdir()) == []


def test_a_debugged_network_is_not_kept(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_NB_CACHE_NETWORKS", "1")
    monkeypatch.setenv(CACHE_VARIABLE, str(folders.parent))
    model = dense_model().SerializeToString()
    glow_nb.compile(model, threads=1, debug=True)
    glow_nb.compile(model, threads=1, backend=glow_nb.Cpu(debug=True))
    assert not (folders.parent / "networks").exists()


def test_debug_info_needs_a_system_that_maps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_folder, "IS_SUPPORTED", False)
    with pytest.raises(UnsupportedError, match="debug=True: .* on Linux for x86-64 alone"):
        debugged()
    with pytest.raises(OptionError, match="debug="):
        glow_nb.compile(small(), debug="here")


def test_a_bundle_has_the_sources_of_its_debug_info(folders: Path, tmp_path: Path) -> None:
    place = tmp_path / "bundle"
    net = debugged()
    for _ in range(2):  # the second one replaces a bundle
        net.build(place)
    (library,) = place.glob("*.a")
    content = library.read_bytes()
    names = {path.name for path in (place / SOURCE_FOLDER).iterdir()}
    assert names == {path.name for path in next(folders.iterdir()).iterdir()} - {CODE}
    for name in names - {CALLS, COMMANDS}:
        assert name.encode() + b"\0" in content
    assert SOURCE_FOLDER.encode() + b"\0" in content
    glow_nb.compile(small(), threads=1).build(place)
    assert not (place / SOURCE_FOLDER).exists()
