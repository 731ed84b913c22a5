"""The part of the C header of a bundle about open sizes: their ranges, and their arguments."""

from __future__ import annotations

from collections.abc import Iterator

from glow_nb.bundle.identifiers import c_string
from glow_nb.bundle.plan import Bundle


def sizes_type(bundle: Bundle) -> Iterator[str]:
    """Yield the struct of sizes, their ranges, and the function that measures memory."""
    name, macro = bundle.name, bundle.name.upper()
    yield "/* Sizes that are known when the network runs, and how much memory a run is given. A run"
    yield "   of other sizes than the last one lays out the tensors anew; states stay. */"
    yield f"#define {macro}_SIZE_COUNT {len(bundle.sizes)}u"
    for number, symbol in enumerate(bundle.sizes):
        yield f"/* size[{number}] is {c_string(symbol.name)} */"
        yield f"#define {macro}_SIZE_{number}_LEAST {symbol.low}"
        yield f"#define {macro}_SIZE_{number}_GREATEST {symbol.high}"
    for guard in bundle.guards:
        yield f"/* condition: {guard} */"
    yield "typedef struct {"
    yield f"    int64_t size[{macro}_SIZE_COUNT];"
    yield "    size_t tensors_bytes; /* of the block that a run is given */"
    yield "    size_t arena_bytes;   /* likewise */"
    yield f"}} {name}_sizes;"
    yield ""
    yield "/* Check the sizes, and set the bytes that tensors and arena need for them on this"
    yield "   processor. Blocks that were measured for larger sizes do for smaller ones: a run"
    yield "   compares what it needs with these two numbers. */"
    yield f"int {name}_measure({name}_sizes *sizes);"


def range_table(bundle: Bundle) -> Iterator[str]:
    """Yield the table of the ranges, if there are sizes."""
    if not bundle.sizes:
        return
    name, macro = bundle.name, bundle.name.upper()
    yield ""
    yield "typedef struct {"
    yield "    const char *name; /* in the types of tensors */"
    yield "    int64_t least, greatest;"
    yield "    int64_t example; /* for which the code was planned */"
    yield f"}} {name}_range;"
    yield ""
    yield f"static const {name}_range {name}_ranges[{macro}_SIZE_COUNT] = {{"
    for symbol in bundle.sizes:
        yield f"    {{{c_string(symbol.name)}, {symbol.low}, {symbol.high}, {symbol.hint}}},"
    yield "};"
