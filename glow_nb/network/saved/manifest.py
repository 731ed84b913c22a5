"""The description of a saved network as JSON: functions with their bindings, and files.

Constants lie in regions, each on pages of its own, in one file, and large ones in files of their
own; functions name the regions that they read by their numbers. Other files belong to one function
each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from glow_nb.base.alignment import Bytes
from glow_nb.base.counted import Counted
from glow_nb.base.errors import GlowError, ModelError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.base.version import __version__
from glow_nb.codegen.program_memory import ProgramMemory
from glow_nb.codegen.run_layout import Binding, InitialState, OutputBinding, RunLayout
from glow_nb.codegen.runtime import RUNTIME_DIGEST
from glow_nb.codegen.written_sizes import WrittenSizes, open_from_plain, open_to_plain, written
from glow_nb.network.saved.files import Region
from glow_nb.network.saved.signature import PlainType, types_from_plain
from glow_nb.system.processor import processor

FORMAT = "glow_nb network 4"
"""What a manifest begins with; another layout says another number."""

Plain = Mapping[str, Any]

_MALFORMED = (ValueError, TypeError, KeyError, IndexError, OverflowError)
"""What is raised where plain data are not what was written."""


class SavedFunction(NamedTuple):
    """One function of a network, as the manifest has it.

    Attributes:
        name: Its name.
        sizes: The sizes that it was compiled for, of a model that leaves some open; or empty.
        threads: Cores that it was compiled for.
        constant_bytes: Memory of its weights, those that it shares with others among them.
        code: The name of the file with its code.
        layout: The memory of a run, as :func:`layout_to_plain` returns it.
        defaults: Inputs that the model has numbers for: name, kind and shape as far as they are
            known.
    """

    name: str
    sizes: str
    threads: int
    constant_bytes: int
    code: str
    layout: Plain
    defaults: Sequence[PlainType]


class Manifest(NamedTuple):
    """The description of a saved network.

    Attributes:
        functions: Its functions, in order.
        regions: File, offset and size of each region of constants.
        machine: The processor that its code is for, as :func:`glow_nb.system.processor.processor`
            tells it.
        runtime: The version of the code that its threads share; code of another version does not
            fit.
        made_from: The model and the options that it was compiled from, for people: names and texts.
        versions: Versions of the packages that made it.
        opened: For a network that leaves sizes open, the signature of its model; its functions are
            programs of this one, for all sizes and for single ones.
        networks: The functions, or programs, in order: each the number of one of *functions*, or
            of several stages with data-dependent sizes.
        grown: For a network that keeps caches: these, and the sizes that are numbers.
    """

    functions: tuple[SavedFunction, ...]
    regions: tuple[Region, ...]
    machine: str
    runtime: str
    made_from: Mapping[str, str]
    versions: Mapping[str, str]
    opened: Plain | None = None
    networks: Sequence[int | Plain] = ()
    grown: Plain | None = None

    def to_text(self) -> str:
        """Return it as JSON."""
        functions = [function._asdict() for function in self.functions]
        plain = {"format": FORMAT, **self._asdict(), "functions": functions}
        return json.dumps(plain, indent=1) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Manifest:
        """Return what :meth:`to_text` wrote.

        Raises:
            ModelError: It is of another format, or not well-formed.
        """
        try:
            plain = json.loads(text)
            found = plain.pop("format")
            if found != FORMAT:
                raise ModelError(
                    f"its format is {found!r:.40}, this version of glow_nb reads {FORMAT!r}; "
                    "compile the model again"
                )
            functions = tuple(_function(**one) for one in plain.pop("functions"))
            regions = tuple((str(f), int(at), int(size)) for f, at, size in plain.pop("regions"))
            made_from, versions = dict(plain.pop("made_from")), dict(plain.pop("versions"))
            manifest = cls(functions, regions, made_from=made_from, versions=versions, **plain)
            if not functions or not manifest.networks:
                raise ValueError("it has no function")
        except (*_MALFORMED, AttributeError, RecursionError) as error:
            raise ModelError(f"it is no manifest of a network: {error!s:.80}") from error
        manifest.check()
        return manifest

    def check(self) -> None:
        """Raise ModelError unless this version, on this processor, can run what is described."""
        made_by = self.versions.get("glow_nb")
        if made_by != __version__ or self.runtime != RUNTIME_DIGEST:
            raise ModelError(
                f"glow_nb {made_by!s:.40} made it, this one is {__version__} or was changed since; "
                "compile the model again"
            )
        if self.machine != processor():
            raise ModelError(
                f"it is for the processor {self.machine!s:.200}, this one is {processor()}; "
                "compile the model again on this machine"
            )


def _function(**plain: Any) -> SavedFunction:
    """Return the function whose fields are *plain*, numbers and texts all of them."""
    found = SavedFunction(**plain)
    types_from_plain(found.defaults)
    return found._replace(
        name=str(found.name),
        sizes=str(found.sizes),
        threads=int(found.threads),
        constant_bytes=int(found.constant_bytes),
        code=str(found.code),
    )


def layout_to_plain(layout: RunLayout, numbers: Sequence[int], states: Mapping[str, int]) -> Plain:
    """Return *layout* as plain data; its blocks and *states* are the regions of these numbers."""
    return {
        "symbol": layout.symbol,
        "threads": layout.threads,
        "phases": layout.phases,
        "scratch": layout.thread_scratch_bytes,
        "arena": layout.memory.arena_bytes,
        "open": None if layout.open is None else open_to_plain(layout.open),
        "blocks": list(numbers),
        "inputs": [[*_type(b), b.is_aligned] for b in layout.inputs],
        "outputs": [
            [
                *(*_type(b), b.is_aligned, b.fed_by),
                [b.counted.count, b.counted.axis] if b.counted else None,
            ]
            for b in layout.outputs
        ],
        "state": [[*_type(b), states[b.name]] for b in layout.state],
    }


def layout_from_plain(plain: Plain, regions: Sequence[Bytes]) -> RunLayout:
    """Return the layout that :func:`layout_to_plain` wrote, with constants in *regions*.

    Raises:
        GlowError: The data are not well-formed, or no program is like that.
    """
    try:
        own, *borrowed = (regions[number] for number in plain["blocks"])
        opened, sizes = None, WrittenSizes()
        if plain["open"] is not None:
            opened, sizes = open_from_plain(plain["open"])
        return RunLayout(
            symbol=str(plain["symbol"]),
            threads=plain["threads"],
            phases=plain["phases"],
            thread_scratch_bytes=plain["scratch"],
            memory=ProgramMemory(plain["arena"], own, tuple(borrowed)),
            inputs=tuple(
                Binding(_typed(sizes, kind, shape), str(name), is_aligned=bool(is_aligned))
                for name, kind, shape, is_aligned in plain["inputs"]
            ),
            outputs=tuple(
                OutputBinding(
                    *(_typed(sizes, kind, shape), name, fed),
                    Counted(*counted) if counted else None,
                    is_aligned=bool(is_aligned),
                )
                for name, kind, shape, is_aligned, fed, counted in plain["outputs"]
            ),
            state=tuple(
                InitialState(type, name, array=_array(type, regions[number]))
                for name, kind, shape, number in plain["state"]
                for type in (_typed(sizes, kind, shape),)
            ),
            open=opened,
        )
    except _MALFORMED as error:
        raise GlowError(f"it is no manifest of a network: {error!s:.80}") from error


def _type(binding: Binding) -> list[Any]:
    """Return name, kind and shape."""
    return [binding.name, binding.type.kind.value, list(map(written, binding.type.shape))]


def _typed(sizes: WrittenSizes, kind: str, shape: Sequence[int | str]) -> TensorType:
    return TensorType(ElementKind(kind), sizes.shape(shape))


def _array(type: TensorType, region: Bytes) -> Array:
    """Return the array of *type* at the beginning of *region*."""
    found: Array = region[: type.size_bytes].view(type.kind.dtype).reshape(type.shape)
    return found
