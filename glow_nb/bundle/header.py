"""The C header of a bundle: sizes, tensors with their places, and the functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.types import ElementKind
from glow_nb.base.version import __version__
from glow_nb.bundle.entries import (
    MISALIGNED,
    NO_SUCH_SHARE,
    NOT_INITIALIZED,
    WRONG_CONSTANTS,
    WRONG_PROCESSOR,
)
from glow_nb.bundle.identifiers import c_string
from glow_nb.bundle.plan import Bundle, BundledFunction, PlacedTensor

_RESULTS = {
    "MISALIGNED": (MISALIGNED, "an address is null, or no multiple of the alignment"),
    "WRONG_CONSTANTS": (WRONG_CONSTANTS, "the constants are those of another bundle"),
    "WRONG_PROCESSOR": (WRONG_PROCESSOR, "the code is for processors that can do more"),
    "NOT_INITIALIZED": (NOT_INITIALIZED, "the tensors were not initialized for this bundle"),
    "NO_SUCH_SHARE": (NO_SUCH_SHARE, "there are fewer threads"),
}


def header_of(bundle: Bundle, *, embedded: bool) -> str:
    """Return the text of the header; *embedded* constants are an object of the library."""
    return "\n".join([*_begin(bundle), *_body(bundle, embedded=embedded), *_end()]) + "\n"


def npy_type(kind: ElementKind) -> str:
    """Return what a ``.npy`` file says of elements of *kind*."""
    return str(np.lib.format.dtype_to_descr(kind.dtype))


def _begin(bundle: Bundle) -> Iterator[str]:
    guard = f"GLOW_NB_BUNDLE_{bundle.name}_H"
    cpus = ", ".join(variant.cpu for variant in bundle.variants)
    yield f"/* {bundle.name}: a neural network as object code, for {bundle.triple} ({cpus})."
    yield f"   Made by glow_nb {__version__}; README.md says how to use it."
    yield ""
    yield "   Three blocks of memory are given to each call; each begins at a multiple of the"
    yield "   alignment. Constants are only read. Tensors hold states, inputs and outputs. The"
    yield "   arena is working memory. Two calls may run at the same time if each has tensors and"
    yield "   an arena of its own. */"
    yield from (f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>", "")
    yield from ("#ifdef __cplusplus", 'extern "C" {', "#endif", "")


def _end() -> Iterator[str]:
    yield from ("", "#ifdef __cplusplus", "}", "#endif", "", "#endif")


def _body(bundle: Bundle, *, embedded: bool) -> Iterator[str]:
    name, macro = bundle.name, bundle.name.upper()
    sizes = {
        "ALIGNMENT": (ALIGNMENT, "of the first byte of each block"),
        "CONSTANTS_BYTES": (bundle.constants.size_bytes, "size of the constants"),
        "TENSORS_BYTES": (bundle.tensors_bytes, "size of the tensors"),
        "ARENA_BYTES": (bundle.arena_bytes, "size of the arena"),
        "THREADS": (bundle.threads, "threads that can share a run, at most"),
    }
    for item, (size, meaning) in sizes.items():
        yield f"#define {macro}_{item} {size}u /* {meaning} */"
    yield ""
    yield "/* What functions return; 0 is success. */"
    for item, (code, meaning) in _RESULTS.items():
        yield f"#define {macro}_{item} {code} /* {meaning} */"
    yield ""
    if embedded:
        yield f"/* The constants, aligned; {macro}_CONSTANTS_BYTES of them. */"
        yield f"extern const unsigned char {name}_constants[];"
        yield ""
    yield "/* Prepare tensors, once before their first run: states get their first values. A copy"
    yield "   of the block is good on this processor alone; of states, keep the bytes. */"
    yield f"int {name}_initialize(const void *constants, void *tensors);"
    yield ""
    yield "/* The processor whose code this one runs; null if there is no code that it can run. */"
    yield f"const char *{name}_variant(void);"
    for function in bundle.functions:
        yield ""
        yield from _prototypes(bundle, function)
    yield ""
    yield from _table_type(bundle)
    yield from _tensors(bundle, f"{name}_states", bundle.states, f"{macro}_STATE")
    for function in bundle.functions:
        own = f"{name}_{function.identifier}"
        yield from _tensors(bundle, f"{own}_inputs", function.inputs, f"{own.upper()}_INPUT")
        yield from _tensors(bundle, f"{own}_outputs", function.outputs, f"{own.upper()}_OUTPUT")
    yield from _functions(bundle)


def _prototypes(bundle: Bundle, function: BundledFunction) -> Iterator[str]:
    own = f"{bundle.name}_{function.identifier}"
    yield f"/* Run {c_string(function.name)} on the calling thread. */"
    yield f"int {own}(const void *constants, void *tensors, void *arena);"
    yield ""
    yield "/* Do one share of one phase of a run. All shares of a phase, from 0 to THREADS - 1, may"
    yield "   be done at the same time, by threads with different numbers; all are done before the"
    yield f"   next phase begins. {bundle.name}_pool.c does so, if there are several threads. */"
    yield f"#define {own.upper()}_PHASES {function.phases}u"
    yield f"int {own}_share(const void *constants, void *tensors, void *arena,"
    yield f"{' ' * (len(own) + 11)}size_t thread, size_t phase, size_t share);"


def _table_type(bundle: Bundle) -> Iterator[str]:
    name, macro = bundle.name, bundle.name.upper()
    tensors = [*bundle.states, *(t for f in bundle.functions for t in (*f.inputs, *f.outputs))]
    rank = max([1, *(tensor.type.rank for tensor in tensors)])
    yield f"#define {macro}_MAX_RANK {rank}u"
    yield "typedef struct {"
    yield "    const char *name; /* in the model, in UTF-8 */"
    yield "    const char *type; /* of an element, as float32 */"
    yield "    const char *npy;  /* of an element, as .npy files say it */"
    yield "    size_t offset;    /* in the tensors, in bytes */"
    yield "    size_t bytes;"
    yield "    size_t rank;"
    yield f"    size_t shape[{macro}_MAX_RANK];"
    yield "    int count;        /* output that tells how much of an axis there is; or -1 */"
    yield "    int axis;         /* which axis */"
    yield f"}} {name}_tensor;"
    yield ""
    yield "typedef struct {"
    yield "    const char *name; /* in the model, in UTF-8 */"
    yield "    int (*run)(const void *constants, void *tensors, void *arena);"
    yield f"    const {name}_tensor *inputs;"
    yield "    size_t input_count;"
    yield f"    const {name}_tensor *outputs;"
    yield "    size_t output_count;"
    yield f"}} {name}_function;"


def _tensors(
    bundle: Bundle, table: str, tensors: Sequence[PlacedTensor], macro: str
) -> Iterator[str]:
    """Yield the macros of some tensors, and the table of them, which C wants not to be empty."""
    yield ""
    yield f"#define {macro}_COUNT {len(tensors)}u"
    for number, tensor in enumerate(tensors):
        yield f"/* {c_string(tensor.name)}: {tensor.type} */"
        yield f"#define {macro}_{number}_OFFSET {tensor.offset}u"
        yield f"#define {macro}_{number}_BYTES {tensor.type.size_bytes}u"
    yield f"static const {bundle.name}_tensor {table}[{max(1, len(tensors))}] = {{"
    for tensor in tensors:
        kind, sizes = tensor.type.kind, ", ".join(map(str, tensor.type.shape)) or "0"
        yield f'    {{{c_string(tensor.name)}, "{kind.value}", "{npy_type(kind)}", {tensor.offset},'
        yield f"     {tensor.type.size_bytes}, {tensor.type.rank}, {{{sizes}}}, {tensor.count},"
        yield f"     {tensor.axis}}},"
    if not tensors:
        yield "    {0, 0, 0, 0, 0, 0, {0}, -1, 0},"
    yield "};"


def _functions(bundle: Bundle) -> Iterator[str]:
    name, macro = bundle.name, bundle.name.upper()
    yield ""
    yield f"#define {macro}_FUNCTION_COUNT {len(bundle.functions)}u"
    yield f"static const {name}_function {name}_functions[{len(bundle.functions)}] = {{"
    for function in bundle.functions:
        own = f"{name}_{function.identifier}"
        capital = own.upper()
        yield f"    {{{c_string(function.name)}, {own}, {own}_inputs, {capital}_INPUT_COUNT,"
        yield f"     {own}_outputs, {capital}_OUTPUT_COUNT}},"
    yield "};"
