"""``glow_nb.build``: a model as object code for C and C++, for this or other machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_nb.backends import BackendLike, option_names
from glow_nb.base.arguments import MOST_THREADS, as_path, whole_number
from glow_nb.network.compiling import compile
from glow_nb.system.file_digests import digest_of_file

if TYPE_CHECKING:
    from glow_nb.network.loading import Graph


def build(
    graph: Graph,
    folder: str | os.PathLike[str],
    *,
    name: str | None = None,
    target: str | None = None,
    cpu: str | Sequence[str] = (),
    threads: int = 1,
    shared: bool = False,
    embed_constants: bool = False,
    backend: BackendLike = "cpu",
    **arguments: Any,
) -> None:
    """Compile a network to object code for C and C++, here or for another machine.

    The bundle in *folder* has the code, a C header, the constants, and an example in C; its
    README.md says how it is used. An earlier bundle is replaced as a whole.

    Args:
        graph: A model, as for :func:`glow_nb.compile`. Open sizes are arguments of each run in C;
            *sizes* and *hints* give their ranges, and sizes to plan for.
        folder: Where to write.
        name: Prefix of all names in C; by default the name of the file.
        target: LLVM's triple of the machines that run it, as ``"aarch64-unknown-linux-gnu"``; this
            one by default.
        cpu: LLVM's name of the processor, as ``"znver4"``, or a level, as ``"x86-64-v3"``. With
            several, the bundle has code for each, and selects one that the processor can run. By
            default the processor that compiles or, for another *target*, the one with the fewest
            features.
        threads: Threads that can share a run.
        shared: A shared library instead of an archive; needs a C compiler.
        embed_constants: Constants are part of the library instead of a file to map.
        backend: ``"cpu"`` or its options.
        arguments: Further arguments of :func:`glow_nb.compile`, such as ``shapes`` or ``sizes``.

    Raises:
        OptionError: A name is no identifier of C, a target or processor is unknown, or the folder
            holds something else.
        UnsupportedError: The backend makes no machine code, there is no C compiler, or an operator
            has no code for sizes that are open.
        CompileError, ModelError, PassError: As :func:`glow_nb.compile`.
        GlowError: A file cannot be written.
    """
    # LLVM is imported at the first build, since all public names are imported at once.
    from glow_nb.bundle.identifiers import checked_name
    from glow_nb.bundle.writing import check_place
    from glow_nb.kernels.target import Target
    from glow_nb.network.building import backends_for, build_variants, form_of, targets_named

    form = form_of(shared=shared, embed_constants=embed_constants)
    place, chosen = as_path(folder), _name_of(graph) if name is None else checked_name(name)
    whole_number("threads", threads, 1, MOST_THREADS)
    targets = targets_named(target, cpu)
    check_place(place, form, targets[0] if targets else Target.host())
    options = {key: arguments.pop(key) for key in option_names() if key in arguments}
    networks = [
        compile(graph, backend=one, threads=threads, **own, **arguments).of_one_program
        for one, own in backends_for(backend, threads, options, targets)
    ]
    build_variants(place, chosen, networks, form, networks[0].state, _origin(graph))


def _name_of(graph: Graph) -> str:
    """Return a name like that of the file of *graph*, or of its function."""
    from glow_nb.network.building import name_like

    if isinstance(graph, str | os.PathLike) and "\n" not in os.fspath(graph):
        return name_like(Path(os.fspath(graph)).stem)
    return name_like(getattr(graph, "name", ""))


def _origin(graph: Graph) -> dict[str, str]:
    """Return facts about the file of *graph*."""
    if not isinstance(graph, str | os.PathLike) or not os.path.isfile(graph):
        return {}
    path = Path(os.fspath(graph))
    return {"model": path.name, "sha256": digest_of_file(path)}
