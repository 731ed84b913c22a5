"""The oldest packages that ``setup.cfg`` allows, as constraints for pip: ``numba==0.62``.

``make oldest`` installs them into an environment of its own and runs the unit and golden tests
there, so that each lower bound is one that was tried. What compares with an engine that is wrong in
those releases is left out::

    python tests/oldest_packages.py > constraints.txt
    python tests/oldest_packages.py --left-out > arguments_of_pytest.txt
"""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SETTINGS = Path(__file__).parents[1] / "setup.cfg"
EXTRAS = ("plot", "serve")
"""Extras with parts of the package; the others have tools for those who work on it."""

LEFT_OUT = {
    "formats/onnx/exporter/test_arithmetic.py::test_a_bound_beyond_the_bits_bounds_no_shift": (
        "ONNX Runtime 1.26 has no Where of uint16"
    ),
    "formats/onnx/exporter/test_export_onnx.py::"
    "test_the_oldest_operator_set_that_says_it_is_taken": "onnx 1.20 has no BitCast",
    "formats/onnx/exporter/test_export_onnx.py::"
    "test_an_operator_set_without_an_operator_is_refused": "onnx 1.20 has no BitCast",
    "formats/onnx/exporter/test_files.py::test_a_failed_export_leaves_the_old_file": (
        "onnx 1.20 has no BitCast"
    ),
    "formats/onnx/importer/test_attention.py::test_operands_that_do_not_fit_are_refused": (
        "onnx 1.20 has no windows of Attention"
    ),
    "formats/onnx/importer/test_dynamic_quantization.py": (
        "ONNX Runtime 1.26 ends the process for some of these models"
    ),
    "formats/onnx/importer/test_placed.py::test_caches_of_any_length_are_written": (
        "the reference of onnx 1.20 writes circular caches wrongly"
    ),
    "formats/onnx/importer/test_quantization.py::test_output_kind_of_its_own_is_rounded_to_once": (
        "ONNX Runtime 1.26 refuses such models"
    ),
    "formats/onnx/importer/test_resize.py::test_others_mean_what_the_reference_does": (
        "the reference of onnx 1.20 divides by zero"
    ),
    "formats/onnx/importer/test_resize.py::test_size_is_that_of_shape_inference": (
        "the shape inference of onnx 1.20 rounds otherwise"
    ),
    "hlir/ops/test_quantized_products.py::test_mat_mul_is_that_of_onnx": (
        "the reference of onnx 1.20 wraps what it should saturate"
    ),
}
"""Tests of ``tests/unit``, and what the oldest packages lack for them."""


def constraints(settings: Path) -> Iterator[str]:
    """Yield a line for each package that the file *settings* gives a lower bound."""
    parser = configparser.ConfigParser()
    parser.read(settings)
    wanted = parser["options"]["install_requires"]
    wanted += "".join(parser["options.extras_require"][extra] for extra in EXTRAS)
    for line in wanted.split():
        found = re.fullmatch(r"([\w-]+)>=([\d.]+)(,<[\d.]+)?", line)
        if not found:
            raise SystemExit(f"{settings}: {line!r} has no lower bound, name>=version")
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    arguments = [f"--deselect=tests/unit/{name}" for name in LEFT_OUT]
    chosen = arguments if sys.argv[1:] == ["--left-out"] else constraints(SETTINGS)
    sys.stdout.writelines(f"{line}\n" for line in chosen)
