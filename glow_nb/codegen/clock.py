"""The one native function that a profiled entry needs: it writes the time to an address.

Time is that of ``clock_gettime(CLOCK_MONOTONIC)`` in nanoseconds, the same clock on all cores and
as ``time.perf_counter_ns``; on Linux it is read without entering the kernel, in some 30 ns.
"""

from __future__ import annotations

import llvmlite.binding as llvm

from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target

STAMP_SYMBOL = "glow_stamp"

_LINUX_MONOTONIC, _DARWIN_MONOTONIC = 1, 6

_STAMP = """
define void @glow_stamp(ptr %place) {
  %now = alloca [2 x i64], align 8
  %status = call i32 @clock_gettime(i32 CLOCK, ptr %now)
  %seconds = load i64, ptr %now
  %rest_place = getelementptr i64, ptr %now, i64 1
  %rest = load i64, ptr %rest_place
  %whole = mul i64 %seconds, 1000000000
  %stamp = add i64 %whole, %rest
  store i64 %stamp, ptr %place
  ret void
}
declare i32 @clock_gettime(i32, ptr)
"""


def compile_clock(target: Target) -> bytes:
    """Return the object that defines ``glow_stamp(place)``."""
    is_darwin = "darwin" in target.triple or "macos" in target.triple
    clock = _DARWIN_MONOTONIC if is_darwin else _LINUX_MONOTONIC
    machine = target_machine(target)
    module = llvm.parse_assembly(_STAMP.replace("CLOCK", str(clock)))
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    module.verify()
    payload: bytes = machine.emit_object(module)
    return payload
