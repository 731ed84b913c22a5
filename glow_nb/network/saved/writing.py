"""A compiled network written to a folder: constants, code, the texts of its levels, and sums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from glow_nb.base.alignment import Bytes
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.text import format_name
from glow_nb.base.types import Array, TensorType
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.runtime import RUNTIME_DIGEST
from glow_nb.codegen.shared_object import link_shared_object
from glow_nb.hlir.print import external_constants, print_function
from glow_nb.llir.print import external_weights, print_program
from glow_nb.network.saved.courses import SavableNetwork, entry_of
from glow_nb.network.saved.files import (
    CONSTANTS,
    LARGE_BYTES,
    MANIFEST,
    PAGE_BYTES,
    SUMS,
    Region,
    code_file,
    constants_file,
    graph_file,
    levels_file,
    program_file,
)
from glow_nb.network.saved.manifest import Manifest, Plain, SavedFunction, layout_to_plain
from glow_nb.network.saved.signature import Signature, types_to_plain
from glow_nb.system.file_digests import digest_of_file
from glow_nb.system.processor import processor


def write_network(
    folder: Path,
    networks: Iterable[SavableNetwork],
    state: Mapping[str, Array],
    *,
    made_from: Mapping[str, str],
    versions: Mapping[str, str],
    opened: Signature | None = None,
    grown: Plain | None = None,
    link: Callable[[Path], bool] = lambda _: False,
) -> None:
    """Write *networks*, whose states have the values of *state*, into the empty *folder*.

    They are functions of one network, or programs of one that leaves sizes open: *opened* then, or
    the one of a network whose caches have *grown*. Large constants that are on the disk already
    need not be written, where *link* puts them.

    Raises:
        UnsupportedError: A network is not machine code.
        OSError: A file cannot be written.
    """
    networks = list(networks)
    files = _Files(folder, link)
    with (folder / CONSTANTS).open("wb") as stream:
        regions = _Regions(files, stream)
        states = {name: regions.add(np.ascontiguousarray(a)) for name, a in state.items()}
        functions: list[SavedFunction] = []

        def add(network: SavableNetwork) -> int:
            made = _write_function(files, len(functions), network, regions, states)
            functions.append(made)
            return len(functions) - 1

        entries = tuple(entry_of(network, add) for network in networks)
    files.note(CONSTANTS)
    manifest = Manifest(
        functions=tuple(functions),
        regions=tuple(regions.places),
        machine=processor(),
        runtime=RUNTIME_DIGEST,
        made_from=made_from,
        versions=versions,
        opened=None if opened is None else opened.to_plain(),
        networks=entries,
        grown=grown,
    )
    files.write(MANIFEST, manifest.to_text().encode())
    sums = "".join(f"{digest}  {name}\n" for name, digest in files.sums.items())
    (folder / SUMS).write_text(sums, encoding="ascii")


_TARGET = ("triple", "cpu", "features", "lanes", "l1_bytes", "l2_bytes", "l3_bytes")
"""What tells a target, in the order in which it is made."""


class _Files:
    """The files of a folder, and their sums."""

    def __init__(self, folder: Path, link: Callable[[Path], bool]) -> None:
        """Write into *folder*, or let *link* put there what is on the disk already."""
        self.folder, self._link = folder, link
        self.sums: dict[str, str] = {}

    def add_constants(self, content: Bytes) -> str:
        """Write a file of constants, once for each *content*; return its name."""
        digest = hashlib.sha256(content.data).hexdigest()
        name = constants_file(digest)
        if name not in self.sums and not self._link(self.folder / name):
            (self.folder / name).write_bytes(content.data)
        self.sums[name] = digest
        return name

    def write(self, name: str, content: bytes) -> None:
        """Write the file *name*."""
        (self.folder / name).write_bytes(content)
        self.note(name)

    def note(self, name: str) -> None:
        """Take the sum of the file *name*, which is written."""
        self.sums[name] = digest_of_file(self.folder / name)


class _Regions:
    """The constants: regions that begin on pages, each written once.

    Attributes:
        places: Where each is, in order.
    """

    def __init__(self, files: _Files, stream: BinaryIO) -> None:
        """Write to *stream*, and large ones as *files*."""
        self._files, self._stream = files, stream
        self._numbers: dict[tuple[int, int], int] = {}
        self._arrays: list[Array] = []
        self.places: list[Region] = []

    def add(self, array: Array) -> int:
        """Write a contiguous *array* if it is new; return the number of its region."""
        key = (array.ctypes.data, array.nbytes)
        if key not in self._numbers:
            self.places.append(self._written(array.reshape(-1).view(np.uint8)))
            self._numbers[key] = len(self._arrays)
            self._arrays.append(array)  # so that nothing else comes to lie there
        return self._numbers[key]

    def _written(self, content: Bytes) -> Region:
        if content.nbytes >= LARGE_BYTES:
            return self._files.add_constants(content), 0, content.nbytes
        self._stream.write(bytes(-self._stream.tell() % PAGE_BYTES))
        begin = self._stream.tell()
        self._stream.write(content.data)
        return CONSTANTS, begin, content.nbytes

    def place_of(self, array: Array) -> tuple[int, int]:
        """Return region and offset of *array*; it gets a region of its own if it lies in none."""
        address = array.ctypes.data
        for number, held in enumerate(self._arrays):
            offset = address - held.ctypes.data
            if offset >= 0 and offset + array.nbytes <= held.nbytes:
                return number, offset
        return self.add(np.ascontiguousarray(array)), 0


def _write_function(
    files: _Files,
    number: int,
    network: SavableNetwork,
    regions: _Regions,
    states: Mapping[str, int],
) -> SavedFunction:
    """Write the files of one function; its constants join the *regions*."""
    executable = network.executable
    native = getattr(executable, "native", None)
    if not isinstance(native, NativeProgram):
        raise UnsupportedError(
            f"network {format_name(network.name)}: {type(executable).__name__} is no machine code "
            'that can be saved; compile for backend="cpu"'
        )
    blocks = [regions.add(block) for block in native.memory.blocks]
    code = link_shared_object(native.objects.values())
    files.write(code_file(number, code), code)
    _write_levels(files, number, network, native, regions)
    return SavedFunction(
        name=network.name,
        sizes=network.sizes,
        threads=network.threads,
        constant_bytes=executable.constant_bytes,
        code=code_file(number, code),
        layout=layout_to_plain(native.layout, blocks, states),
        defaults=types_to_plain(network.defaults),
    )


def _write_levels(
    files: _Files,
    number: int,
    network: SavableNetwork,
    native: NativeProgram,
    regions: _Regions,
) -> None:
    """Write the texts of program and graph, and where their constants are."""
    program, function = network.program, network.function
    placed = {weight.name for weight in native.memory.weights}
    others = {n: array for n, array in external_weights(program).items() if n not in placed}
    target = native.target
    levels: dict[str, Any] = {
        "target": [getattr(target, name) for name in _TARGET],
        "weights": [
            [w.name, w.type.kind.value, list(w.type.shape), [w.block, w.offset_bytes]]
            for w in native.memory.weights
        ],
        "program": _places(others, regions),
        "pipeline": [list(row) for row in network.pipeline.table.rows],
        "precision": network.precision.to_plain(),
    }
    files.write(program_file(number), print_program(program).encode())
    if function is not None:
        levels["graph"] = _places(external_constants(function), regions)
        files.write(graph_file(number), print_function(function).encode())
    files.write(levels_file(number), json.dumps(levels).encode())


def _places(arrays: Mapping[str, Array], regions: _Regions) -> list[list[Any]]:
    """Return name, kind, shape, region and offset of each of *arrays*."""
    types = {name: TensorType.of(array) for name, array in arrays.items()}
    return [
        [name, types[name].kind.value, list(array.shape), *regions.place_of(array)]
        for name, array in arrays.items()
    ]
