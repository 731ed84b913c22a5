"""Memory of networks with attention grows with the length of a sequence, not with its square."""

from __future__ import annotations

import onnx

from experiments.networks.transformers import NETWORKS, Size, audio_encoder, grouped_decoder
from glow_nb.backends import backend_named
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.network import compilation as compiler

MIB = 2**20


def arena_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the arena of *model* on the cpu."""
    cpu = backend_named("cpu")
    lowered = compiler.lower_for(import_onnx(model), cpu)
    opcodes = [node.opcode for node in lowered.nodes]
    assert "attention" in opcodes
    assert "softmax" not in opcodes
    arena = compiler.build_program(lowered, cpu).arena
    assert arena is not None
    return arena.size_bytes


def test_an_encoder_of_1500_tokens_needs_little() -> None:
    assert arena_bytes(NETWORKS["audio_encoder"]()) <= 25 * MIB


def test_arenas_grow_with_the_length() -> None:
    for network in (audio_encoder, grouped_decoder):
        short, long = (
            arena_bytes(network("network", Size(2, 1, tokens, 4, 16, 2))) for tokens in (200, 800)
        )
        assert long <= 4.5 * short
