"""Which rule imports an ONNX operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from glow_nb.base.errors import DefinitionError, GlowWarning
from glow_nb.formats.onnx.importer.registry import RULES, find_rule, onnx_op
from glow_nb.hlir.graph import Value

DOMAIN = "test.registry"


@pytest.fixture(autouse=True)
def _own_rules() -> Iterator[None]:
    """Leave no rule behind: other tests of this process look at all of them."""
    yield
    RULES.pop((DOMAIN, "Twist"), None)


def rule(ctx: Any, node: Any) -> Value:
    raise NotImplementedError


def later(ctx: Any, node: Any) -> Value:
    raise NotImplementedError


def test_the_newest_rule_that_holds_is_found() -> None:
    onnx_op("Twist", domain=DOMAIN)(rule)
    onnx_op("Twist", domain=DOMAIN, since=13)(later)
    assert [find_rule(DOMAIN, "Twist", opset) for opset in (6, 7, 12, 13, 99)] == [
        *(None, rule, rule, later, later)
    ]


def test_a_rule_that_is_registered_again_replaces_the_first_with_a_notice() -> None:
    onnx_op("Twist", domain=DOMAIN)(rule)
    with pytest.warns(GlowWarning, match="import rule of 'Twist' since opset 7 is defined again"):
        onnx_op("Twist", domain=DOMAIN)(later)
    assert find_rule(DOMAIN, "Twist", 7) is later


def test_a_rule_of_another_module_is_not_replaced() -> None:
    known = find_rule("", "Relu", 20)
    with pytest.raises(DefinitionError, match="'Relu' since opset 7 is already registered by"):
        onnx_op("Relu")(rule)
    assert find_rule("", "Relu", 20) is known
