"""Real networks: every backend and thread count against ONNX Runtime and the stored outputs.

The light models have constant weights and outputs stored in the ``onnx`` package; their twins have
random weights, which also finds mistakes of layout. A difference is measured over the largest
output.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import onnxruntime
import pytest
from onnx import numpy_helper

import glow_nb
from experiments.networks import branched as branched_networks
from experiments.networks import mobile as mobile_networks
from experiments.networks import recent as recent_networks
from experiments.networks import video_and_audio as video_and_audio_networks
from experiments.networks.transformers import NETWORKS as TRANSFORMERS
from experiments.networks.twins import NAMES, make_twin
from glow_nb.backends import backend_named
from glow_nb.backends.cpu.options import Winograd
from glow_nb.base.distance import largest_distance
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import Reshape
from glow_nb.llir.stack import members_of
from glow_nb.network import compilation as compiler
from glow_nb.network.loading import load_ir
from glow_nb.tools.duel.feeds import random_feeds
from glow_nb.tools.duel.reference import truth_of
from tests.in_turn import marked_rows

pytestmark = pytest.mark.jit

TOLERANCE = 5e-5
"""What an engine may be from the results in float64: each rounds long sums in its own order."""

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"
ENGINES = (("interpreter", 1), ("cpu", 1), ("cpu", 2))
QUICK = "shufflenet"
"""The twin that is compiled in the default run, a mobile network; the slow run has all of them."""

ODD = ("odd_encoder",)
"""Transformers of odd sizes that are compiled in the default run; the others are built of the same
parts: the slow run also has pictures, sound, and other encoders and decoders."""

STRASSEN = {"squeezenet": "off"}
PLANNED = ("shufflenet", "squeezenet")
"""Twins in the default run whose graphs and plans are looked at: with residuals, with concats."""


def light_feeds(name: str, model: onnx.ModelProto) -> tuple[dict[str, Array], list[Array]]:
    """Return the input that the stored output belongs to, and that output."""
    weights = {tensor.name for tensor in model.graph.initializer}
    (value,) = (v for v in model.graph.input if v.name not in weights)
    shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
    stored = onnx.TensorProto.FromString((LIGHT / f"light_{name}_output_0.pb").read_bytes())
    # the package's own runner feeds a ramp from 0 to 1
    ramp = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / np.prod(shape)
    return {value.name: ramp.astype(np.float32)}, [numpy_helper.to_array(stored)]


def is_transpose(value: Value) -> bool:
    return isinstance(value, Node) and value.opcode == "transpose"


def names_but(*slow: str) -> list[object]:
    """Return all names, *slow* ones marked as such."""
    return [pytest.param(n, marks=pytest.mark.slow) if n in slow else n for n in NAMES]


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", names_but(*(set(NAMES) - {QUICK})))
def test_light_models_give_their_stored_outputs(name: str, threads: int) -> None:
    """ShuffleNet stands for all in the default run; ``make demo`` compiles and runs ResNet50."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    feeds, expected = light_feeds(name, model)
    # All scores of SqueezeNet are 1e10: Strassen's products, which round channels differently,
    # would decide what softmax returns.
    net = glow_nb.compile(model, threads=threads, strassen=STRASSEN.get(name, "auto"))
    assert largest_distance(expected, net.run(feeds).values()) <= TOLERANCE


@pytest.fixture(scope="module")
def twin(request: pytest.FixtureRequest) -> onnx.ModelProto:
    name, batch = request.param
    return make_twin(name, batch)


def twins(*quick: str) -> list[object]:
    """Return all twins with one image, but for the *quick* ones marked as slow."""
    return [
        pytest.param((n, 1), id=f"{n}-1", marks=() if n in quick else pytest.mark.slow)
        for n in NAMES
    ]


EIGHT_IMAGES = [
    pytest.param((n, 8), id=f"{n}-8", marks=pytest.mark.slow) for n in ("vgg19", "resnet50")
]


