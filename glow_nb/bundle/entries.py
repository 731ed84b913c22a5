"""The functions that C calls, as LLVM text, and the object of them.

They check what they are given, choose the variant, and call the entry of its program for each phase
and share. They have no memory of their own: which variant works on a block of tensors stands in
its head, where ``initialize`` has written it. What C does not call has a dot in its name, so that
no function of a model is called the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import llvmlite.binding as llvm

from glow_nb.bundle.codes import (
    MISALIGNED,
    NO_SUCH_SHARE,
    NOT_INITIALIZED,
    TILES_REFUSED,
    WRONG_CONSTANTS,
    WRONG_PROCESSOR,
)
from glow_nb.bundle.entry_texts import (
    BAD,
    BAD_OR_NO_SIZES,
    CHECKS,
    COPY_FED,
    FUNCTION,
    INITIALIZE,
    READY,
    VARIANT,
)
from glow_nb.bundle.filled import filled
from glow_nb.bundle.open_functions import open_functions_text, open_variant_text
from glow_nb.bundle.places import Place, Places, load_word
from glow_nb.bundle.plan import IDENTITY_OFFSET, VARIANT_BITS, Bundle, BundledFunction
from glow_nb.bundle.processor_check import TILES_NOT_GIVEN, chooser
from glow_nb.bundle.processors import platform_like
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.target_machine import target_machine


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
        "TILES_REFUSED": TILES_REFUSED,
        "TILES_NOT_GIVEN": TILES_NOT_GIVEN,
        "NOT_INITIALIZED": NOT_INITIALIZED,
        "NO_SUCH_SHARE": NO_SUCH_SHARE,
    }
    pieces = [
        chooser(
            f"{bundle.name}.choose",
            [variant.target for variant in bundle.variants],
            [variant.uses_tiles for variant in bundle.variants],
        ),
        *_names(bundle),
        filled(CHECKS, common),
        filled(INITIALIZE, common, COPIES=_first_values(bundle), **_name_cases(bundle)),
    ]
    if bundle.sizes:
        pieces.append(open_functions_text(bundle))
    for number, function in enumerate(bundle.functions):
        pieces += _function(bundle, number, function, common)
    entries = {_entry(bundle, v, native) for v, native in _numbered(bundle)}
    pieces += [f"declare void @{e}(ptr, ptr, ptr, ptr, i64, i64, i64, i64)" for e in entries]
    return "\n".join(pieces)


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
        lines += [
            *Place("constants", bundle.constants.offset_of(block)).lines(f"from{number}"),
            *Place("tensors", state.offset).lines(f"to{number}"),
            _copy(number, str(state.type.size_bytes)),
        ]
    if bundle.sizes:
        lines += [*Place("tensors", bundle.area_offset).lines("area"), "  store i64 -1, ptr %area"]
    return "\n".join(lines)


def _function(
    bundle: Bundle, number: int, function: BundledFunction, common: Mapping[str, object]
) -> Iterator[str]:
    """Yield the texts of one function, and of its variants."""
    called = f"{bundle.name}_{function.identifier}"
    variants = range(len(bundle.variants))
    given = "ptr %constants, ptr %tensors, ptr %arena" + (", ptr %sizes" if bundle.sizes else "")
    common = {**common, "GIVEN": given}
    cases = " ".join(f"i64 {v}, label %case{v}" for v in variants)
    calls = [f"{called}.v{v}.run({given})" for v in variants]
    parts = [f"{called}.v{v}.part({given}, i64 %thread, i64 %phase, i64 %share)" for v in variants]
    yield filled(
        FUNCTION,
        common,
        FUNCTION=called,
        BAD=filled(BAD_OR_NO_SIZES if bundle.sizes else BAD, common),
        CASES=cases,
        RUNS="\n".join(map(_case, variants, calls)),
        STEPS="\n".join(map(_case, variants, parts)),
    )
    for v, variant in enumerate(bundle.variants):
        native, work = variant.natives[number], f"{called}.v{v}"
        places = Places(bundle, function, native)
        ready = READY if bundle.sizes else "  br label %bind"
        yield filled(
            VARIANT,
            common,
            ENTRY=_entry(bundle, v, native),
            WORK=work,
            FED=_fed(function, places),
            LEAD=int(function.lead),
            PHASES=native.layout.phases,
            ALL_PHASES=native.layout.phases + function.lead,
            SHARES=native.threads,
            CONSTANTS=bundle.constants.offset_of(native.memory.constants),
            AREA="\n".join(Place("tensors", bundle.area_offset).lines("area")),
            SCRATCH="\n".join(places.scratch.lines("scratch")),
            BINDINGS=max(1, len(places.bound)),
            BIND="\n".join(places.bind_lines()),
            READY_TO_RUN=filled(ready, WORK=work, PHASE=0, SHARE=0),
            READY=filled(ready, WORK=work, PHASE="%phase", SHARE="%share"),
        )
        if bundle.sizes:
            yield open_variant_text(bundle, function, native, work)


def _case(variant: int, call: str) -> str:
    """Return what is done for *variant*, a *call* that returns the code."""
    return f"case{variant}:\n  %code{variant} = call i32 @{call}\n  ret i32 %code{variant}"


def _fed(function: BundledFunction, places: Places) -> str:
    """Return the lines that let outputs begin as copies of inputs, if there are such."""
    if not function.lead:
        return ""
    lines: list[str] = []
    for number, (source, output) in enumerate(function.fed):
        size_bytes = str(function.inputs[source].type.size_bytes)
        if places.area is not None:
            size_bytes = f"%bytes{number}"
            lines += load_word(places.area.tensor(source) + 1, size_bytes)
        lines += [
            *places.tensors[source].lines(f"from{number}"),
            *places.tensors[len(function.inputs) + output].lines(f"to{number}"),
            _copy(number, size_bytes),
        ]
    return filled(COPY_FED, COPIES="\n".join(lines))


def _copy(number: int, size_bytes: str) -> str:
    """Return the line that copies from ``%from<number>`` to ``%to<number>``."""
    return (
        f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{number}, ptr %from{number}, i64 {size_bytes}, "
        "i1 false)"
    )


def _signed(number: int) -> int:
    """Return the 64 bits of *number* as LLVM text writes them."""
    return number - (1 << 64) if number >> 63 else number
