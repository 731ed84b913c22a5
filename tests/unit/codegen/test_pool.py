"""Compiling sets of kernels: once each, from the cache, here or in workers that may fail."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from glow_nb.base.errors import CompileError, OptionError
from glow_nb.codegen import pool, workers
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.pool import choose_workers, compile_objects
from glow_nb.codegen.symbols import read_symbols
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from tests.in_turn import marked
from tests.unit.codegen.samples import Owner, run_python, source

pytestmark = pytest.mark.jit
HOST = Target.host()


def numbered(number: int) -> KernelSource:
    return source(
        f"def kernel(dest, scratch, thread, threads):\n    put(dest, 0, {number}.0)\n", arguments=1
    )


DEADLY = source("import os\nos.write(2, b'so long')\nos._exit(7)\n", arguments=1)
FAULTY = source("def kernel(dest, scratch, thread, threads):\n    nonsense()\n", arguments=1)


@pytest.mark.parametrize("count", marked([0, 1, 2, 3], only=[0, 2]))
def test_objects_by_symbol(owner: Owner, tmp_path: Path, count: int) -> None:
    sources = [numbered(number) for number in range(2)]
    objects = compile_objects(sources, HOST, cache=ObjectCache(tmp_path), workers=count)
    assert objects.keys() == {each.symbol for each in sources}
    for symbol, payload in objects.items():
        symbols = read_symbols(payload)
        assert symbols is not None
        assert symbols.defined == {symbol}


def test_workers_and_this_process_agree_byte_for_byte(owner: Owner) -> None:
    here = compile_objects([numbered(1)], HOST, cache=ObjectCache(None), workers=0)
    there = compile_objects([numbered(1)], HOST, cache=ObjectCache(None), workers=1)
    assert here == there


def test_nothing_to_do() -> None:
    assert compile_objects([], HOST, cache=ObjectCache(None)) == {}


class Recorder:
    """Stands in for the compilation and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compiled: list[str] = []
        monkeypatch.setattr(pool, "_compile_all", self._compile)

    def _compile(
        self, sources: Sequence[KernelSource], *_: object
    ) -> list[tuple[KernelSource, bytes]]:
        self.compiled += [each.symbol for each in sources]
        return [(each, each.symbol.encode()) for each in sources]


def test_equal_sources_compile_once_and_longest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    short, long = numbered(1), numbered(1_000_000)
    objects = compile_objects([short, long, short, long], HOST, cache=ObjectCache(None))
    assert recorder.compiled == [long.symbol, short.symbol]
    assert objects.keys() == {short.symbol, long.symbol}


def test_cached_objects_are_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    first = compile_objects([numbered(1)], HOST, cache=ObjectCache(tmp_path))
    again = compile_objects([numbered(1), numbered(2)], HOST, cache=ObjectCache(tmp_path))
    assert recorder.compiled == [numbered(1).symbol, numbered(2).symbol]
    assert again.items() >= first.items()


def test_the_order_of_objects_is_that_of_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Recorder(monkeypatch)
    sources = [numbered(1), numbered(1_000_000), numbered(2)]
    cache = ObjectCache(tmp_path)
    compile_objects(sources[2:], HOST, cache=cache)
    for _ in ("one is in the cache", "all are"):
        objects = compile_objects(sources, HOST, cache=cache)
        assert list(objects) == [each.symbol for each in sources]


