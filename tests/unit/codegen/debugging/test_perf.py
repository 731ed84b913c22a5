"""What perf is told of code in memory: the map, the dump, and what is refused."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import glow_nb
from glow_nb.base.errors import GlowError, OptionError, UnsupportedError
from glow_nb.codegen.debugging import PERF_VARIABLE, perf
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.kernels.target import Target
from tests.unit.codegen.test_shared_object import CALLEE, CALLER, compiled
from tests.unit.network.saved.models import dense_model, needs_loader

pytestmark = needs_loader

NODES = {"caller": 'conv\n1 "x"'}


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let files go to the test's folder, and forget those that are open."""
    monkeypatch.setattr(perf, "_MAP_FOLDER", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(perf, "_OPEN", {})
    monkeypatch.setattr(perf, "_DUMPED", [])
    yield
    for stream in perf._OPEN.values():
        stream.close()


def told(wanted: str, monkeypatch: pytest.MonkeyPatch) -> LoadedCode:
    monkeypatch.setenv(PERF_VARIABLE, wanted)
    objects = {"caller": compiled(CALLER), "callee": compiled(CALLEE)}
    code = LoadedCode(objects.values(), Target.host())
    perf.tell_perf(code, objects, NODES)
    return code


def test_nothing_is_written_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("", monkeypatch)
    assert list(tmp_path.iterdir()) == []


def test_the_map_has_a_line_for_each_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"perf-{os.getpid()}.map"
    path.write_text("of an earlier process with this number\n")
    codes = [told("map", monkeypatch), told("map", monkeypatch)]
    lines = [line.split(" ", 2) for line in path.read_text().splitlines()]
    assert [name for _, _, name in lines] == 2 * ['caller [conv?1 "x"]', "callee"]
    found = [int(address, 16) for address, _, _ in lines]
    assert found == [code.address(name) for code in codes for name in ("caller", "callee")]
    assert all(int(size, 16) > 0 for _, size, _ in lines)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_dump_has_the_code_of_each_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("jitdump", monkeypatch)
    (path,) = tmp_path.iterdir()
    assert path.name == f"jit-{os.getpid()}.dump"
    content = path.read_bytes()
    magic, version, header_bytes, machine, _, process, _, flags = struct.unpack_from(
        "<IIIIIIQQ", content
    )
    assert (magic, version, machine, process, flags) == (0x4A695444, 1, 62, os.getpid(), 0)
    place, names = header_bytes, []
    while place < len(content):
        kind, size, _, process, _, memory, address, code_bytes, _ = struct.unpack_from(
            "<IIQIIQQQQ", content, place
        )
        assert (kind, process, memory) == (0, os.getpid(), address)
        name, _, code = content[place + 56 : place + size].partition(b"\0")
        assert len(code) == code_bytes > 0
        names.append(name.decode())
        place += size
    assert names == ['caller [conv?1 "x"]', "callee"]
    maps = Path("/proc/self/maps").read_text()
    assert any(path.name in line and " r-xp " in line for line in maps.splitlines())


def test_a_long_name_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NODES, "callee", "n" * 10_000)
    told("map", monkeypatch)
    (path,) = tmp_path.iterdir()
    assert max(len(line) for line in path.read_text().splitlines()) < perf.LONGEST_NAME + 40


def test_what_is_no_choice_is_refused_before_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PERF_VARIABLE, "yes")
    with pytest.raises(OptionError, match="GLOW_NB_PERF='yes': give map .* or jitdump"):
        glow_nb.compile(dense_model(), threads=1)
    monkeypatch.setenv(PERF_VARIABLE, "map")
    monkeypatch.setattr(perf.sys, "platform", "darwin")  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="perf is a tool of Linux"):
        glow_nb.compile(dense_model(), threads=1)


def test_a_file_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf, "_MAP_FOLDER", tmp_path / "nowhere")
    with pytest.raises(GlowError, match=r"nowhere/perf-\d+.map: cannot be written"):
        told("map", monkeypatch)


def test_a_link_in_the_way_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    (tmp_path / f"perf-{os.getpid()}.map").symlink_to(victim)
    with pytest.raises(GlowError, match="cannot be written"):
        told("map", monkeypatch)
    assert not victim.exists()


def test_the_kernels_of_a_network_are_told_with_the_nodes_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PERF_VARIABLE, "map")
    monkeypatch.setenv("GLOW_NB_CACHE_NETWORKS", "1")
    net = glow_nb.compile(dense_model().SerializeToString(), threads=1)
    text = (tmp_path / f"perf-{os.getpid()}.map").read_text()
    for kernel in net.kernels:
        assert f" {kernel.symbol} [%" in text
    assert " glow_entry_" in text
    assert " glow_team_run" in text
