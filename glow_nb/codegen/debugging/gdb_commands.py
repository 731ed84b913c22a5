"""Commands of gdb for networks that were compiled with ``debug=True``.

gdb runs this file with a Python of its own, which need not have glow_nb: ``source`` it in gdb, or
give it as ``gdb -x gdb_commands.py``. ``help glow`` lists the commands.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
from collections.abc import Iterator
from typing import Any

gdb: Any = importlib.import_module("gdb")

_CODE, _CALLS = "network.so", "calls.json"
_FORMATS = {
    "float64": "d",
    "float32": "f",
    "float16": "e",
    "int64": "q",
    "int32": "i",
    "int16": "h",
    "int8": "b",
    "uint64": "Q",
    "uint32": "I",
    "uint16": "H",
    "bool": "?",
}
"""How elements lie in memory; those of all other kinds of one byte are shown as that byte."""
_SHOWN = 8
_SOURCE_FOLDER = "glow_nb_sources"
"""Where sources are by the debug information of code that another linker has linked."""

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))


class Network:
    """A network: the calls of its entry, and what they compute."""

    def __init__(self, entry: str, file: str, calls: list[dict[str, Any]]) -> None:
        """Take the *calls* of the function *entry*, which belong to lines of *file*."""
        self.entry, self.file, self.calls = entry, file, calls

    def of(self, node: str) -> Iterator[dict[str, Any]]:
        """Yield the calls that compute the *node* of the model."""
        return (call for call in self.calls if node in call["nodes"])


_read: dict[str, list[Network]] = {}
_wanted: dict[str, set[str]] = {}
"""Nodes to stop at, also in networks that are yet to be loaded; and the entries of those where it
was done: breakpoints stay when the program is run again."""


def networks() -> list[Network]:
    """Return the networks that are loaded, and those of the folder that this file lies in."""
    folders = [_OWN_FOLDER]
    for loaded in gdb.objfiles():
        folder, name = os.path.split(loaded.filename or "")
        if name == _CODE:
            folders.append(folder)
    return [network for folder in dict.fromkeys(folders) for network in _networks_of(folder)]


def _networks_of(folder: str) -> list[Network]:
    """Return the networks that *folder* describes."""
    path = os.path.join(folder, _CALLS)
    if folder not in _read and os.path.isfile(path):
        with open(path, encoding="utf-8") as stream:
            _read[folder] = [Network(**content) for content in json.load(stream)]
    return _read.get(folder, [])


def stop_at_wanted(_: object = None) -> None:
    """Set the breakpoints that networks lack which are loaded now."""
    for network in networks():
        for node, done in _wanted.items():
            if network.entry not in done and _break(network, node):
                done.add(network.entry)


class KernelBreakpoint(gdb.Breakpoint):
    """A stop in a kernel when the calls of some lines make it; others may use it, too."""

    def __init__(self, kernel: str, entry: str, lines: list[int]) -> None:
        """Stop in *kernel* when *entry* calls it from one of *lines*."""
        super().__init__(kernel)
        self._entry, self._lines = entry, lines

    def stop(self) -> bool:
        """Return whether this call is one of those."""
        frame = _entry_frame(self._entry)
        return frame is not None and frame.find_sal().line in self._lines


def _entry_frame(entry: str) -> Any:
    """Return the frame of *entry*, which called what is stopped in; None if there is none."""
    frame = gdb.selected_frame()
    while frame is not None and frame.name() != entry:
        frame = frame.older()
    return frame


def _shown(name: str) -> str:
    """Return a *name* of the model such that a terminal can show it."""
    return name if name.isprintable() else json.dumps(name)


def _break(network: Network, node: str) -> bool:
    """Stop at all kernels that compute *node*; return whether there are any."""
    lines: dict[str, list[int]] = {}
    for call in network.of(node):
        lines.setdefault(call["kernel"], []).append(call["line"])
    for kernel, of in lines.items():
        KernelBreakpoint(kernel, network.entry, of)
        places = ", ".join(f"{network.file}:{line}" for line in of)
        gdb.write(f"Node {_shown(node)}: {places}, {kernel}\n")
    return bool(lines)


class Glow(gdb.Command):
    """Look into a network that glow_nb has compiled with debug=True."""

    def __init__(self) -> None:
        """Add the prefix."""
        super().__init__("glow", gdb.COMMAND_USER, gdb.COMPLETE_NONE, True)


class GlowBreak(gdb.Command):
    """Stop in the kernels that compute a node of the model: glow break NAME.

    The node may be in a network that is loaded later.
    """

    def __init__(self) -> None:
        """Add the command."""
        super().__init__("glow break", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument: str, _: bool) -> None:
        """Stop at the node that *argument* names, as the model or as IR text spells it."""
        node = argument.strip().removeprefix("%")
        if node.startswith('"'):
            try:
                node = json.loads(node)
            except ValueError:
                raise gdb.GdbError(f"{node}: no name in quotes") from None
        if not node:
            raise gdb.GdbError("glow break: give the name of a node of the model")
        _wanted[node] = set()
        stop_at_wanted()
        if not _wanted[node]:
            gdb.write(f"Node {_shown(node)}: in no network yet; later networks are searched, too\n")


class GlowNodes(gdb.Command):
    """List the nodes of the networks that are loaded: line of the program, kernel, nodes."""

    def __init__(self) -> None:
        """Add the command."""
        super().__init__("glow nodes", gdb.COMMAND_STATUS)

    def invoke(self, _: str, __: bool) -> None:
        """Write a line for each call."""
        for network in networks():
            for call in network.calls:
                names = ", ".join(map(_shown, call["nodes"]))
                gdb.write(f"{network.file}:{call['line']}  {call['kernel']}  {names}\n")


class GlowOperands(gdb.Command):
    """Show the operands of the kernel that is stopped in: glow operands [COUNT].

    Of each its first COUNT numbers are shown, 8 by default.
    """

    def __init__(self) -> None:
        """Add the command."""
        super().__init__("glow operands", gdb.COMMAND_DATA)

    def invoke(self, argument: str, _: bool) -> None:
        """Write a line for each operand of the call that the selected frame belongs to."""
        if argument and not argument.isdecimal():
            raise gdb.GdbError(f"glow operands {argument}: give a number of elements")
        for network in networks():
            frame = _entry_frame(network.entry)
            calls = {call["line"]: call for call in network.calls}
            if frame is not None and frame.find_sal().line in calls:
                for operand in calls[frame.find_sal().line]["operands"]:
                    _write_operand(frame, operand, int(argument or _SHOWN))
                return
        raise gdb.GdbError("glow operands: no kernel of a network is stopped in here")


def _write_operand(frame: Any, operand: dict[str, Any], count: int) -> None:
    address = _address(frame, operand)
    indices = _offsets(operand["shape"], operand["strides"], count)
    size = operand["element_bytes"]
    memory = gdb.selected_inferior()
    numbers = [
        _number(operand["kind"], bytes(memory.read_memory(address + index * size, size)))
        for index in indices
    ]
    gdb.write(
        f"{operand['mode']:5} {operand['parameter']} = {operand['buffer']} : {operand['type']} "
        f"at {address:#x}: {', '.join(numbers)}\n"
    )


def _address(frame: Any, operand: dict[str, Any]) -> int:
    """Return where the first element of *operand* lies."""
    space = operand["space"]
    if space == "binding":
        pointers = int(frame.read_var("bindings"))
        place = gdb.selected_inferior().read_memory(pointers + 8 * operand["binding"], 8)
        base: int = struct.unpack("<Q", bytes(place))[0]
    else:
        base = int(frame.read_var(space))
    offset: int = operand["offset_bytes"]
    return base + offset


def _offsets(shape: list[int], strides: list[int], count: int) -> list[int]:
    """Return how far the first *count* elements are from the first one, in elements."""
    total = 1
    for extent in shape:
        total *= extent
    offsets = []
    for number in range(min(count, total)):
        offset, rest = 0, number
        for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
            offset += rest % extent * stride
            rest //= extent
        offsets.append(offset)
    return offsets


def _number(kind: str, raw: bytes) -> str:
    """Return one element as text."""
    if kind == "bfloat16":
        return f"{struct.unpack('<f', bytes(2) + raw)[0]:g}"
    (value,) = struct.unpack("<" + _FORMATS.get(kind, "B"), raw)
    return f"{value:g}" if isinstance(value, float) else str(value)


_quoted = _OWN_FOLDER.replace("\\", "\\\\").replace('"', '\\"')
gdb.execute(f'set substitute-path {_SOURCE_FOLDER} "{_quoted}"')
gdb.events.new_objfile.connect(stop_at_wanted)
Glow()
GlowBreak()
GlowNodes()
GlowOperands()
