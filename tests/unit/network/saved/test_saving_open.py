"""Networks with open sizes are written with all their programs, and run without the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import FeedError
from glow_nb.base.types import Array
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.network import CompiledNetwork
from tests.unit.network.saved.models import dense_model, expected, needs_loader

pytestmark = needs_loader


def rows(count: int) -> Array:
    return np.linspace(-2, 2, 4 * count, dtype=np.float32).reshape(count, 4)


@pytest.fixture(scope="module")
def compiled() -> DynamicNetwork:
    net = glow_nb.compile(dense_model(rows="n"), sizes={"n": (1, 64)}, threads=1)
    assert isinstance(net, DynamicNetwork)
    net.run({"x": rows(8)})
    return net


def test_one_program_for_all_sizes_is_a_network_of_its_own(
    compiled: DynamicNetwork, tmp_path: Path
) -> None:
    program = compiled.variants[0]
    program.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(loaded, CompiledNetwork)
    assert (loaded.inputs, loaded.outputs) == (program.inputs, program.outputs)
    assert repr(loaded) == repr(program) and loaded.guards == program.guards
    assert str(loaded.program) == str(program.program)
    assert str(loaded.function) == str(program.function)
    assert loaded.source == program.source and loaded.kernels == program.kernels
    assert loaded.profile({"x": rows(3)}, runs=1, limits=False)
    for count in (1, 3, 64):
        y = loaded.run({"x": rows(count)})["y"]
        np.testing.assert_array_equal(y, program.run({"x": rows(count)})["y"])
        np.testing.assert_allclose(y, expected(0, rows(count)), rtol=1e-5, atol=1e-6)
    with pytest.raises(FeedError, match=r"says 65, which is outside its range 1\.\.64"):
        loaded.run({"x": rows(65)})
    loaded.save(tmp_path / "again")
    assert repr(glow_nb.load_compiled(tmp_path / "again")) == repr(program)
