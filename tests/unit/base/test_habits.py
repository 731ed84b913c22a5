"""Calls that other runtimes have: they work, or the error says what is meant here."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, ModelError, OptionError
from glow_nb.base.types import ElementKind
from glow_nb.codegen.kernel_compiler import kernel_compiler
from glow_nb.commands.arrays import read_npy, read_npz
from glow_nb.hlir.ops import Add, Relu
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.network.loading import load_ir

A, B = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)
TEXT = """\
// a comment, then the graph
func @main(%x : float32<4>) -> (%y : float32<4>) {
  %r = relu(%x) : float32<4>
  %y_save = save(%r, %y)
}
"""


def added(*names: str) -> glow_nb.Network:
    builder = glow_nb.Builder("added")
    first, second = (builder.input(name, "float32<2 x 3>") for name in names)
    builder.save(builder.emit(Add(first, second)), "sum")
    return glow_nb.compile(builder.function(), backend="interpreter")


def one(shape: str = "1 x 3 x 8 x 16", backend: str = "interpreter") -> glow_nb.Network:
    builder = glow_nb.Builder("one")
    builder.save(builder.emit(Relu(builder.input("x", f"float32<{shape}>"))), "y")
    return glow_nb.compile(builder.function(), backend=backend, threads=1)


class TestRun:
    def test_keywords_name_inputs(self) -> None:
        net = added("a", "b")
        for found in (net.run(a=A, b=B), net(b=B, a=A), net.run({"a": A}, b=B)):
            np.testing.assert_array_equal(found["sum"], A + B)

    @pytest.mark.parametrize("name", ["self_", "inputs", "more", "by_name", "x.1"])
    def test_inputs_may_be_called_like_anything(self, name: str) -> None:
        net = added("a", name)
        feeds: dict[str, Any] = {"a": A, name: B}
        np.testing.assert_array_equal(net.run(**feeds)["sum"], A + B)

    def test_names_of_outputs_are_not_given(self) -> None:
        net: Any = added("a", "b")
        for call in (net.run, net):
            for arguments in ((None, {"a": A, "b": B}), (["sum"], {"a": A, "b": B}), (A, B)):
                with pytest.raises(FeedError, match=r"2 arguments.*run\(\{'a': array, 'b': array"):
                    call(*arguments)

    def test_what_is_fed_twice_or_without_a_name_is_refused(self) -> None:
        net = added("a", "b")
        with pytest.raises(FeedError, match=r"\['a'\] are fed twice"):
            net.run({"a": A, "b": B}, a=A)
        with pytest.raises(FeedError, match="fed without a name: run"):
            net.run(A, b=B)
        with pytest.raises(FeedError, match="nothing is fed: run"):
            net.run()
        with pytest.raises(FeedError, match=r"a list is fed, and the network has 2 inputs.*'b': a"):
            net.run([A, B])  # type: ignore[arg-type]
        with pytest.raises(FeedError, match="unknown input 'c'"):
            net.run(a=A, c=B)

    @pytest.mark.parametrize("backend", ["interpreter", pytest.param("cpu", marks=pytest.mark.jit)])
    def test_outputs_are_found_by_name_and_say_so(self, backend: str) -> None:
        outputs = one("4", backend).run(x=A[0, :1].repeat(4))
        assert list(outputs) == ["y"]
        assert list(pickle.loads(pickle.dumps(outputs))) == ["y"]
        with pytest.raises(KeyError, match=r"this one is outputs\['y'\]"):
            outputs[0]  # type: ignore[index]
        with pytest.raises(glow_nb.GlowError, match=r"no output 'z'; the outputs are \['y'\]"):
            outputs["z"]
        assert outputs.get("z") is None

    def test_evaluate_says_so_too(self) -> None:
        function = glow_nb.load(TEXT)
        with pytest.raises(KeyError, match=r"outputs\['y'\]"):
            glow_nb.evaluate(function, np.ones(4, np.float32))[0]  # type: ignore[index]


class TestMisfits:
    @pytest.mark.parametrize(
        ("shape", "advice"),
        [
            ((1, 8, 16, 3), r"array\.transpose\(0, 3, 1, 2\)"),
            ((8, 16, 3, 1), r"array\.transpose\(3, 2, 0, 1\)"),
            ((3, 8, 16), r"batch, is missing: give array\[None\]"),
            ((1, 1, 3, 8, 16), r"one axis too many: give array\[0\]"),
            ((5, 3, 8, 16), "first size is fixed to 1"),
            ((1, 3, 9, 16), "reshape it, or make the network of a model with these sizes"),
            ((), "reshape it"),
            ((1,) * 40, "reshape it"),
        ],
    )
    def test_shape_that_does_not_fit(self, shape: tuple[int, ...], advice: str) -> None:
        with pytest.raises(FeedError, match=rf"shape is \[.*takes \[1, 3, 8, 16\]; .*{advice}"):
            one().run(np.zeros(shape, np.float32))

    def test_order_that_is_told_is_right(self) -> None:
        channels_last = np.zeros((1, 8, 16, 3), np.float32)
        one().run(channels_last.transpose(0, 3, 1, 2))

    @pytest.mark.parametrize(
        ("value", "advice"),
        [
            (np.zeros(4), r"dtype is float64.*convert it with \.astype\('float32'\)"),
            ([0.0, 1.0, 2.0, 3.0], r"convert it with numpy\.asarray\(value, 'float32'\)"),
            ("x.npy", r"it is text.*numpy\.load\(path\)"),
            (np.array(["a"]), "it is text"),
        ],
    )
    def test_numbers_of_another_kind(self, value: Any, advice: str) -> None:
        with pytest.raises(FeedError, match=f"input 'x': .*{advice}"):
            one("4").run(value)


class TestCompile:
    @pytest.mark.parametrize(
        ("arguments", "advice"),
        [
            ({"providers": ["CPUExecutionProvider"]}, "networks run on this processor"),
            ({"device": "cuda"}, "networks run on this processor"),
            ({"num_threads": 2}, "threads="),
            ({"batch_size": 2}, "shapes="),
            ({"thread": 2}, "did you mean 'threads'"),
            ({"qqq": 2}, "it has graph, backend, threads"),
            ({"hint": {}}, "did you mean 'hints'"),
            ({"ranges": {}}, "it has graph, .* sizes, hints"),
        ],
    )
    def test_argument_of_another_runtime(self, arguments: Any, advice: str) -> None:
        with pytest.raises(OptionError, match=rf"compile\(\) has no argument .*{advice}"):
            glow_nb.compile(TEXT, **arguments)

    def test_name_of_a_backend_in_capitals(self) -> None:
        with pytest.raises(OptionError, match="unknown backend 'CPU'; did you mean 'cpu'"):
            glow_nb.compile(TEXT, backend="CPU")

    def test_text_itself_is_a_graph(self, tmp_path: Path) -> None:
        net = glow_nb.compile(TEXT, backend="interpreter")
        np.testing.assert_array_equal(net.run(-np.ones(4, np.float32))["y"], np.zeros(4))
        for level in (net.function, net.program):
            again = load_ir(str(level))
            assert str(again) == str(level)
        with pytest.raises(glow_nb.ParseError, match=r"^<text>:1:"):
            glow_nb.load("func @main(")

    @pytest.mark.parametrize("given", [None, 3, ["m.onnx"], np.zeros(9), object(), {"a": 1}])
    def test_what_is_no_model_is_not_printed(self, given: Any) -> None:
        with pytest.raises(OptionError, match="no model; give a path") as caught:
            glow_nb.compile(given)
        assert "object at" not in str(caught.value)
        assert "array(" not in str(caught.value)

    @pytest.mark.parametrize(
        "path", ["https://a.org/m.onnx", "s3://a/m.onnx", Path("http://a.org/m.onnx")]
    )
    def test_address_is_no_path(self, path: Any) -> None:
        with pytest.raises(OptionError, match="is an address; download the file"):
            glow_nb.compile(path)

    def test_tilde_is_the_folder_of_the_user(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "net.glow").write_text(TEXT, "utf-8")
        assert isinstance(glow_nb.load("~/net.glow"), glow_nb.Function)
        glow_nb.save_text(glow_nb.load(TEXT), "~/other.glow")
        assert (tmp_path / "other.glow").exists()

    @pytest.mark.parametrize(
        ("suffix", "advice"),
        [
            *(("pt", "torch.onnx.export"), ("PTH", "torch.onnx.export"), ("h5", "model.export")),
            *(("keras", "model.export"), ("tflite", "tf2onnx"), ("pb", "tf2onnx")),
            *(("safetensors", "weights"), ("pkl", "skl2onnx"), ("engine", "another runtime")),
            *(("npy", "file of arrays"), ("zip", "unpack it")),
        ],
    )
    def test_file_of_another_kind(self, tmp_path: Path, suffix: str, advice: str) -> None:
        path = tmp_path / f"model.{suffix}"
        path.write_bytes(b"PK\x03\x04" + bytes(100))
        with pytest.raises(ModelError, match=f"not an ONNX model, .*{advice}"):
            glow_nb.compile(path)

    @pytest.mark.parametrize(
        ("content", "advice"),
        [
            (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
            (b"\n <!doctype html><p>", "download the file itself"),
            (b"PK\x03\x04" + bytes(90), "zip archive"),
            (b"\x80\x02ctorch", "pickled object"),
            (b"\x93NUMPY\x01", "file of arrays"),
            (b"some text\n" * 9, "or a truncated one"),
            (b"", "it is empty"),
        ],
    )
    def test_content_of_another_kind(self, tmp_path: Path, content: bytes, advice: str) -> None:
        path = tmp_path / "model.onnx"
        path.write_bytes(content)
        with pytest.raises(ModelError, match=advice):
            glow_nb.compile(path)

    def test_folder_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"it is a folder; give the \.onnx file in it"):
            glow_nb.compile(tmp_path)


class TestTypes:
    @pytest.mark.parametrize(
        ("text", "advice"),
        [
            ("f32<4>", "write float32<2 x 3>"),
            ("Float32<4>", "write float32<2 x 3>"),
            ("double<4>", "write float64<2 x 3>"),
            ("i8<4>", "write int8<2 x 3>"),
            ("tensor<8x3xf32>", "write float32<2 x 3>"),
            ("quaternion<4>", "use one of float16, "),
            ("float32", "write float32<2 x 3>, and float32<> for a single number"),
            ("float32[8, 3]", r"found '\['; write float32<2 x 3>"),
            *(
                (f"float32<{sizes}>", f"found '{found}' among the sizes; .* as in float32<2 x 3>")
                for sizes, found in [
                    *(("8, 3", ","), ("8x3", "x3"), ("8 x", "x")),
                    *(("8 3", "3"), ("8,", ",")),
                ]
            ),
            ("float32<n x 3>", "unknown size 'n'; write a number, or declare it before the inputs"),
            ("float32<8 x n>", "unknown size 'n'; write a number, or declare it before the inputs"),
        ],
    )
    def test_other_spelling(self, text: str, advice: str) -> None:
        with pytest.raises(glow_nb.ParseError, match=advice):
            glow_nb.Builder("b").input("x", text)

    @pytest.mark.parametrize(
        "text",
        [
            *("float32<>", "float32<2>", "float32<2 x 3>", "float32<0 x 3>"),
            *("int8<2, scale = 0.5, offset = 3>", "int8<scale = 0.5, offset = 3>"),
        ],
    )
    def test_types_are_read_as_they_are_printed(self, text: str) -> None:
        assert str(glow_nb.Builder("b").input("x", text).type) == text


class TestFilesOfArrays:
    def test_one_array_in_place_of_several(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", A)
        with pytest.raises(OptionError, match=r"one array, as \.npy files do.*numpy\.savez"):
            read_npz(str(tmp_path / "a.npy"))

    def test_several_arrays_in_place_of_one(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", a=A)
        with pytest.raises(OptionError, match=r"several arrays, as \.npz files hold.*numpy"):
            read_npy(str(tmp_path / "a.npz"))


def test_error_in_code_of_a_user_names_its_line() -> None:
    def broken(function: glow_nb.Function) -> glow_nb.Function:
        return function.nonsense  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(glow_nb.PassError, match=r"\(line \d+ of test_habits\.py: return"):
        glow_nb.optimize(glow_nb.load(TEXT), pipeline=(broken,))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("put(dest, i, get(inptu, i))", "line 3, `put"),
        ("put(dest, i, input.foo)", "line 3, `put"),
        ("put(dest, i, [get(input, i)])", "line 3, `put"),
        ("put(dest, i, get(input, i) +)", "line 3, `put"),
        ("raise ValueError(3)", "line 3, `raise"),
    ],
)
def test_error_in_a_generated_kernel_names_its_line(line: str, place: str) -> None:
    head = "def kernel(dest, input, scratch, thread, threads):\n    for i in range(4):\n"
    text = f"{head}        {line}\n"
    source = KernelSource("mine", text, (ElementKind.FLOAT32,) * 2)
    with pytest.raises(glow_nb.CompileError, match=place) as caught:
        kernel_compiler()(source, Target.host())
    assert "source missing" not in str(caught.value)
