"""Building node by node: what is forgotten leaves no trace."""

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.ops import Exp, Relu


def test_after_a_reset_nodes_and_names_are_as_before() -> None:
    b = Builder()
    x = b.input("x", "float32<4>")
    first = b.emit(Relu(x), "y")
    mark = b.mark()
    for _ in range(3):
        b.emit(Exp(first), "y")
    b.constant("weights", first.type.kind.dtype.type(1))
    b.reset(mark)
    assert b.nodes == [first]
    assert [b.unique_name(name) for name in ("y", "y", "weights")] == ["y_1", "y_2", "weights"]
