"""The object cache keeps what is intact and never returns anything else."""

import ast
import dataclasses
import errno
import itertools
import os
import resource
import stat
import threading
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.errors import GlowWarning
from glow_nb.codegen import cache
from glow_nb.codegen.cache import ObjectCache, object_key
from glow_nb.kernels.target import Target
from glow_nb.system import cache_folder
from glow_nb.system.cache_folder import CACHE_VARIABLE, default_folder

HOST = Target.host()
KEY = object_key("text", "float32", HOST)
OTHER_KEY = object_key("other text", "float32", HOST)
PAYLOAD = bytes(range(256)) * 4


@pytest.fixture(autouse=True)
def nothing_was_refused_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folder, "_TIMES_REFUSED", itertools.count())


def stored(folder: Path) -> tuple[ObjectCache, Path]:
    cache = ObjectCache(folder)
    cache.store("kernel", KEY, PAYLOAD)
    path = cache.path("kernel", KEY)
    assert path is not None
    assert path.exists()
    return ObjectCache(folder), path


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    cache, path = stored(tmp_path / "deep" / "folder")
    assert cache.load("kernel", KEY) == PAYLOAD
    assert path.read_bytes().startswith(PAYLOAD), "a tool for object files could not read it"


def test_absent(tmp_path: Path) -> None:
    assert ObjectCache(tmp_path / "nowhere").load("kernel", KEY) is None


def test_key_depends_on_everything_that_shapes_an_object() -> None:
    keys = {
        object_key("text", "float32", HOST),
        object_key("texts", "float32", HOST),
        object_key("text", "float64", HOST),
        object_key("textf", "loat32", HOST),
        object_key("text", "float32", dataclasses.replace(HOST, cpu="another")),
        object_key("text", "float32", dataclasses.replace(HOST, features="+more")),
        object_key("text", "float32", dataclasses.replace(HOST, triple="other")),
    }
    assert len(keys) == 7
    same = dataclasses.replace(HOST, l2_bytes=1, l3_bytes=1)
    assert object_key("text", "float32", same) == KEY


@given(length=st.integers(0, len(PAYLOAD) + 71))
def test_truncated_entry_is_absent(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    cache, path = stored(tmp_path_factory.mktemp("cache"))
    path.write_bytes(path.read_bytes()[:length])
    assert cache.load("kernel", KEY) is None


@given(position=st.integers(0, len(PAYLOAD) + 71), bit=st.integers(0, 7))
def test_entry_with_one_wrong_bit_is_absent(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    cache, path = stored(tmp_path_factory.mktemp("cache"))
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)
    assert cache.load("kernel", KEY) is None


def test_entry_of_another_key_is_absent(tmp_path: Path) -> None:
    cache, path = stored(tmp_path)
    other = cache.path("kernel", OTHER_KEY)
    assert other is not None
    path.rename(other)
    assert cache.load("kernel", OTHER_KEY) is None


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"x" * 5000])
def test_foreign_file_is_absent_and_replaced(tmp_path: Path, content: bytes) -> None:
    cache, path = stored(tmp_path)
    path.write_bytes(content)
    assert cache.load("kernel", KEY) is None
    cache.store("kernel", KEY, PAYLOAD)
    assert ObjectCache(tmp_path).load("kernel", KEY) == PAYLOAD