def test_kernels_done_before_an_error_stay_in_the_cache(owner: Owner, tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    good = source(f"# {'long ' * 100}\n{numbered(1).text}", arguments=1)
    with pytest.raises(CompileError):
        compile_objects([good, FAULTY], HOST, cache=cache, workers=1)
    assert len(list(tmp_path.glob("*.o"))) == 1


@pytest.mark.parametrize("count", marked([0, 1, 2], slow=[2]))
def test_faulty_source(owner: Owner, count: int) -> None:
    with pytest.raises(CompileError, match=r"2 \|     nonsense\(\)"):
        compile_objects([numbered(1), FAULTY], HOST, cache=ObjectCache(None), workers=count)


def test_worker_that_dies_names_kernel_status_and_last_words(owner: Owner) -> None:
    with pytest.raises(CompileError) as raised:
        compile_objects([DEADLY], HOST, cache=ObjectCache(None), workers=1)
    assert DEADLY.symbol in str(raised.value)
    assert "status 7" in str(raised.value)
    assert "so long" in str(raised.value)


@pytest.mark.usefixtures("no_worker_waits")
@pytest.mark.parametrize("module", ["glow_nb.no_such_module", "this"])
def test_workers_that_do_not_start_are_done_without(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setattr(workers, "WORKER_MODULE", module)
    objects = compile_objects([numbered(1)], HOST, cache=ObjectCache(None), workers=2)
    assert numbered(1).symbol in objects


def test_worker_that_prints_does_not_disturb(owner: Owner) -> None:
    chatty = source(f"print('hello')\n{numbered(1).text}", arguments=1)
    objects = compile_objects([chatty], HOST, cache=ObjectCache(None), workers=1)
    assert chatty.symbol in objects


@pytest.mark.usefixtures("no_worker_waits")
@pytest.mark.parametrize("interpreter", ["", "/no/such/python", "/bin/an_application", None])
def test_interpreter_that_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, interpreter: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    objects = compile_objects([numbered(1)], HOST, cache=ObjectCache(None), workers=2)
    assert numbered(1).symbol in objects


def test_a_worker_compiles_small_sets_and_several_compile_large_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(pool.WORKERS_VARIABLE)
    monkeypatch.setattr(pool, "available_cores", lambda: 4)
    assert choose_workers([numbered(1)]) == 1
    assert choose_workers([numbered(i) for i in range(200)]) == 4
    monkeypatch.setattr(pool, "available_cores", lambda: 64)
    assert choose_workers([numbered(i) for i in range(1000)]) == 16
    monkeypatch.setenv(pool.WORKERS_VARIABLE, "0")
    assert choose_workers([numbered(1)]) == 0
    monkeypatch.setenv(pool.WORKERS_VARIABLE, "2")
    assert choose_workers([numbered(i) for i in range(200)]) == 2


@pytest.mark.parametrize("chosen", ["-1", "two", "1.5", "99999", "\u00b2"])
def test_the_environment_names_a_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    monkeypatch.setenv(pool.WORKERS_VARIABLE, chosen)
    with pytest.raises(OptionError, match="GLOW_NB_COMPILERS=.*: no number of processes that comp"):
        choose_workers([numbered(1)])


SCRIPT = """
from pathlib import Path
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.pool import compile_objects
from glow_nb.kernels.target import Target
from tests.unit.codegen.test_pool import numbered
sources = [numbered(i) for i in range(2)]
objects = compile_objects(sources, Target.host(), cache=ObjectCache(), workers=1)
assert len(objects) == 2
assert "numba" not in sys.modules
print("done")
"""


def test_a_script_needs_no_main_guard_and_workers_see_no_modules_of_its_folder(
    tmp_path: Path,
) -> None:
    for name in ("numba", "pickle", "struct", "random", "types"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    assert run_python(SCRIPT, tmp_path, "-P") == "done\n"


def test_daemon_without_standard_streams(tmp_path: Path) -> None:
    daemon = f"""
        import os, sys
        for stream in (0, 1, 2):
            os.close(stream)
        sys.stdin = sys.stdout = sys.stderr = None
        exec({SCRIPT.replace('print("done")', "")!r})
        open("result", "w").write("done")
    """
    run_python(daemon, tmp_path)
    assert (tmp_path / "result").read_text() == "done"


def test_interrupt_ends_the_workers(tmp_path: Path) -> None:
    script = """
        import os, signal, threading
        from glow_nb.codegen.cache import ObjectCache
        from glow_nb.codegen.pool import compile_objects
        from glow_nb.kernels.target import Target
        from tests.unit.codegen.test_pool import numbered
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
        sources = [numbered(i) for i in range(1000)]
        try:
            compile_objects(sources, Target.host(), cache=ObjectCache(None), workers=2)
        except KeyboardInterrupt:
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                print("no children left")
    """
    assert run_python(script, tmp_path) == "no children left\n"
