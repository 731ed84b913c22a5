"""``--precision`` and ``--keep`` of the commands that compile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.commands.samples import call, fails, write_convolution, write_dense

INTERPRETER = ("--backend", "interpreter")
LOWERED = ("--precision", "bfloat16")


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_the_pass_is_seen_in_the_text(tmp_path: Path, backend: str) -> None:
    given = (write_convolution(tmp_path), "--backend", backend)
    after = ("--after", "lower_precision")
    assert "wide = true" in call("dump", *given, *LOWERED, *after).output
    assert "wide = true" in call("dump", *given, *LOWERED).output
    assert "bfloat16" not in call("dump", *given).output
    kept = call("dump", *given, *LOWERED, "--keep", "nothing", "--keep", "*").stderr
    assert "keep: 'nothing' fits no node" in kept


def test_info_says_what_is_not_lowered(tmp_path: Path) -> None:
    model = write_dense(tmp_path)
    text = call("info", model, *INTERPRETER, *LOWERED).output
    facts = [line.split(maxsplit=1) for line in text.splitlines()]
    assert ["precision", "bfloat16"] in facts
    assert "1 layer: sums of 3 products are not worth it" in text
    report = json.loads(call("info", model, *INTERPRETER, *LOWERED, "--json").stdout)
    assert report["precision"] == "bfloat16"
    assert list(report["kept_layers"].values()) == ["sums of 3 products are not worth it"]
    assert "precision" not in call("info", model, *INTERPRETER).output


def test_layers_are_kept_in_a_precision_alone(tmp_path: Path) -> None:
    message = fails("run", write_dense(tmp_path), *INTERPRETER, "--keep", "*")
    assert "precision is 'float32', which keeps all layers" in message