def test_folder_or_pipe_in_the_place_of_an_entry(tmp_path: Path) -> None:
    cache, path = stored(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert cache.load("kernel", KEY) is None
    path.unlink()
    path.mkdir()
    assert cache.load("kernel", KEY) is None
    with pytest.warns(GlowWarning, match="cannot be written: Is a directory"):
        cache.store("kernel", KEY, PAYLOAD)
    assert cache.load("kernel", KEY) == PAYLOAD
    assert not list(tmp_path.glob(".*.part"))


def test_cache_path_that_is_a_file(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("not a folder")
    cache = ObjectCache(place)
    with pytest.warns(GlowWarning, match="cannot be written: File exists"):
        cache.store("kernel", KEY, PAYLOAD)
    assert cache.load("kernel", KEY) == PAYLOAD
    assert ObjectCache(place).load("kernel", KEY) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    cache = ObjectCache(tmp_path)
    with pytest.warns(GlowWarning, match="cannot be written: Permission denied"):
        cache.store("kernel", KEY, PAYLOAD)
    assert cache.load("kernel", KEY) == PAYLOAD
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder even root cannot write")
def test_file_system_that_cannot_be_written() -> None:
    cache = ObjectCache(Path("/proc/glow_nb"))
    with pytest.warns(GlowWarning, match="/proc/glow_nb: cannot be written"):
        cache.store("kernel", KEY, PAYLOAD)
    assert cache.load("kernel", KEY) == PAYLOAD


def test_entry_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, _ = stored(tmp_path)

    def refuse(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, "refused")

    monkeypatch.setattr("glow_nb.codegen.cache.open_regular", refuse)
    assert cache.load("kernel", KEY) is None


def test_file_that_may_not_grow_leaves_nothing_behind(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    cache = ObjectCache(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.warns(GlowWarning, match="File too large"):
            cache.store("kernel", KEY, PAYLOAD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert cache.load("kernel", KEY) == PAYLOAD
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("function", ["fdopen", "replace"])
def test_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    cache = ObjectCache(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.warns(GlowWarning, match="cannot be written: no space left on device"):
            cache.store("kernel", KEY, PAYLOAD)
    assert cache.load("kernel", KEY) == PAYLOAD
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("not a folder")
    with pytest.warns(GlowWarning) as told:
        ObjectCache(place).store("kernel", KEY, PAYLOAD)
    ObjectCache(place).store("kernel", OTHER_KEY, PAYLOAD)  # a second warning would be an error
    (only,) = told
    assert str(only.message) == (
        f"cache folder {place}: cannot be written: File exists, so each process compiles "
        "again; make room or give access, or set GLOW_NB_CACHE_DIR to another folder"
    )


def test_a_folder_that_has_all_need_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was filled before it was mounted for reading."""
    cache, _ = stored(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only file system")

    monkeypatch.setattr(os, "utime", fail)
    monkeypatch.setattr("tempfile.mkstemp", fail)
    with warnings.catch_warnings(action="error"):
        assert cache.load_or_make("kernel", KEY, bytes) == PAYLOAD


def test_a_user_without_a_home_folder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/glow_nb"))
    with pytest.warns(GlowWarning, match="~/.cache/glow_nb: .*the user has no home"):
        assert default_folder() is None


def test_concurrent_writers_and_readers_see_whole_entries(tmp_path: Path) -> None:
    wrong: list[bytes] = []

    def work() -> None:
        for _ in range(100):
            cache = ObjectCache(tmp_path)
            cache.store("kernel", KEY, PAYLOAD)
            loaded = cache.load("kernel", KEY)
            if loaded != PAYLOAD:
                wrong.append(loaded or b"")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(list(tmp_path.iterdir())) == 1


def test_no_folder_at_all() -> None:
    cache = ObjectCache(None)
    cache.store("kernel", KEY, PAYLOAD)
    assert cache.load("kernel", KEY) == PAYLOAD
    assert cache.path("kernel", KEY) is None


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE_VARIABLE, "relative")
    assert default_folder() == tmp_path / "relative"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(CACHE_VARIABLE, "~/kernels")
    assert default_folder() == tmp_path / "kernels"
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    folder = default_folder()
    assert folder is not None
    assert folder.name == "glow_nb"


def test_trim_deletes_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    keys = {f"glow_{n}": object_key(f"text {n}", "", HOST) for n in range(4)}
    for age, (name, key) in enumerate(keys.items()):
        cache.store(name, key, PAYLOAD)
        path = cache.path(name, key)
        assert path is not None
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.load("glow_0", keys["glow_0"]) == PAYLOAD  # the oldest, but used just now
    (tmp_path / "other.o").write_bytes(PAYLOAD)
    size = sum(path.stat().st_size for path in tmp_path.glob("glow_*.o"))
    cache.trim(limit_bytes=size // 2)
    kept = [name for name, key in keys.items() if cache.load(name, key) is not None]
    assert kept == ["glow_0", "glow_3"]
    assert (tmp_path / "other.o").exists(), "not ours to delete"


def test_one_object_in_sixteen_has_the_folder_trimmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed: list[ObjectCache] = []
    monkeypatch.setattr(ObjectCache, "trim", lambda cache: trimmed.append(cache))
    cache = ObjectCache(tmp_path)
    for digit in "0123456789abcdef":
        cache.trim_after([f"{digit}{KEY[1:]}"])
    assert trimmed == [cache]
    cache.trim_after(["f" * 64, "0" * 64, "0" * 64])
    assert trimmed == [cache, cache]


def test_trim_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    ObjectCache(tmp_path / "nowhere").trim()
    ObjectCache(None).trim()
    assert list(tmp_path.iterdir()) == []


NOT_SHAPING = {
    "base.arguments",  # what is said of wrong rows of dot instructions
    "base.errors",  # what is said of kernels that do not compile
    "base.plan",  # a plan names a row; the text is made by it
    "base.size",  # kernels are made for sizes that are numbers
    "base.schema",  # rows are listed by it
    "kernels.target",  # a part of each key
    "kernels.writing.source",  # the text is a part of each key
    "codegen.entry",  # likewise
    "codegen.symbols",  # what an object is checked by
    "codegen.kernel_errors",  # texts of errors
    "base.override",  # a mark for checkers of types
    "system.sha256",  # of texts that count themselves
}


def test_what_the_compiler_is_made_of_identifies_it() -> None:
    """Each module that one of these imports is one of these, or is known to shape no object."""
    package = Path(glow_nb.__file__).parent
    listed = {name.removesuffix(".py").replace("/", ".") for name in cache._SHAPING}
    listed |= {f"simd.{path.stem}" for path in package.glob("simd/*.py")} | {"simd"}
    imported: set[str] = set()
    for name in listed - {"simd"}:
        tree = ast.parse((package / f"{name.replace('.', '/')}.py").read_text())
        imported |= {
            f"{node.module}.".removeprefix("glow_nb.").rstrip(".")
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glow_nb")
        }
    assert imported - listed <= NOT_SHAPING


def test_what_killed_writers_have_left_is_trimmed(tmp_path: Path) -> None:
    old, new = tmp_path / ".old.part", tmp_path / ".new.part"
    for file in (old, new):
        file.touch()
    os.utime(old, (0, 0))
    ObjectCache(tmp_path).trim()
    assert (old.exists(), new.exists()) == (False, True)
