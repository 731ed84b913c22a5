"""Devices in a file: what ``glow-nb partition`` and ``glow-nb serve`` take by ``--devices``.

The file is YAML. ``count`` makes several devices that are alike; rates of bytes are for a second::

    devices:
      - name: fast
        kind: process
        cores: 2
        memory: 2GiB
        multiply_adds_per_second: 100e9
        memory_bytes_per_second: 20e9
        link: {bytes_per_second: 10e9, latency_seconds: 20e-6}
        links:
          slow0: {bytes_per_second: 1e9}
      - name: slow
        count: 3
        kind: interpreter
        memory: 500MB
        options: {unsupported: [convolution]}
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from glow_nb.base.arguments import as_path
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest
from glow_nb.runtime.devices.device_description import KINDS, DeviceDescription, Link
from glow_nb.runtime.devices.open_device import check_backend, check_options
from glow_nb.system.regular_files import open_regular

MOST_DEVICES = 10_000
MOST_BYTES = 1 << 20
"""Largest accepted device file, in bytes."""

UNITS = {
    "": 1,
    "B": 1,
    **{f"{p}B": 1000**n for n, p in enumerate("KMGT", 1)},
    "kB": 1000,
    **{f"{p}iB": 1024**n for n, p in enumerate(("K", "M", "G", "T"), 1)},
}
"""What may stand after a number of bytes."""


def read_devices(path: str | os.PathLike[str]) -> list[DeviceDescription]:
    """Return the devices in the file *path*.

    Raises:
        OptionError: The file cannot be read or says something wrong; names line and key.
    """
    place = as_path(path)
    try:
        with open_regular(place) as stream:
            text = stream.read(MOST_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        raise OptionError(f"{place}: cannot be read: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"{place}: not text in UTF-8; give a list of devices") from error
    if len(text) > MOST_BYTES:
        raise OptionError(f"{place}: longer than {MOST_BYTES} letters; give a list of devices")
    return parse_devices(text, str(place))


def parse_devices(text: str, subject: str = "<devices>") -> list[DeviceDescription]:
    """Return the devices that *text* lists; errors begin with *subject*."""
    reader = _Reader(subject)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise OptionError(f"{subject}:{line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise OptionError(f"{subject}: not YAML: {error!s:.200}") from error
    items = reader.mapping(root, "the file", ("devices",)).get("devices")
    if not isinstance(items, yaml.SequenceNode) or not items.value:
        raise reader.wrong(items or root, "devices", "must be a list with at least one device")
    found: list[DeviceDescription] = []
    for item in items.value:
        found += reader.devices(item)
        if len(found) > MOST_DEVICES:
            raise reader.wrong(item, "count", f"there may be {MOST_DEVICES} devices at most")
    reader.check_names(found, items)
    return found


@dataclass
class _Reader:
    """Reads nodes of YAML, and names line and key of what is wrong."""

    subject: str

    def wrong(self, node: yaml.Node | None, key: str, reason: str) -> OptionError:
        line = node.start_mark.line + 1 if node is not None else 1
        return OptionError(f"{self.subject}:{line}: {key}: {reason}")

    def mapping(
        self, node: yaml.Node | None, key: str, known: tuple[str, ...] | None
    ) -> dict[str, yaml.Node]:
        """Return the values of a mapping by key; each once, and *known* if that is given."""
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, key, "must have keys and values")
        found: dict[str, yaml.Node] = {}
        for name, value in node.value:
            text = str(name.value) if isinstance(name, yaml.ScalarNode) else "a key"
            if known is not None and text not in known:
                hint = closest(text, known)
                raise self.wrong(name, text, f"no such key{hint}; there are {', '.join(known)}")
            if text in found:
                raise self.wrong(name, text, "stands here twice")
            found[text] = value
        return found

    def devices(self, node: yaml.Node) -> list[DeviceDescription]:
        """Return the devices of one item."""
        fields = self.mapping(node, "device", ("name", "count", *_FIELDS))
        if "name" not in fields:
            raise self.wrong(node, "name", "is missing; give each device one")
        name = self.text(fields.pop("name"), "name")
        count = (
            self.whole(fields.pop("count"), "count", MOST_DEVICES) if "count" in fields else None
        )
        changes: dict[str, Any] = {}
        for key, found in fields.items():
            attribute, read = _FIELDS[key]
            changes[attribute] = read(self, found, key)
        if changes.get("kind") == "interpreter":
            changes.setdefault("backend", "interpreter")
        self.check(node, fields, DeviceDescription(name, **changes))
        names = [name] if count is None else [f"{name}{index}" for index in range(count)]
        return [DeviceDescription(each, **changes) for each in names]

    def check(
        self, node: yaml.Node, fields: Mapping[str, yaml.Node], device: DeviceDescription
    ) -> None:
        """Raise OptionError if a device of its kind has not such *fields*; *node* is all of it."""
        for key, check in (("backend", check_backend), ("options", check_options)):
            try:
                check(device)
            except OptionError as error:
                raise self.wrong(fields.get(key, node), key, str(error)) from error

    def check_names(self, devices: list[DeviceDescription], node: yaml.Node) -> None:
        """Raise OptionError if a name comes twice, or a link leads to no device."""
        names: set[str] = set()
        for device in devices:
            if device.name in names:
                raise self.wrong(node, "name", f"two devices are called {device.name!r}")
            names.add(device.name)
        for device in devices:
            for other in device.links:
                if other not in names:
                    hint = closest(other, names)
                    raise self.wrong(
                        node, "links", f"{device.name!r} names {other!r}, which is no device{hint}"
                    )

    def kind(self, node: yaml.Node, key: str) -> str:
        kind = self.text(node, key)
        if kind not in KINDS:
            raise self.wrong(node, key, f"must be one of {', '.join(KINDS)}")
        return kind

    def link(self, node: yaml.Node, key: str) -> Link:
        fields = self.mapping(node, key, ("bytes_per_second", "latency_seconds"))
        if "bytes_per_second" not in fields:
            raise self.wrong(node, key, "bytes_per_second is missing")
        rate = self.rate(fields["bytes_per_second"], "bytes_per_second")
        if "latency_seconds" not in fields:
            return Link(rate)
        return Link(rate, self.number(fields["latency_seconds"], "latency_seconds"))

    def links(self, node: yaml.Node, key: str) -> dict[str, Link]:
        links = self.mapping(node, key, None)
        return {other: self.link(links[other], other) for other in links}

    def text(self, node: yaml.Node, key: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            raise self.wrong(node, key, "must be text")
        return str(node.value)

    def whole(self, node: yaml.Node, key: str, most: int = 10_000) -> int:
        text = self.text(node, key)
        if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= most:
            raise self.wrong(
                node, key, f"is {text!r:.40}, but must be a whole number from 1 to {most}"
            )
        return int(text)

    def rate(self, node: yaml.Node, key: str) -> float:
        number = self.number(node, key)
        if not number:
            raise self.wrong(node, key, "is 0, but must be a number above 0")
        return number

    def number(self, node: yaml.Node, key: str) -> float:
        text = self.text(node, key)
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise self.wrong(node, key, f"is {text!r:.40}, but must be a number from 0")
        return number

    def bytes(self, node: yaml.Node, key: str) -> int:
        text = self.text(node, key)
        match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]{0,3})", text)
        if not match or match[2] not in UNITS:
            raise self.wrong(
                node, key, f"is {text!r:.40}, but must be bytes, such as 500MB or 2GiB"
            )
        size = int(float(match[1]) * UNITS[match[2]])
        if not size:
            raise self.wrong(node, key, f"is {text!r:.40}, but a device must have memory")
        return size

    def options(self, node: yaml.Node, key: str) -> Mapping[str, object]:
        """Return what *node* says, in lists, dictionaries, text and numbers."""
        self.mapping(node, key, None)
        constructor = yaml.SafeLoader("")
        try:
            made: Mapping[str, object] = constructor.construct_document(node)
        except (yaml.YAMLError, ValueError) as error:
            raise self.wrong(node, key, f"cannot be read: {error!s:.200}") from error
        return made


_FIELDS: Mapping[str, tuple[str, Callable[[_Reader, yaml.Node, str], Any]]] = {
    "kind": ("kind", _Reader.kind),
    "backend": ("backend", _Reader.text),
    "cores": ("cores", _Reader.whole),
    "memory": ("memory_bytes", _Reader.bytes),
    "multiply_adds_per_second": ("multiply_adds_per_second", _Reader.rate),
    "memory_bytes_per_second": ("memory_bytes_per_second", _Reader.rate),
    "link": ("link", _Reader.link),
    "links": ("links", _Reader.links),
    "options": ("options", _Reader.options),
}
"""The keys of a device, what they are called in its description, and what reads them."""
