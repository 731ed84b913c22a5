"""What a model consists of, as a digest: its bytes, or a file and what it has beside itself.

Nothing is parsed here, so that neither onnx nor a level of IR is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from glow_nb.base.arguments import as_path
from glow_nb.base.errors import OptionError
from glow_nb.base.override import override
from glow_nb.network.text_files import SUFFIX, archive_of, is_ir_text
from glow_nb.system.data_folder import DataFolder
from glow_nb.system.file_digests import FileDigests
from glow_nb.system.regular_files import open_regular
from glow_nb.system.sha256 import sha256

_LOCATION = b"\n\x08location"
"""The key of an entry that tells where a tensor lies, as it stands in the bytes of a model."""

_PIECE_BYTES = 1 << 22


class ModelContent(NamedTuple):
    """A model that has a content: a file, the bytes of an ONNX model, or IR text.

    Attributes:
        path: The file; None if the content is at hand.
        held: The content at hand.
    """

    path: Path | None
    held: bytes | str = b""

    @classmethod
    def of(cls, graph: object) -> ModelContent | None:
        """Return what *graph* names or holds; None if it has no content of its own."""
        if isinstance(graph, bytes):
            return cls(None, graph)
        if is_ir_text(graph):
            assert isinstance(graph, str)
            return cls(None, graph)
        if not isinstance(graph, str | os.PathLike):
            return None
        try:
            path = as_path(graph)
        except OptionError:  # whoever imports it says what is wrong
            return None
        return cls(path) if os.path.isfile(path) else None

    def digest(self, digests: FileDigests) -> str:
        """Return the digest of the model, without those data of an ONNX model that it names.

        Raises:
            OSError: A file cannot be read.
        """
        if isinstance(self.held, str):
            return f"text {_sum(self.held.encode('utf-8', 'surrogatepass'))}"
        if self.path is None:
            return f"onnx {_sum(self.held)}"
        if not self._is_text:
            return f"onnx {' '.join(digests.of([self.path]))}"
        archive = archive_of(self.path)
        files = [self.path, archive] if archive.is_file() else [self.path]
        return f"text {' '.join(digests.of(files))}"

    def data_paths(self, locations: Iterable[str]) -> list[Path]:
        """Return the files beside the model that it names by *locations*.

        Raises:
            ModelError: A location lies outside of its folder.
        """
        if self.path is None:
            return []
        folder = DataFolder.of(os.fspath(self.path))
        return [Path(folder.path_of(name, os.fspath(self.path))) for name in locations]

    def locations(self) -> list[str]:
        """Return how an ONNX model names the files beside itself, which takes the library onnx."""
        if self.path is None or self._is_text or not _may_name_files(self.path):
            return []
        import onnx

        from glow_nb.formats.onnx.importer.locations import external_locations

        return external_locations(onnx.load(os.fspath(self.path), load_external_data=False))

    @override
    def __str__(self) -> str:
        """Return what people call it."""
        if self.path is not None:
            return os.path.abspath(self.path)
        return "IR text" if isinstance(self.held, str) else "bytes"

    @property
    def _is_text(self) -> bool:
        return self.path is not None and self.path.suffix == SUFFIX


def _sum(content: bytes | str) -> str:
    assert isinstance(content, bytes)
    return sha256(content).hexdigest()


def _may_name_files(path: Path) -> bool:
    """Return whether the model *path* may name files; a large one is not parsed to find out."""
    end = b""
    with open_regular(path) as stream:
        while piece := stream.read(_PIECE_BYTES):  # not mapped, which would count as memory
            if _LOCATION in end + piece[: len(_LOCATION)] or _LOCATION in piece:
                return True
            end = piece[-len(_LOCATION) :]
    return False
