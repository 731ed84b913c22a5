"""One kernel source to one relocatable object, by numba and LLVM.

What is kept of numba is its typed lowering to LLVM; optimisation and code generation are ours. One
module pipeline runs once, after numba's calling convention has been wrapped in the C symbol, and
replaces numba's function passes, cheap pass, full pass and JIT emission. With LLVM's loop unrolling
off, a direct convolution takes 0.18 s instead of 0.6 s and runs as fast; what should be unrolled,
the generator of the source unrolls, or a loop of the SIMD layer asks for
(:mod:`glow_nb.simd.loops`).

Importing this module imports numba. Everything here depends on numba's compiler interface; the
rest of the package knows only ``compile_kernel``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager
from numba.core import compiler, cpu, errors, typed_passes, types, untyped_passes
from numba.core.codegen import AOTCodeLibrary, AOTCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager

from glow_nb.base.errors import CompileError
from glow_nb.codegen.c_library import C_LIBRARY
from glow_nb.codegen.debugging.kernel_lines import LoweringWithLines, with_debug_info
from glow_nb.codegen.kernel_errors import described, numbered
from glow_nb.codegen.kernel_lowering import KernelLowering
from glow_nb.codegen.numba_contexts import TargetContext, TypingContext
from glow_nb.codegen.separate_names import SeparateNames
from glow_nb.codegen.symbols import read_symbols
from glow_nb.codegen.target_machine import initialize_llvm, target_machine
from glow_nb.codegen.translate_bytecode import TranslateByteCode
from glow_nb.kernels.products.dot_choice import dots_of
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.simd.dot import functions_from_outside
from glow_nb.simd.instruction_sets import mark_instruction_sets
from glow_nb.simd.namespace import NAMESPACE
from glow_nb.simd.types import kernel_signature

PASSES = (
    (TranslateByteCode, "bytecode to numba's IR"),
    (untyped_passes.FixupArgs, "complete the arguments"),
    (SeparateNames, "one type per name"),
    (typed_passes.NopythonTypeInference, "infer types"),
    (typed_passes.NoPythonSupportedFeatureValidation, "reject what cannot be compiled"),
    (KernelLowering, "lower to LLVM"),
    (typed_passes.NoPythonBackend, "finish"),
)
"""numba's passes that generated text needs.

It has no closures, arrays or calls to inline, and no values with reference counts; to free such
values, numba would search for the last use of each.
"""

_WINDOWS = frozenset({"_fltused", "__chkstk"})
"""What any object with floats, and any with a large frame, needs of Windows' C library."""
ALLOWED_SYMBOLS = C_LIBRARY | _WINDOWS
"""What a kernel may leave for the loader to find: the C library's memory and math functions."""

