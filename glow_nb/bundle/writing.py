"""A bundle written to a folder, as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.errors import CompileError, UnsupportedError
from glow_nb.base.size import symbols_of
from glow_nb.bundle.archive import archive_of
from glow_nb.bundle.entries import compile_entries, variant_prefix
from glow_nb.bundle.header import header_of
from glow_nb.bundle.merged_object import Merged, Part, data_object, merge_objects
from glow_nb.bundle.plan import Bundle, BundledFunction, PlacedTensor, Variant
from glow_nb.bundle.processors import platform_like
from glow_nb.bundle.shared_library import c_compiler, link_shared
from glow_nb.bundle.texts import EXAMPLE_SUFFIX, MANIFEST, Form, constants_file, texts_of
from glow_nb.codegen.c_library import C_LIBRARY
from glow_nb.codegen.debugging.debug_files import SOURCE_FOLDER
from glow_nb.codegen.debugging.debug_folder import debug_texts
from glow_nb.codegen.runtime import RUNTIME
from glow_nb.kernels.target import Target
from glow_nb.system.replaced_folders import new_folder, require_free, require_only

FORMAT = "glow_nb bundle 1"
"""What a manifest begins with; another layout says another number."""

LARGEST_EMBEDDED_BYTES = 1 << 30
"""Code reaches what lies within 2 GiB of it; the program of the user takes a part of them."""

_LARGEST_MANIFEST_BYTES = 64 << 20
_BUILT = ("build",)
"""What ``cmake`` makes in the folder, as its README tells to."""


def write_bundle(folder: Path, bundle: Bundle, form: Form, *, made_from: Mapping[str, str]) -> None:
    """Write *bundle* to *folder*; a bundle that is there is replaced.

    Args:
        folder: Where to; the folder is made.
        bundle: The native programs.
        form: The form of the bundle.
        made_from: The model and the options that it was compiled from, as text.

    Raises:
        OptionError: The folder holds something else.
        UnsupportedError: The objects are not ELF objects, or constants are too large for one, or
            there is no C compiler for a shared library.
        CompileError: The objects need what no C library has.
        GlowError: A file cannot be written.
    """
    if form.embedded and bundle.constants.size_bytes > LARGEST_EMBEDDED_BYTES:
        raise UnsupportedError(
            f"constants of {bundle.constants.size_bytes} bytes do not fit into an object, whose "
            f"limit is {LARGEST_EMBEDDED_BYTES}; leave them in a file"
        )
    compiler = c_compiler(bundle.variants[0].target) if form.is_shared else []
    merged = merged_code(bundle)
    with new_folder(folder, is_bundle, "a bundle") as new:
        if not form.embedded:
            with (new / constants_file(bundle.name)).open("wb") as stream:
                for piece in bundle.constants.pieces(bundle.identity):
                    stream.write(piece)
        objects = {"code.o": merged.payload}
        if form.embedded:
            content = b"".join(bundle.constants.pieces(bundle.identity))
            objects["constants.o"] = data_object(
                f"{bundle.name}_constants", content, merged.payload
            )
        _write_library(new, bundle, form, objects, compiler)
        texts = {
            f"{bundle.name}.h": header_of(bundle, embedded=form.embedded),
            **texts_of(bundle, form, merged.needed),
        }
        if sources := debug_texts(bundle.natives):
            (new / SOURCE_FOLDER).mkdir()
            texts |= {f"{SOURCE_FOLDER}/{name}": text for name, text in sources.items()}
        for name, text in texts.items():
            (new / name).write_text(text, encoding="utf-8")
        files = sorted([*(path.name for path in new.iterdir()), MANIFEST])
        manifest = _manifest(bundle, merged, files, made_from)
        (new / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def check_place(folder: Path, form: Form, target: Target) -> None:
    """Raise the error of :func:`write_bundle` now if a bundle for *target* could not get there."""
    if form.is_shared:
        c_compiler(target)
    platform_like(target)
    require_free(folder, is_bundle, "a bundle")


def merged_code(bundle: Bundle) -> Merged:
    """Return the code of *bundle* as one object, of which C sees only the functions of the header.

    Raises:
        CompileError: It needs what no C library has.
    """
    parts = [
        Part(variant_prefix(bundle, number), list(_objects(variant).values()))
        for number, variant in enumerate(bundle.variants)
    ]
    merged = merge_objects(parts, compile_entries(bundle))
    foreign = sorted(set(merged.needed) - C_LIBRARY)
    if foreign:
        raise CompileError(f"the code needs {', '.join(foreign)}, which no C library has")
    return merged


def _objects(variant: Variant) -> dict[str, bytes]:
    """Return the kernels and entries of all functions, each once; threads are the caller's."""
    return {
        symbol: payload
        for native in variant.natives
        for symbol, payload in native.objects.items()
        if symbol != RUNTIME
    }


