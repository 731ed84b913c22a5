"""The right to use tile registers: who is asked, who has it, and what a refusal means."""

import errno
import logging
import os
import re
import subprocess
import sys
import textwrap

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.kernels.target import Target
from glow_nb.system.first_core import first_core
from glow_nb.system.tile_registers import (
    TILE_FLAGS,
    TILES_VARIABLE,
    TileRegisters,
    answered,
    tile_registers,
)

HAS_TILES = set(first_core().get("flags", "").split()) >= TILE_FLAGS
NEEDS_TILES = pytest.mark.skipif(
    not tile_registers().are_usable, reason=f"no tiles (AMX): {tile_registers().refusal}"
)

TILE_CODE = """
import ctypes, faulthandler, mmap, os, sys, threading
from glow_nb.system.tile_registers import tile_registers

# ldtilecfg (%rdi); tilezero %tmm0; tilerelease; ret
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(bytes.fromhex("c4e2784907 c4e27b49c0 c4e27849c0 c3"))
code = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
configuration = bytes([1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8])

def use_tiles():
    code(configuration)

class SignalStack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

def set_signal_stack(size):
    room = ctypes.create_string_buffer(size)
    stack = SignalStack(ctypes.addressof(room), 0, size)
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
    return room
"""
"""What children begin with: a function that runs a tile instruction, by its bytes."""


def run(script: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run *script* behind :data:`TILE_CODE` in a process of its own; return what it prints."""
    text = TILE_CODE + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, *arguments, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


@NEEDS_TILES
def test_all_threads_may_use_tiles_whenever_they_were_started() -> None:
    script = """
        may_begin = threading.Event()
        early = threading.Thread(target=lambda: (may_begin.wait(), use_tiles()))
        early.start()
        assert tile_registers().are_usable
        may_begin.set()
        early.join()
        use_tiles()
        late = threading.Thread(target=use_tiles)
        late.start()
        late.join()
        print("done", "llvmlite" in sys.modules, "numba" in sys.modules)
    """
    assert run(script) == "done False False"


@NEEDS_TILES
@pytest.mark.parametrize("asks_first", [True, False])
def test_children_of_a_fork_may_use_tiles(asks_first: bool) -> None:
    script = f"""
        {asks_first} and tile_registers()
        child = os.fork()
        if not child:
            assert tile_registers().are_usable
            use_tiles()
            os._exit(0)
        print(os.waitpid(child, 0)[1])
    """
    assert run(script) == "0"


@NEEDS_TILES
@pytest.mark.parametrize("when", ["before", "after", "by an option"])
def test_faulthandler_does_not_keep_tiles_away(when: str) -> None:
    """It gives its thread a signal stack, which must hold the registers; pytest turns it on."""
    script = f"""
        {when == "before"} and faulthandler.enable()
        assert tile_registers().are_usable, tile_registers()
        {when == "after"} and faulthandler.enable()
        use_tiles()
        print(faulthandler.is_enabled())
    """
    assert run(script, *(["-X", "faulthandler"] if when == "by an option" else [])) == "True"


@NEEDS_TILES
def test_a_small_signal_stack_is_a_refusal_of_which_the_log_says_a_line() -> None:
    script = """
        import logging
        logging.basicConfig(format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
        room = set_signal_stack(8192)
        print(tile_registers().are_refused, tile_registers().are_usable)
        from glow_nb.system.processor import processor
        print(processor().endswith("tiles refused"))
    """
    line, *rest = run(script).splitlines()
    assert line == (
        "glow_nb WARNING tiles of the processor are not used: a thread has a signal stack "
        "(sigaltstack) that is too small for tiles (No space left on device)"
    )
    assert rest == ["True False", "True"]


@NEEDS_TILES
def test_a_signal_stack_with_room_is_no_refusal() -> None:
    script = """
        room = set_signal_stack(1 << 16)
        assert tile_registers().are_usable, tile_registers()
        use_tiles()
        print("done")
    """
    assert run(script) == "done"


def test_a_host_that_is_refused_has_a_processor_without_tiles() -> None:
    """It plans, keeps objects and names its processor as another one, and runs on."""
    script = """
        from glow_nb.kernels.target import Target
        from glow_nb.system.processor import processor
        print([name for name in Target.host().enabled_features if name.startswith("amx")])
        print(processor())
    """
    features, name = run(script, environment={TILES_VARIABLE: "off"}).splitlines()
    assert features == "[]"
    assert name.endswith(", tiles refused") == HAS_TILES


def test_a_host_has_the_tiles_that_it_may_use() -> None:
    named = {name.replace("-", "_") for name in Target.host().enabled_features}
    assert (named >= TILE_FLAGS) == tile_registers().are_usable


def never() -> int:
    raise AssertionError("the system is asked")


def test_a_processor_without_tiles_is_not_asked_for_them() -> None:
    found = answered(["avx512f", "amx_tile"], True, never)
    assert found == TileRegisters(exist=False, refusal="the processor has none")
    assert not found.are_refused


def test_a_user_may_refuse_them() -> None:
    found = answered(TILE_FLAGS, False, never)
    assert found.are_refused
    assert found.refusal == "GLOW_NB_TILES=off"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.EINVAL, "Linux does not know the right to tiles; 5.16 and later ones do"),
        (errno.EPERM, r"a sandbox forbids to ask for tiles \(Operation not permitted\)"),
        (errno.ENOSYS, "does not know the call"),
        (errno.ENOSPC, "signal stack"),
        (errno.EIO, r"the system refuses tiles \(Input/output error\)"),
    ],
)
def test_each_refusal_says_why(error: int, reason: str) -> None:
    found = answered(TILE_FLAGS, True, lambda: error)
    assert found.are_refused
    assert re.search(reason, found.refusal)


def test_a_right_that_is_given_is_no_refusal() -> None:
    found = answered(TILE_FLAGS, True, lambda: 0)
    assert found == TileRegisters(exist=True, refusal="")
    assert found.are_usable


def test_other_values_of_the_variable_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TILES_VARIABLE, "no")
    with pytest.raises(OptionError, match="GLOW_NB_TILES='no': give on or off"):
        tile_registers.__wrapped__()


def test_what_a_user_refuses_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(TILES_VARIABLE, "off")
    with caplog.at_level(logging.INFO, "glow_nb"):
        tile_registers.__wrapped__()
    assert [record.levelname for record in caplog.records] == ["INFO"] * HAS_TILES
