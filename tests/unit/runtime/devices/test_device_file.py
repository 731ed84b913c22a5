"""Files of devices: what they say, and which line is wrong if one is."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.runtime.devices import device_file
from glow_nb.runtime.devices.device_description import DeviceDescription, Link
from glow_nb.runtime.devices.device_file import parse_devices, read_devices
from glow_nb.runtime.hosting.host import HostManager

ALL = """\
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
    count: 2
    kind: interpreter
    memory: 500MB
    options: {unsupported: [convolution]}
"""


def test_all_keys_are_read(tmp_path: Path) -> None:
    path = tmp_path / "devices.yaml"
    path.write_text(ALL, encoding="utf-8")
    fast, *slow = read_devices(path)
    assert fast == DeviceDescription(
        "fast",
        kind="process",
        cores=2,
        memory_bytes=2 << 30,
        multiply_adds_per_second=100e9,
        memory_bytes_per_second=20e9,
        link=Link(10e9, 20e-6),
        links={"slow0": Link(1e9)},
    )
    assert [device.name for device in slow] == ["slow0", "slow1"]
    assert slow[0].backend == "interpreter"
    assert slow[0].memory_bytes == 500_000_000
    assert slow[0].options == {"unsupported": ["convolution"]}


def test_devices_of_the_example_in_the_docstring_open() -> None:
    _, example = str(device_file.__doc__).split("::\n\n")
    with HostManager(parse_devices(textwrap.dedent(example))) as host:
        assert all(health.alive for health in host.health().values())


def test_what_is_left_out_has_its_default() -> None:
    assert parse_devices("devices: [{name: one}]") == [DeviceDescription("one")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: the file: must have keys and values"),
        ("- a", "1: the file: must have keys and values"),
        ("devices: {", "not YAML"),
        ("devices: []", "1: devices: must be a list with at least one device"),
        ("devices: 3", "1: devices: must be a list with at least one device"),
        ("device: []", "1: device: no such key; did you mean 'devices'"),
        ("devices:\n  - {kind: local}", "2: name: is missing"),
        ("devices:\n  - one", "2: device: must have keys and values"),
        ("devices:\n  - name: a\n    memry: 2", "3: memry: no such key; did you mean 'memory'"),
        ("devices:\n  - name: a\n    memory: 2\n    memory: 3", "4: memory: stands here twice"),
        ("devices:\n  - name: a\n    memory: 2 XB", "3: memory: is '2 XB', but must be bytes"),
        ("devices:\n  - name: a\n    memory: [2]", "3: memory: must be text"),
        ("devices:\n  - name: a\n    kind: gpu", "3: kind: must be one of local"),
        ("devices:\n  - name: a\n    cores: 0", "3: cores: is '0', but must be a whole number"),
        (
            "devices:\n  - name: a\n    count: 99999",
            "3: count: is '99999', but must be a whole number from 1 to 10000",
        ),
        (
            "devices:\n  - name: a\n    link: {bytes_per_second: -1}",
            "3: bytes_per_second: is '-1', but must be a number from 0",
        ),
        (
            "devices:\n  - name: a\n    link: {bytes_per_second: 0}",
            "3: bytes_per_second: is 0, but must be a number above 0",
        ),
        ("devices:\n  - name: a\n    link: {}", "3: link: bytes_per_second is missing"),
        (
            "devices:\n  - name: a\n    link: {bytes_per_second: 1, latency_seconds: .nan}",
            "3: latency_seconds: is '.nan', but must be a number from 0",
        ),
        (
            "devices:\n  - name: a\n    multiply_adds_per_second: fast",
            "3: multiply_adds_per_second: is 'fast'",
        ),
        ("devices:\n  - {name: a}\n  - {name: a}", "2: name: two devices are called 'a'"),
        (
            "devices:\n  - {name: a, links: {b: {bytes_per_second: 1}}}",
            "2: links: 'a' names 'b', which is no device",
        ),
        ("devices:\n  - name: a\n    memory: 0GB", "3: memory: is '0GB', but a device must have"),
        (
            "devices:\n  - name: a\n    backend: gpu",
            "3: backend: device 'a': unknown backend 'gpu'",
        ),
        (
            "devices:\n  - name: a\n    backend: cpu\n    kind: interpreter",
            "3: backend: device 'a': a device of the kind 'interpreter' does not run",
        ),
        (
            "devices:\n  - name: a\n    cores: 2\n    options: {unsuported: [add]}",
            "4: options: device 'a': unknown option 'unsuported'",
        ),
        (
            "devices:\n  - name: a\n    kind: process\n    options: {heartbeat_timeout: 0}",
            "4: options: device 'a': heartbeat_timeout=0",
        ),
        (
            "devices:\n  - {name: a, options: {unsupported: add}}",
            "2: options: device 'a': unsupported='add': give a list of operators",
        ),
        ("devices:\n  - {name: a, options: 3}", "2: options: must have keys and values"),
        ("devices:\n  - {name: a, options: {x: !!int a}}", "2: options"),
    ],
)
def test_line_and_key_of_what_is_wrong_are_named(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_devices(text, "file.yaml")
    assert str(caught.value).startswith("file.yaml")
    assert message in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot be read"):
        read_devices(tmp_path / "absent.yaml")
    path = tmp_path / "bytes.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="not text"):
        read_devices(path)
    path.write_bytes(b" " * (1 << 21))
    with pytest.raises(OptionError, match="longer than"):
        read_devices(path)