COMPILER_FAILURES = (
    errors.NumbaError,
    errors.UnsupportedBytecodeError,
    SyntaxError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What faulty text provokes: numba lets whatever its typing and lowering meet escape as it is."""


class _KernelCompiler(compiler.CompilerBase):
    lowering: Any = KernelLowering

    def define_pipelines(self) -> list[Any]:
        manager = PassManager("kernel")
        for kernel_pass, reason in PASSES:
            is_lowering = kernel_pass is KernelLowering
            manager.add_pass(self.lowering if is_lowering else kernel_pass, reason)
        manager.finalize()
        return [manager]


class _DebugCompiler(_KernelCompiler):
    lowering = LoweringWithLines


class _Library(AOTCodeLibrary):
    """A code library that leaves the optimisation to us."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Do nothing: the whole module is optimised once, when it is complete."""


class _Codegen(AOTCPUCodegen):
    """A code generator whose modules say which instruction sets the processor has."""

    _library_class = _Library
    instruction_sets: frozenset[str] = frozenset()

    def _create_empty_module(self, name: str) -> Any:
        module = super()._create_empty_module(name)
        mark_instruction_sets(module, self.instruction_sets)
        return module


def compile_kernel(source: KernelSource, target: Target) -> bytes:
    """Return *source* as a relocatable object.

    Its one global symbol is ``source.symbol``, a C function
    ``void(pointers..., uint8_t *scratch, int64_t thread, int64_t threads)``.

    Raises:
        CompileError: The text does not compile, or needs something outside the C library.
    """
    module = _compile_module(source, target)
    payload: bytes = target_machine(target).emit_object(module)
    _check_symbols(payload, source, target)
    return payload


def compile_assembly(source: KernelSource, target: Target) -> str:
    """Return *source* as the assembly text of *target*, to be read; raise as for an object."""
    text: str = target_machine(target).emit_assembly(_compile_module(source, target))
    return text


def _compile_module(source: KernelSource, target: Target) -> Any:
    """Return the optimised LLVM module of *source*."""
    try:
        with global_compiler_lock, _garbage_collection_put_off():
            module = _lower(source, target)
            _optimize(module, source, target)
            if source.has_lines:
                module = llvm.parse_assembly(with_debug_info(str(module), source.symbol))
    except COMPILER_FAILURES as error:
        raise CompileError(described(source, error, _words())) from error
    return module


def _words() -> dict[str, Any]:
    """Return what kernels may call, by name."""
    return NAMESPACE | functions_from_outside()


@contextmanager
def _garbage_collection_put_off() -> Iterator[None]:
    """Disable garbage collection while the block runs.

    A kernel is 100,000 objects while it is compiled, and they are alive: to look through them again
    and again takes a tenth of the time and more.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _lower(source: KernelSource, target: Target) -> Any:
    """Return the unoptimised LLVM module of *source*, with the C symbol added."""
    names = _words()
    file_name = source.file_name if source.has_lines else f"<{source.family}>"
    exec(compile(source.text, file_name, "exec"), names)
    flags = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    flags.fastmath = cpu.FastMathOptions({"contract"})
    context = _target_context(target.instruction_sets | dots_of(target))
    result = compiler.compile_extra(
        context.typing_context,
        context,
        names["kernel"],
        kernel_signature(source.arguments).args,
        types.void,
        flags,
        {},
        pipeline_class=_DebugCompiler if source.has_lines else _KernelCompiler,
    )
    module = result.library._final_module
    module.link_in(llvm.parse_assembly(_wrapper(source, result.fndesc.llvm_func_name)))
    return module


@cache
def _target_context(instruction_sets: frozenset[str]) -> Any:
    """Return numba's code generation context over a code library that does not optimise."""
    initialize_llvm()
    codegen = _Codegen("glow_nb", "host")
    codegen.instruction_sets = instruction_sets
    context = TargetContext(TypingContext())
    return context.subtarget(_internal_codegen=codegen, aot_mode=True)


def _wrapper(source: KernelSource, mangled: str) -> str:
    """Return LLVM text of the C symbol, which calls numba's function.

    numba passes a place for the result and one for an exception first and returns a status; a
    kernel has no result and, without bounds checks and zero-division errors, no exception.

    The frame of a kernel begins at a whole vector. LLVM does not see to that for vectors that wait
    there because registers are few: half of them would cross cache lines, and GELU would take
    twice the time with AVX2.
    """
    pointers = [f"ptr %p{index}" for index in range(len(source.arguments))]
    arguments = ", ".join([*pointers, "ptr %scratch", "i64 %thread", "i64 %threads"])
    return f"""
declare i32 @"{mangled}"(ptr, ptr, {", ".join(["ptr"] * (len(pointers) + 1))}, i64, i64)

define void @{source.symbol}({arguments}) "stackrealign" {{
  %result = alloca ptr
  %exception = alloca ptr
  %status = call i32 @"{mangled}"(ptr %result, ptr %exception, {arguments})
  ret void
}}
"""


def _optimize(module: Any, source: KernelSource, target: Target) -> None:
    """Hide everything but the kernel's symbol and run LLVM's module pipeline once."""
    for function in module.functions:
        if not function.is_declaration and function.name != source.symbol:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    machine = target_machine(target)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = False
    options.loop_vectorization = True
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    with _disposed(builder.getModulePassManager()) as passes:
        passes.run(module, builder)
    module.verify()


@contextmanager
def _disposed(passes: Any) -> Iterator[Any]:
    """Give *passes* for the block, and free them.

    llvmlite never does, though both have the method: the one of the class that it inherits from
    first does nothing.
    """
    try:
        yield passes
    finally:
        NewPassManager._dispose(passes)
        passes.detach()


def _check_symbols(payload: bytes, source: KernelSource, target: Target) -> None:
    """Raise CompileError unless the object stands alone but for the C library."""
    symbols = read_symbols(payload)
    if symbols is None:
        raise CompileError(
            f"kernel {source.symbol}: the objects of {target.triple} are of a format whose symbols "
            "cannot be read and checked; use a 64-bit target with ELF, Mach-O or COFF objects"
        )
    foreign = sorted(name for name in symbols.undefined if name and name not in ALLOWED_SYMBOLS)
    if foreign:
        raise CompileError(
            f"kernel {source.symbol}: its object needs {', '.join(foreign)}, which only exists "
            f"inside Python or not at all; the generator of {source.family} must use the SIMD layer"
            f"\n{numbered(source)}"
        )