def _write_library(
    folder: Path, bundle: Bundle, form: Form, objects: Mapping[str, bytes], compiler: list[str]
) -> None:
    library = folder / form.library(bundle.name)
    if not form.is_shared:
        library.write_bytes(archive_of(objects))
        return
    paths = [folder / name for name in objects]
    for path, payload in zip(paths, objects.values(), strict=True):
        path.write_bytes(payload)
    link_shared(compiler, library, paths)
    for path in paths:
        path.unlink()


def is_bundle(folder: Path) -> bool:
    """Return whether *folder* holds a bundle.

    Raises:
        OptionError: It has other files besides, which its example was not built to.
    """
    manifest = folder / MANIFEST
    try:
        if not manifest.is_file() or manifest.stat().st_size > _LARGEST_MANIFEST_BYTES:
            return False
        plain = json.loads(manifest.read_text(encoding="utf-8"))
        known = {*plain["files"], f"{plain['name']}{EXAMPLE_SUFFIX}", *_BUILT}
        is_one = bool(plain["format"] == FORMAT)
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return False
    if is_one:
        require_only(folder, known, "the bundle")
    return is_one


def _manifest(
    bundle: Bundle, merged: Merged, files: list[str], made_from: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "name": bundle.name,
        "made_from": dict(made_from),
        "target": bundle.triple,
        "cpus": [
            {"name": v.cpu, "features": sorted(v.target.enabled_features)} for v in bundle.variants
        ],
        "threads": bundle.threads,
        "alignment": ALIGNMENT,
        "constants_bytes": bundle.constants.size_bytes,
        "tensors_bytes": None if bundle.sizes else bundle.tensors_bytes,
        "arena_bytes": None if bundle.sizes else bundle.arena_bytes,
        "sizes": [
            {"name": s.name, "least": s.low, "greatest": s.high, "example": s.hint}
            for s in bundle.sizes
        ],
        "conditions": list(bundle.guards),
        "code_bytes": len(merged.payload),
        "states": [_tensor(state) for state in bundle.states],
        "functions": [_function(bundle, function) for function in bundle.functions],
        "needed_symbols": list(merged.needed),
        "files": files,
    }


def _function(bundle: Bundle, function: BundledFunction) -> dict[str, Any]:
    return {
        "name": function.name,
        "symbol": f"{bundle.name}_{function.identifier}",
        "phases": function.phases,
        "inputs": [_tensor(tensor) for tensor in function.inputs],
        "outputs": [_tensor(tensor) for tensor in function.outputs],
    }


def _tensor(tensor: PlacedTensor) -> dict[str, Any]:
    found = {
        "name": tensor.name,
        "type": tensor.type.kind.value,
        "shape": [str(size) if symbols_of(size) else size for size in tensor.type.shape],
        "offset": tensor.offset if tensor.is_placed else None,
        "bytes": tensor.type.size_bytes if tensor.is_placed else None,
    }
    return found if tensor.count < 0 else {**found, "count": tensor.count, "axis": tensor.axis}