@pytest.mark.parametrize("twin", [*twins(QUICK), *EIGHT_IMAGES], indirect=True)
def test_twins_agree_with_onnxruntime_and_with_float64(twin: onnx.ModelProto) -> None:
    """Each of two engines may be off by the tolerance, so they may be twice as far apart."""
    feeds = random_feeds(twin)
    truth = truth_of(twin, feeds).values()
    session = onnxruntime.InferenceSession(
        twin.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    expected = session.run(None, feeds)
    del session
    for backend, threads in ENGINES:
        net = glow_nb.compile(twin, backend=backend, threads=threads, winograd="off")
        found = net.run(feeds).values()
        assert largest_distance(truth, found) <= TOLERANCE, (backend, threads)
        assert largest_distance(expected, found) <= 2 * TOLERANCE, (backend, threads)


@pytest.mark.parametrize("twin", twins(*PLANNED), indirect=True)
def test_nothing_is_moved_but_at_the_border_and_memory_is_at_its_bound(
    twin: onnx.ModelProto,
) -> None:
    function = glow_nb.load(twin)
    cpu = backend_named("cpu")
    lowered = glow_nb.lower_for(function, cpu)
    opcodes = Counter(node.opcode for node in lowered.nodes)
    images = [p for p in lowered.placeholders if p.type.rank == 4]
    # An image is flattened in the model's order, which is that of a dense layer's weights.
    flattened = [n for n in lowered.nodes if isinstance(n, Reshape) and is_transpose(n.input)]
    assert len(flattened) <= 1
    assert opcodes["transpose"] <= len(images) + len(flattened)
    assert not opcodes["batch_normalization"]
    program = compiler.build_program(lowered, cpu)
    members = [m for instruction in program.work for m in members_of(instruction)]
    assert not [member for member in members if member.opcode == "copy"]
    assert program.arena is not None
    assert program.arena.size_bytes == program.arena.lower_bound_bytes


@pytest.mark.parametrize("name", names_but(*(set(NAMES) - {QUICK})))
def test_dumped_text_reads_back_and_runs_alike(name: str, tmp_path: Path) -> None:
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    feeds, _ = light_feeds(name, model)
    net = glow_nb.compile(model, threads=1)
    assert net.function is not None
    expected = net.run(feeds)
    for level, ir in (("hlir", net.function), ("llir", net.program)):
        first, second = tmp_path / f"{level}.glow", tmp_path / f"{level}_again.glow"
        glow_nb.save_text(ir, first)
        loaded = load_ir(first)
        glow_nb.save_text(loaded, second)
        assert first.read_text() == second.read_text()
        again = glow_nb.compile(loaded, threads=1).run(feeds)
        assert largest_distance(expected.values(), again.values()) <= TOLERANCE
        for path in tmp_path.iterdir():
            path.unlink()  # hundreds of megabytes a network


def check_against_onnxruntime(
    model: onnx.ModelProto,
    engines: Iterable[tuple[str, int]] = ENGINES,
    winograd: Winograd = "auto",
) -> None:
    feeds = random_feeds(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, feeds)
    for backend, threads in engines:
        net = glow_nb.compile(model, backend=backend, threads=threads, winograd=winograd)
        assert largest_distance(expected, net.run(feeds).values()) <= TOLERANCE, (backend, threads)


@pytest.mark.slow
@pytest.mark.parametrize("network", mobile_networks.NETWORKS)
def test_mobile_networks_agree_with_onnxruntime(network: Callable[[], onnx.ModelProto]) -> None:
    check_against_onnxruntime(network(), winograd="off")


@pytest.mark.parametrize(
    ("name", "engine"),
    marked_rows(
        itertools.product(TRANSFORMERS, ENGINES),
        only=[*itertools.product(ODD, ENGINES)],
    ),
)
def test_transformers_agree_with_onnxruntime(name: str, engine: tuple[str, int]) -> None:
    check_against_onnxruntime(TRANSFORMERS[name](), [engine])


@pytest.mark.slow
def test_a_block_of_parts_agrees_with_onnxruntime() -> None:
    model = branched_networks.cross_stage((1, 3, 64, 64), blocks=((64, 2),))
    check_against_onnxruntime(model, [("cpu", 2)])


@pytest.mark.slow
def test_a_stage_over_space_and_time_agrees_with_onnxruntime() -> None:
    model = video_and_audio_networks.r2plus1d((1, 3, 4, 24, 24), stages=((64, 2),))
    check_against_onnxruntime(model, [("cpu", 2)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "image"),
    [
        (branched_networks.cross_stage, (1, 3, 64, 64)),
        (branched_networks.elan, (1, 3, 64, 64)),
        (branched_networks.ghostnet, (1, 3, 64, 64)),
        (branched_networks.res2net, (1, 3, 64, 64)),
        (video_and_audio_networks.r2plus1d, (1, 3, 4, 24, 24)),
        (video_and_audio_networks.i3d, (1, 3, 8, 32, 32)),
        (video_and_audio_networks.temporal, (1, 16, 200)),
        (video_and_audio_networks.wav2vec, (1, 1, 2000)),
        (video_and_audio_networks.speech, (1, 20, 50)),
        (recent_networks.convnext, (1, 3, 64, 64)),
        (recent_networks.regnet, (1, 3, 64, 64)),
        (recent_networks.segformer, (1, 3, 64, 64)),
        (recent_networks.swin, (1, 3, 56, 56)),
        (recent_networks.unet, (1, 3, 48, 48)),
        (recent_networks.deeplab, (1, 3, 65, 65)),
        (recent_networks.tagger, (20, 2, 48)),
    ],
)
def test_other_networks_agree_with_onnxruntime(
    network: Callable[[tuple[int, ...]], onnx.ModelProto], image: tuple[int, ...]
) -> None:
    check_against_onnxruntime(network(image), [("cpu", 2)])


@pytest.mark.parametrize(
    ("network", "copies"),
    [
        (branched_networks.cross_stage, 0),
        (branched_networks.elan, 0),
        (branched_networks.ghostnet, 0),
        (branched_networks.res2net, 6),
        (mobile_networks.shufflenet_v2, 0),
    ],
)
def test_parts_of_channels_stay_where_they_are(
    network: Callable[[tuple[int, ...]], onnx.ModelProto], copies: int
) -> None:
    """In a Res2Net block, the copy of the last part could go if the first were not in its way.

    A convolution would then write over its own input.
    """
    cpu = backend_named("cpu")
    function = glow_nb.load(network((1, 3, 64, 64)))
    program = compiler.build_program(compiler.lower_for(function, cpu), cpu)
    members = [m for instruction in program.work for m in members_of(instruction)]
    assert [m.opcode for m in members].count("copy") == copies
    assert program.arena is not None
    assert program.arena.size_bytes == program.arena.lower_bound_bytes
