"""What is compiled for a device."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import OptionError
from glow_nb.hlir.ops import MatMul
from glow_nb.llir.program import Program
from glow_nb.runtime import DeviceDescription, compile_part
from glow_nb.runtime.deploy import backend_of


def two_products() -> glow_nb.Function:
    builder = glow_nb.Builder("main")
    left = builder.constant("left", np.ones((3, 4), np.float32))
    product = builder.emit(MatMul(left, builder.constant("r", np.ones((4, 5), np.float32))))
    builder.save(builder.emit(MatMul(builder.input("x", "float32<2 x 3>"), product)), "y")
    return builder.function()


def device(*without: str) -> DeviceDescription:
    options = {"without": list(without)} if without else {}
    return DeviceDescription("one", kind="interpreter", backend="interpreter", options=options)


def test_passes_are_left_out_for_a_device() -> None:
    products = []
    for description in (device(), device("fold_constants")):
        program = compile_part(two_products(), description).program
        assert isinstance(program, Program)
        products.append([i.opcode for i in program.work].count("mat_mul"))
    assert products == [1, 2]


@pytest.mark.parametrize(
    ("without", "message"),
    [(["no_such"], "no pass 'no_such' would run"), ("fold_constants", "give a list of passes")],
)
def test_what_cannot_be_left_out_for_a_device_is_refused(without: object, message: str) -> None:
    wrong = DeviceDescription("one", backend="interpreter", options={"without": without})
    with pytest.raises(OptionError, match=message):
        backend_of(wrong)


def test_a_backend_of_a_device_is_not_that_of_another() -> None:
    assert backend_of(device("fold_constants")).left_out == {"fold_constants"}
    assert backend_of(device()).left_out == ()
