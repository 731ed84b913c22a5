"""The functions that C calls, as LLVM text, and the object of them.

They check what they are given, choose the variant, and call the entry of its program for each phase
and share. They have no memory of their own: which variant works on a block of tensors stands in
its head, where ``initialize`` has written it. What C does not call has a dot in its name, so that
no function of a model is called the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Template

import llvmlite.binding as llvm

from glow_nb.bundle.plan import (
    IDENTITY_OFFSET,
    VARIANT_BITS,
    Bundle,
    BundledFunction,
    scratch_offset,
)
from glow_nb.bundle.processor_check import chooser
from glow_nb.bundle.processors import platform_like
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.target_machine import target_machine

MISALIGNED, WRONG_CONSTANTS, WRONG_PROCESSOR, NOT_INITIALIZED, NO_SUCH_SHARE = range(1, 6)
"""What a function returns that has done nothing; 0 is success."""

_CHECKS = """
define internal i1 @${NAME}.misaligned(ptr %a, ptr %b, ptr %c) {
  %x = ptrtoint ptr %a to i64
  %y = ptrtoint ptr %b to i64
  %z = ptrtoint ptr %c to i64
  %xy = or i64 %x, %y
  %xyz = or i64 %xy, %z
  %rest = and i64 %xyz, 63
  %odd = icmp ne i64 %rest, 0
  %no_x = icmp eq i64 %x, 0
  %no_y = icmp eq i64 %y, 0
  %no_z = icmp eq i64 %z, 0
  %no_xy = or i1 %no_x, %no_y
  %no = or i1 %no_xy, %no_z
  %bad = or i1 %odd, %no
  ret i1 %bad
}

define internal i64 @${NAME}.variant_in(ptr %tensors) {
  %word = load i64, ptr %tensors
  %number = and i64 %word, $LOW
  %rest = xor i64 %word, %number
  %ours = icmp eq i64 %rest, $IDENTITY
  %known = icmp ult i64 %number, $VARIANTS
  %good = and i1 %ours, %known
  %found = select i1 %good, i64 %number, i64 -1
  ret i64 %found
}
"""

_INITIALIZE = """
define i32 @${NAME}_initialize(ptr %constants, ptr %tensors) {
start:
  %bad = call i1 @${NAME}.misaligned(ptr %constants, ptr %tensors, ptr %tensors)
  br i1 %bad, label %misaligned, label %aligned
misaligned:
  ret i32 $MISALIGNED
aligned:
  %place = getelementptr i8, ptr %constants, i64 $IDENTITY_OFFSET
  %identity = load i64, ptr %place
  %ours = icmp eq i64 %identity, $IDENTITY
  br i1 %ours, label %choose, label %strange
strange:
  ret i32 $WRONG_CONSTANTS
choose:
  %number = call i64 @${NAME}.choose()
  %none = icmp slt i64 %number, 0
  br i1 %none, label %unable, label %fill
unable:
  ret i32 $WRONG_PROCESSOR
fill:
$COPIES
  %word = or i64 %number, $IDENTITY
  store i64 %word, ptr %tensors
  ret i32 0
}

