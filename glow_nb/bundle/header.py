"""The C header of a bundle: sizes, tensors with their places, and the functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.size import symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.base.version import __version__
from glow_nb.bundle.codes import MEANINGS, MEANINGS_OF_SIZES, MEANINGS_OF_TILES
from glow_nb.bundle.identifiers import c_string
from glow_nb.bundle.open_header import range_table, sizes_type
from glow_nb.bundle.plan import Bundle, BundledFunction, PlacedTensor


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
    yield from (f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>")
    if bundle.sizes:
        yield "#include <stdint.h>"
    yield ""
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
    if bundle.sizes:  # which these two depend on
        del sizes["TENSORS_BYTES"], sizes["ARENA_BYTES"]
    for item, (size, meaning) in sizes.items():
        yield f"#define {macro}_{item} {size}u /* {meaning} */"
    yield ""
    yield "/* What functions return; 0 is success. */"
    meanings = {**MEANINGS, **(MEANINGS_OF_SIZES if bundle.sizes else {})}
    meanings |= MEANINGS_OF_TILES if bundle.uses_tiles else {}
    for item, (code, meaning) in meanings.items():
        yield f"#define {macro}_{item} {code} /* {meaning} */"
    yield ""
    if embedded:
        yield f"/* The constants, aligned; {macro}_CONSTANTS_BYTES of them. */"
        yield f"extern const unsigned char {name}_constants[];"
        yield ""
    yield "/* Prepare tensors, once before their first run: states get their first values. A copy"
    yield "   of the block is good on this processor alone; of states, keep the bytes. It"
    yield "   checks that the constants are those of this bundle; a run does not. */"
    if bundle.uses_tiles:
        yield "/* It asks the system for the right to use tile registers, which then all threads of"
        yield f"   the process have; so does {name}_variant, in a process that runs with tensors"
        yield "   which another one has initialized. */"
    yield f"int {name}_initialize(const void *constants, void *tensors);"
    yield ""
    yield "/* The processor whose code this one runs; null if there is no code that it can run. */"
    yield f"const char *{name}_variant(void);"
    yield ""
    if bundle.sizes:
        yield from sizes_type(bundle)
        yield ""
    yield from _tensor_type(bundle)
    for function in bundle.functions:
        yield ""
        yield from _prototypes(bundle, function)
    yield ""
    yield from _function_type(bundle)
    yield from range_table(bundle)
    yield from _tensors(bundle, f"{name}_states", bundle.states, f"{macro}_STATE")
    for function in bundle.functions:
        own = f"{name}_{function.identifier}"
        yield from _tensors(bundle, f"{own}_inputs", function.inputs, f"{own.upper()}_INPUT")
        yield from _tensors(bundle, f"{own}_outputs", function.outputs, f"{own.upper()}_OUTPUT")
    yield from _functions(bundle)


def parameters_of(bundle: Bundle) -> str:
    """Return the parameters of a run."""
    sizes = f", const {bundle.name}_sizes *sizes" if bundle.sizes else ""
    return f"const void *constants, void *tensors, void *arena{sizes}"


def _prototypes(bundle: Bundle, function: BundledFunction) -> Iterator[str]:
    own = f"{bundle.name}_{function.identifier}"
    if bundle.sizes:
        yield "/* Write offset, bytes and shape of inputs and outputs for these sizes to copies"
        yield "   of the tables below. */"
        tables = f"{bundle.name}_tensor *inputs, {bundle.name}_tensor *outputs"
        yield f"int {own}_tensors(const {bundle.name}_sizes *sizes,"
        yield f"{' ' * (len(own) + 13)}{tables});"
        yield ""
    yield f"/* Run {c_string(function.name)} on the calling thread. */"
    yield f"int {own}({parameters_of(bundle)});"
    yield ""
    yield "/* Do one share of one phase of a run. All shares of a phase, from 0 to THREADS - 1, may"
    yield "   be done at the same time, by threads with different numbers; all are done before the"
    yield f"   next phase begins. {bundle.name}_pool.c does so, if there are several threads. */"
    if bundle.sizes:
        yield "/* All shares of a run are given the same sizes; phase 0 lays out what they need. */"
    yield f"#define {own.upper()}_PHASES {function.phases}u"
    yield f"int {own}_share({parameters_of(bundle)},"
    yield f"{' ' * (len(own) + 11)}size_t thread, size_t phase, size_t share);"


def _tensor_type(bundle: Bundle) -> Iterator[str]:
    name, macro = bundle.name, bundle.name.upper()
    yield f"#define {macro}_MAX_RANK {bundle.most_dimensions}u"
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


def _function_type(bundle: Bundle) -> Iterator[str]:
    name = bundle.name
    yield "typedef struct {"
    yield "    const char *name; /* in the model, in UTF-8 */"
    yield f"    int (*run)({parameters_of(bundle)});"
    if bundle.sizes:
        yield f"    int (*tensors)(const {name}_sizes *sizes,"
        yield f"                   {name}_tensor *inputs, {name}_tensor *outputs);"
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
        if tensor.is_placed:
            yield f"#define {macro}_{number}_OFFSET {tensor.offset}u"
            yield f"#define {macro}_{number}_BYTES {tensor.type.size_bytes}u"
    yield f"static const {bundle.name}_tensor {table}[{max(1, len(tensors))}] = {{"
    for tensor in tensors:
        kind, shape = tensor.type.kind, tensor.type.shape
        sizes = ", ".join("0" if symbols_of(size) else str(size) for size in shape) or "0"
        place = (tensor.offset, tensor.type.size_bytes) if tensor.is_placed else (0, 0)
        yield f'    {{{c_string(tensor.name)}, "{kind.value}", "{npy_type(kind)}", {place[0]},'
        yield f"     {place[1]}, {tensor.type.rank}, {{{sizes}}}, {tensor.count},"
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
        calls = f"{own}, {own}_tensors" if bundle.sizes else own
        yield f"    {{{c_string(function.name)}, {calls}, {own}_inputs, {capital}_INPUT_COUNT,"
        yield f"     {own}_outputs, {capital}_OUTPUT_COUNT}},"
    yield "};"
