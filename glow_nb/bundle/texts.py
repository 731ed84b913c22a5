"""The texts of a bundle that are filled from templates: example, pool, make files, README."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.version import __version__
from glow_nb.bundle.filled import filled
from glow_nb.bundle.identifiers import c_string, template
from glow_nb.bundle.open_texts import holes_of_sizes
from glow_nb.bundle.plan import Bundle, PlacedTensor

_MAPPED_INCLUDES = """
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
"""

_MAP = """
/* Return the content of the file of constants, mapped; null if it is not such a file. */
static const unsigned char *mapped(const char *path)
{
    struct stat status;
    void *found = MAP_FAILED;
    int file = open(path, O_RDONLY);
    if (file < 0)
        return NULL;
    if (fstat(file, &status) == 0 && status.st_size == (off_t)${NAME}_CONSTANTS_BYTES)
        found = mmap(NULL, ${NAME}_CONSTANTS_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return found == MAP_FAILED ? NULL : (const unsigned char *)found;
}
"""

_STATES = """
States are what a run leaves for the next one: `${name}_initialize` gives them the values that they
had when the bundle was built. To keep them, copy their bytes out of the tensors; to go on with kept
ones, initialize and copy them back.
"""

_THREADS = """
The code is cut into shares for ${threads} threads. `${name}_pool.c` has threads that do them (C11
atomics and POSIX threads, as some C libraries lack `threads.h`); without it, the calling thread
does all shares, with the same results.
"""

_MEANINGS_OF_TILES = """\
    case ${NAME}_TILES_REFUSED: return "the system refuses the tile registers of the processor";
"""

_FEED = "memcpy((char *)tensors + ${offset}, input, ${bytes});\n"
_FETCH = "memcpy(output, (char *)tensors + ${offset}, ${bytes});\n"

MANIFEST = "manifest.json"
EXAMPLE_SUFFIX = "_example"


@dataclass(frozen=True)
class Form:
    """The form of a bundle.

    Attributes:
        is_shared: A shared library instead of an archive.
        embedded: Constants are an object of the library instead of a file.
    """

    is_shared: bool = False
    embedded: bool = False

    def library(self, name: str) -> str:
        """Return the name of the file with the code of the bundle *name*."""
        return f"lib{name}.so" if self.is_shared else f"lib{name}.a"


def constants_file(name: str) -> str:
    """Return the name of the file with the constants."""
    return f"{name}.constants"


def texts_of(bundle: Bundle, form: Form, needed: Sequence[str]) -> dict[str, str]:
    """Return the texts by the names of their files; *needed* are symbols of other libraries."""
    values = {"name": bundle.name, "NAME": bundle.name.upper(), "threads": str(bundle.threads)}
    values |= holes_of_sizes(bundle)
    texts = {
        "main.c": _main(bundle, form, values),
        "Makefile": _makefile(bundle, form, values),
        "CMakeLists.txt": _cmake(bundle, form, values),
        "README.md": _readme(bundle, form, needed, values),
    }
    if bundle.threads > 1:
        texts |= _pool(bundle, values)
    return texts


def _main(bundle: Bundle, form: Form, values: Mapping[str, str]) -> str:
    name, has_pool = bundle.name, bundle.threads > 1
    arguments = f"constants, tensors, arena{values['sizes']}"
    cases = "".join(
        f"    if (function->run == {name}_{function.identifier})\n"
        f"        return {name}_pool_{function.identifier}(pool, {arguments});\n"
        for function in bundle.functions
    )
    helpers = "" if form.embedded else filled(_MAP, values)
    helpers += values["helpers_of_sizes"]
    helpers += "\n" + filled(template("run_shared.c"), values, cases=cases) if has_pool else ""
    start = f"    {name}_pool *pool = {name}_pool_start();\n    if (pool == NULL)\n"
    start += f'        return fail("{name}", "there are no threads");\n'
    return filled(
        template("main.c"),
        values,
        usage=("" if form.embedded else "CONSTANTS ") + values["sizes_usage"],
        first=1 if form.embedded else 2,
        constants=f"{name}_constants" if form.embedded else "argc > 1 ? mapped(argv[1]) : NULL",
        includes=("" if form.embedded else _MAPPED_INCLUDES)
        + (f'#include "{name}_pool.h"\n' if has_pool else ""),
        helpers=helpers,
        call="run_shared(pool, function, constants, tensors, arena)"
        if has_pool
        else f"function->run({arguments})",
        start=start if has_pool else "",
        meanings_of_tiles=filled(_MEANINGS_OF_TILES, values) if bundle.uses_tiles else "",
        stop=f"    {name}_pool_stop(pool);\n" if has_pool else "",
    )


def _pool(bundle: Bundle, values: Mapping[str, str]) -> dict[str, str]:
    name = bundle.name
    heads, bodies = [], []
    for function in bundle.functions:
        own = f"{name}_{function.identifier}"
        head = (
            f"int {name}_pool_{function.identifier}({name}_pool *pool, const void *constants,\n"
            f"{' ' * (len(name) + len(function.identifier) + 11)}void *tensors, void *arena"
            f"{values['sizes_parameter']})"
        )
        heads.append(f"{head};\n")
        given = "constants, tensors, arena" + (", sizes" if bundle.sizes else "")
        call = f"run_on(pool, {own}_share, {own.upper()}_PHASES, {given})"
        bodies.append(f"\n{head}\n{{\n    return {call};\n}}\n")
    return {
        f"{name}_pool.h": filled(template("pool.h"), values, prototypes="".join(heads)),
        f"{name}_pool.c": filled(template("pool.c"), values, functions="".join(bodies)),
    }


def _makefile(bundle: Bundle, form: Form, values: Mapping[str, str]) -> str:
    library, pthread = form.library(bundle.name), " -pthread" if bundle.threads > 1 else ""
    rpath = " -Wl,-rpath,'$$ORIGIN'" if form.is_shared else ""
    return filled(
        template("Makefile"),
        values,
        sources=f"{bundle.name}_pool.c " if bundle.threads > 1 else "",
        library=library,
        link=f"{library}{rpath} -lm{pthread}",
    )


def _cmake(bundle: Bundle, form: Form, values: Mapping[str, str]) -> str:
    has_pool = bundle.threads > 1
    return filled(
        template("CMakeLists.txt"),
        values,
        {"threads": " pthread" if has_pool else ""},
        form="SHARED" if form.is_shared else "STATIC",
        library=form.library(bundle.name),
        pool_source=f" {bundle.name}_pool.c" if has_pool else "",
    )


def _readme(bundle: Bundle, form: Form, needed: Sequence[str], values: Mapping[str, str]) -> str:
    function = bundle.functions[0]
    own = f"{bundle.name}_{function.identifier}"
    held = "; they are an object of the library, see the header" if form.embedded else ""
    return filled(
        template("README.md"),
        values,
        triple=bundle.triple,
        cpus=", ".join(f"`{variant.cpu}`" for variant in bundle.variants),
        version=__version__,
        files="\n".join(f"| `{file}` | {what} |" for file, what in _files(bundle, form)),
        usage=("" if form.embedded else f"{constants_file(bundle.name)} ") + _given(bundle),
        inputs=" ".join(f"input_{number}.npy" for number in range(len(function.inputs))),
        function=own,
        feed=_copied(_FEED, bundle, f"{own}_input", "inputs") if function.inputs else "",
        fetch=_copied(_FETCH, bundle, f"{own}_output", "outputs") if function.outputs else "",
        alignment=ALIGNMENT,
        constants_bytes=bundle.constants.size_bytes,
        constants_note=held,
        tensors_bytes="as measured" if bundle.sizes else bundle.tensors_bytes,
        arena_bytes="as measured" if bundle.sizes else bundle.arena_bytes,
        threads=filled(_THREADS, values) if bundle.threads > 1 else "",
        states=filled(_STATES, values) if bundle.states else "",
        tensors="\n".join(_tensor_table(bundle)),
        needs=_needs(needed),
    )


def _given(bundle: Bundle) -> str:
    """Return the sizes of the example, as the program of the example takes them."""
    hints = ",".join(str(symbol.hint) for symbol in bundle.sizes)
    return f"-s {hints} " if hints else ""


def _copied(text: str, bundle: Bundle, macro: str, table: str) -> str:
    """Return the line that copies the first tensor of a *table*; macros begin with *macro*."""
    if bundle.sizes:
        return filled(text, offset=f"{table}[0].offset", bytes=f"{table}[0].bytes")
    begin = f"{macro.upper()}_0"
    return filled(text, offset=f"{begin}_OFFSET", bytes=f"{begin}_BYTES")


def _files(bundle: Bundle, form: Form) -> Iterator[tuple[str, str]]:
    name = bundle.name
    yield form.library(name), "the code"
    yield f"{name}.h", "sizes, tensors and functions for C99 and C++"
    if not form.embedded:
        yield constants_file(name), "the constants, to be mapped or read into aligned memory"
    if bundle.threads > 1:
        yield f"{name}_pool.c", "threads that share runs; optional"
        yield f"{name}_pool.h", "its header"
    yield "main.c", "an example, which runs the network on arrays from `.npy` files"
    yield "Makefile", "builds the example"
    yield "CMakeLists.txt", "so does this"
    yield MANIFEST, "what the bundle was made from, and all of its numbers"


def _tensor_table(bundle: Bundle) -> Iterator[str]:
    yield "| function | tensor | name in the model | type | offset | bytes |"
    yield "| --- | --- | --- | --- | --- | --- |"
    groups: list[tuple[str, str, Sequence[PlacedTensor]]] = [("all", "state", bundle.states)]
    for function in bundle.functions:
        own = f"`{bundle.name}_{function.identifier}`"
        groups += [(own, "input", function.inputs), (own, "output", function.outputs)]
    for function_name, kind, tensors in groups:
        for number, tensor in enumerate(tensors):
            cells = (function_name, f"{kind} {number}", f"`{c_string(tensor.name)}`", tensor.type)
            place = (tensor.offset, tensor.type.size_bytes) if tensor.is_placed else ("", "")
            yield f"| {' | '.join(map(str, (*cells, *place)))} |"


def _needs(needed: Sequence[str]) -> str:
    if not needed:
        return "Nothing: the code calls no function of another library."
    return (
        f"The code calls these functions of the C library, and no others: "
        f"{', '.join(f'`{name}`' for name in needed)}."
    )