define ptr @${NAME}_variant() {
  %number = call i64 @${NAME}.choose()
  switch i64 %number, label %none [ $NAME_CASES ]
none:
  ret ptr null
$NAME_RETURNS
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

_FUNCTION = """
define i32 @$FUNCTION(ptr %constants, ptr %tensors, ptr %arena) {
start:
  %bad = call i1 @${NAME}.misaligned(ptr %constants, ptr %tensors, ptr %arena)
  br i1 %bad, label %misaligned, label %choose
misaligned:
  ret i32 $MISALIGNED
choose:
  %number = call i64 @${NAME}.variant_in(ptr %tensors)
  switch i64 %number, label %none [ $CASES ]
none:
  ret i32 $NOT_INITIALIZED
$RUNS
}

define i32 @${FUNCTION}_share(ptr %constants, ptr %tensors, ptr %arena, i64 %thread, i64 %phase,
                            i64 %share) {
start:
  %bad = call i1 @${NAME}.misaligned(ptr %constants, ptr %tensors, ptr %arena)
  br i1 %bad, label %misaligned, label %count
misaligned:
  ret i32 $MISALIGNED
count:
  %is_thread = icmp ult i64 %thread, $THREADS
  br i1 %is_thread, label %choose, label %nobody
nobody:
  ret i32 $NO_SUCH_SHARE
choose:
  %number = call i64 @${NAME}.variant_in(ptr %tensors)
  switch i64 %number, label %none [ $CASES ]
none:
  ret i32 $NOT_INITIALIZED
$STEPS
}
"""

_VARIANT = """
define internal void @${WORK}.step(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena,
                                 i64 %thread, i64 %phase, i64 %share) {
start:
$FED
  %own_phase = sub i64 %phase, $LEAD
  %is_phase = icmp ult i64 %own_phase, $PHASES
  %is_share = icmp ult i64 %share, $SHARES
  %is_work = and i1 %is_phase, %is_share
  br i1 %is_work, label %work, label %done
work:
  %own = getelementptr i8, ptr %constants, i64 $CONSTANTS
  %scratch = getelementptr i8, ptr %arena, i64 $SCRATCH
  call void @$ENTRY(ptr %own, ptr %arena, ptr %bindings, ptr %scratch, i64 %thread,
                    i64 %own_phase, i64 %share, i64 $SHARES)
  br label %done
done:
  ret void
}

define internal void @${WORK}.bind(ptr %bindings, ptr %constants, ptr %tensors) {
$BIND
  ret void
}

define internal void @${WORK}.run(ptr %constants, ptr %tensors, ptr %arena) {
start:
  %bindings = alloca [$BINDINGS x ptr], align 16
  call void @${WORK}.bind(ptr %bindings, ptr %constants, ptr %tensors)
  br label %phase
phase:
  %number = phi i64 [ 0, %start ], [ %next, %after ]
  br label %share
share:
  %part = phi i64 [ 0, %phase ], [ %following, %share ]
  call void @${WORK}.step(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena, i64 0,
                        i64 %number, i64 %part)
  %following = add i64 %part, 1
  %more = icmp ult i64 %following, $SHARES
  br i1 %more, label %share, label %after
after:
  %next = add i64 %number, 1
  %again = icmp ult i64 %next, $ALL_PHASES
  br i1 %again, label %phase, label %end
end:
  ret void
}

define internal void @${WORK}.part(ptr %constants, ptr %tensors, ptr %arena, i64 %thread,
                                   i64 %phase, i64 %share) {
  %bindings = alloca [$BINDINGS x ptr], align 16
  call void @${WORK}.bind(ptr %bindings, ptr %constants, ptr %tensors)
  call void @${WORK}.step(ptr %bindings, ptr %constants, ptr %tensors, ptr %arena, i64 %thread,
                        i64 %phase, i64 %share)
  ret void
}
"""

_COPY_FED = """  %is_first = icmp eq i64 %phase, 0
  br i1 %is_first, label %feed, label %later
feed:
  %is_one = icmp eq i64 %share, 0
  br i1 %is_one, label %copy, label %done
copy:
$COPIES
  br label %done
later:"""


def compile_entries(bundle: Bundle) -> bytes:
    """Return the object of the functions that C calls."""
    # Also where none of the variants runs, these functions must.
    target = platform_like(bundle.variants[0].target).baseline
    machine = target_machine(target, speed=2)
    module = llvm.parse_assembly(entries_text(bundle))
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    module.verify()
    payload: bytes = machine.emit_object(module)
    return payload


def variant_prefix(bundle: Bundle, number: int) -> str:
    """Return what the symbols of variant *number* begin with."""
    return f"{bundle.name}_v{number}_"


def entries_text(bundle: Bundle) -> str:
    """Return the LLVM text of the functions."""
    common = {
        "NAME": bundle.name,
        "LOW": (1 << VARIANT_BITS) - 1,
        "IDENTITY": _signed(bundle.identity),
        "IDENTITY_OFFSET": IDENTITY_OFFSET,
        "VARIANTS": len(bundle.variants),
        "THREADS": bundle.threads,
        "MISALIGNED": MISALIGNED,
        "WRONG_CONSTANTS": WRONG_CONSTANTS,
        "WRONG_PROCESSOR": WRONG_PROCESSOR,
        "NOT_INITIALIZED": NOT_INITIALIZED,
        "NO_SUCH_SHARE": NO_SUCH_SHARE,
    }
    pieces = [
        chooser(f"{bundle.name}.choose", [variant.target for variant in bundle.variants]),
        *_names(bundle),
        _filled(_CHECKS, common),
        _filled(_INITIALIZE, common, COPIES=_first_values(bundle), **_name_cases(bundle)),
    ]
    for number, function in enumerate(bundle.functions):
        pieces += _function(bundle, number, function, common)
    entries = {_entry(bundle, v, native) for v, native in _numbered(bundle)}
    pieces += [f"declare void @{e}(ptr, ptr, ptr, ptr, i64, i64, i64, i64)" for e in entries]
    return "\n".join(pieces)


def _filled(text: str, *values: Mapping[str, object], **more: object) -> str:
    return Template(text).substitute({k: v for each in (*values, more) for k, v in each.items()})


def _numbered(bundle: Bundle) -> Iterator[tuple[int, NativeProgram]]:
    for number, variant in enumerate(bundle.variants):
        for native in variant.natives:
            yield number, native


def _entry(bundle: Bundle, number: int, native: NativeProgram) -> str:
    return variant_prefix(bundle, number) + native.entry.symbol


def _names(bundle: Bundle) -> Iterator[str]:
    """Yield the texts of the names of the variants."""
    for number, variant in enumerate(bundle.variants):
        text = variant.cpu.encode()
        kind = f"[{len(text) + 1} x i8]"
        yield f'@{bundle.name}.cpu{number} = private constant {kind} c"{variant.cpu}\\00"'


def _name_cases(bundle: Bundle) -> dict[str, str]:
    numbers = range(len(bundle.variants))
    returns = (f"case{n}:\n  ret ptr @{bundle.name}.cpu{n}" for n in numbers)
    return {
        "NAME_CASES": " ".join(f"i64 {n}, label %case{n}" for n in numbers),
        "NAME_RETURNS": "\n".join(returns),
    }


def _first_values(bundle: Bundle) -> str:
    lines: list[str] = []
    for number, (state, block) in enumerate(zip(bundle.states, bundle.first_values, strict=True)):
        source = bundle.constants.offset_of(block)
        lines += [
            f"  %from{number} = getelementptr i8, ptr %constants, i64 {source}",
            *_copy(number, state.offset, state.type.size_bytes),
        ]
    return "\n".join(lines)


def _copy(number: int, offset: int, size_bytes: int) -> list[str]:
    """Return the lines that copy from ``%from<number>`` to *offset* in the tensors."""
    return [
        f"  %to{number} = getelementptr i8, ptr %tensors, i64 {offset}",
        f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{number}, ptr %from{number}, i64 {size_bytes}, "
        "i1 false)",
    ]


def _function(
    bundle: Bundle, number: int, function: BundledFunction, common: Mapping[str, object]
) -> Iterator[str]:
    """Yield the texts of one function, and of its variants."""
    called = f"{bundle.name}_{function.identifier}"
    variants = range(len(bundle.variants))
    given = "ptr %constants, ptr %tensors, ptr %arena"
    parts = f"{given}, i64 %thread, i64 %phase, i64 %share"
    runs = (f"case{v}:\n  call void @{called}.v{v}.run({given})\n  ret i32 0" for v in variants)
    steps = (f"case{v}:\n  call void @{called}.v{v}.part({parts})\n  ret i32 0" for v in variants)
    yield _filled(
        _FUNCTION,
        common,
        FUNCTION=called,
        CASES=" ".join(f"i64 {v}, label %case{v}" for v in variants),
        RUNS="\n".join(runs),
        STEPS="\n".join(steps),
    )
    for v, variant in enumerate(bundle.variants):
        native = variant.natives[number]
        bind = _bind(bundle, function, native)
        yield _filled(
            _VARIANT,
            ENTRY=_entry(bundle, v, native),
            WORK=f"{called}.v{v}",
            FED=_fed(function),
            LEAD=int(bool(function.fed)),
            PHASES=native.layout.phases,
            ALL_PHASES=native.layout.phases + bool(function.fed),
            SHARES=native.threads,
            CONSTANTS=bundle.constants.offset_of(native.memory.constants),
            SCRATCH=scratch_offset(native),
            BINDINGS=max(1, len(bind)),
            BIND="\n".join(line for lines in bind for line in lines),
        )


def _bind(
    bundle: Bundle, function: BundledFunction, native: NativeProgram
) -> list[tuple[str, ...]]:
    """Return the lines that write the address of each tensor that a program is bound to."""
    states = {state.name: state.offset for state in bundle.states}
    places = [("constants", bundle.constants.offset_of(b)) for b in native.memory.borrowed]
    places += [("tensors", states[state.name]) for state in native.state]
    places += [("tensors", t.offset) for t in (*function.inputs, *function.outputs)]
    return [
        (
            f"  %a{n} = getelementptr i8, ptr %{space}, i64 {offset}",
            f"  %b{n} = getelementptr ptr, ptr %bindings, i64 {n}",
            f"  store ptr %a{n}, ptr %b{n}",
        )
        for n, (space, offset) in enumerate(places)
    ]


def _fed(function: BundledFunction) -> str:
    """Return the lines that let outputs begin as copies of inputs, if there are such."""
    if not function.fed:
        return ""
    lines: list[str] = []
    for number, (source, output) in enumerate(function.fed):
        tensor = function.inputs[source]
        lines += [
            f"  %from{number} = getelementptr i8, ptr %tensors, i64 {tensor.offset}",
            *_copy(number, function.outputs[output].offset, tensor.type.size_bytes),
        ]
    return _filled(_COPY_FED, COPIES="\n".join(lines))


def _signed(number: int) -> int:
    """Return the 64 bits of *number* as LLVM text writes them."""
    return number - (1 << 64) if number >> 63 else number
