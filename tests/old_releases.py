"""Node tests of earlier releases of onnx, whose wheels hold them as files.

They show what operators of old operator sets mean. The wheels are downloaded once, into the cache
of pytest; they are only unpacked, never installed.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.test.case.test_case import TestCase

from glow_nb.formats.onnx.schema.schemas import find_schema
from glow_nb.tools.conformance import loaded

RELEASES = (
    "1.2.2 1.3.0 1.4.1 1.5.0 1.6.0 1.7.0 1.8.1 1.9.0 1.10.2 1.11.0 1.12.0 1.13.1 1.14.1 1.15.0 "
    "1.16.2 1.17.0 1.18.0 1.19.0"
).split()
"""One for each operator set from 7 on."""

_LAST_FOR_PYTHON_36 = (1, 11)
_PLATFORMS = "manylinux1 manylinux2010 manylinux2014 manylinux_2_17".split()
_NODE_TESTS = "onnx/backend/test/data/node/"

UNREADABLE = ("test_cast_*STRING*", "test_optional_has_element_empty")
"""Tests whose data onnx itself no longer reads in some releases; none has numbers alone."""

CORRECTED: dict[str, tuple[str, str]] = {
    "test_resize_upsample_sizes_nearest_ceil_half_pixel": ("1.6.0", "1.6.0"),
    "test_resize_upsample_sizes_nearest_floor_align_corners": ("1.6.0", "1.6.0"),
    "test_resize_upsample_sizes_nearest_round_prefer_ceil_asymmetric": ("1.6.0", "1.6.0"),
    "test_unique_not_sorted_without_axis": ("1.6.0", "1.6.0"),
    "test_momentum*": ("1.7.0", "1.7.0"),
    "test_nesterov_momentum": ("1.7.0", "1.7.0"),
    "test_adam_multiple": ("1.7.0", "1.19.0"),
    "test_convtranspose_autopad_same": ("1.9.0", "1.9.0"),
    "test_castlike_*BFLOAT16*": ("1.12.0", "1.14.1"),
    "test_col2im_pads": ("1.13.1", "1.13.1"),
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True": (
        "1.15.0",
        "1.17.0",
    ),
    "test_cast_FLOAT*_to_*INT4": ("1.16.2", "1.18.0"),
    "test_qlinearmatmul_*_int8_*": ("1.16.2", "1.19.0"),
    "test_cast_FLOAT*_to_FLOAT4E2M1": ("1.18.0", "1.18.0"),
    "test_attention_3d*": ("1.18.0", "1.18.0"),
    "test_attention_*_gqa*": ("1.18.0", "1.19.0"),
    "test_attention_*matmul_*": ("1.18.0", "1.19.0"),
    "test_l2normalization_axis_0": ("1.19.0", "1.19.0"),
}
"""Tests with wrong results, and the first and last of RELEASES that hold these.

Later releases hold other results for the same operator; where ONNX Runtime has the operator, it
agrees with those. Casts to 4 bits of what is out of range are undefined, and so is a CastLike whose
operand is not of the shape that the model declares.
"""


def is_corrected(test: str, release: str) -> bool:
    """Return whether a later release than *release* has other results for a *test*."""
    place = RELEASES.index(release)
    return any(
        fnmatch(test, pattern) and RELEASES.index(first) <= place <= RELEASES.index(last)
        for pattern, (first, last) in CORRECTED.items()
    )


class NoDownloadError(Exception):
    """A wheel is not to be had."""


def wheel_of(release: str, folder: Path) -> Path:
    """Return the wheel of a *release*, from *folder* if it was downloaded before."""
    found = list(folder.glob(f"onnx-{release}-*.whl"))
    if found:
        return found[0]
    is_old = tuple(map(int, release.split(".")[:2])) <= _LAST_FOR_PYTHON_36
    python, abi = ("36", "cp36m") if is_old else ("310", "cp310")
    platforms = [f"--platform={name}_x86_64" for name in _PLATFORMS]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--implementation=cp", *platforms),
        *(f"--python-version={python}", f"--abi={abi}", f"--dest={folder}", f"onnx=={release}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = list(folder.glob(f"onnx-{release}-*.whl"))
    if not found:
        raise NoDownloadError((done.stderr.strip().splitlines() or ["pip says nothing"])[-1])
    return found[0]


def cases_of(wheel: Path, folder: Path) -> list[Any]:
    """Return the node tests in a *wheel*, which are unpacked into *folder*."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(_NODE_TESTS)]
        archive.extractall(folder, [name for name in names if _is_readable(name)])
    return [loaded(_case(place)) for place in sorted((folder / _NODE_TESTS).iterdir())]


def _case(place: Path) -> TestCase:
    return TestCase(
        name=place.name,
        model_name=place.name,
        url=None,
        model_dir=str(place),
        model=None,
        data_sets=None,
        kind="node",
        rtol=1e-3,
        atol=1e-7,
    )


def _is_readable(name: str) -> bool:
    test = name.removeprefix(_NODE_TESTS).partition("/")[0]
    return not any(fnmatch(test, pattern) for pattern in UNREADABLE)


def form_of(model: onnx.ModelProto) -> tuple[object, ...]:
    """Return what tells models of one form apart: nodes, versions of operators, kinds of inputs."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    return (
        *(node.SerializeToString(deterministic=True) for node in model.graph.node),
        *_versions(model, opsets),
        *(info.type.SerializeToString(deterministic=True) for info in model.graph.input),
    )


def _versions(model: onnx.ModelProto, opsets: dict[str, int]) -> Iterator[int]:
    for node in model.graph.node:
        schema = find_schema(node.domain, node.op_type, opsets.get(node.domain, 1))
        yield schema.since_version if schema else 0
