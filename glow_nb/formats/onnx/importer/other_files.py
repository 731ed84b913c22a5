"""Files that are taken for ONNX models, and how one gets an ONNX model in their place."""

from __future__ import annotations

from pathlib import PurePath

_TORCH = "in PyTorch, load the model and write torch.onnx.export(model, (example,), 'model.onnx')"
_WEIGHTS = (
    "it holds weights without the network; load them into the network they belong to, and export "
    "that, as torch.onnx.export does"
)
_RUNTIME = "it is made for another runtime; take the ONNX model that it was made from"
_KERAS = "in Keras, load the model and write model.export('model.onnx', format='onnx')"
_TENSORFLOW = "python -m tf2onnx.convert {} --output model.onnx makes one (package tf2onnx)"

BY_SUFFIX = {
    "pt pth pt2 ckpt bin torchscript": ("a file of PyTorch", _TORCH),
    "h5 hdf5 keras": ("a model of Keras", _KERAS),
    "tflite": ("a model of TensorFlow Lite", _TENSORFLOW.format("--tflite model.tflite")),
    "pb pbtxt": (
        "a graph of TensorFlow",
        _TENSORFLOW.format("--graphdef model.pb --inputs NAMES --outputs NAMES"),
    ),
    "safetensors gguf ggml": ("a file of weights", _WEIGHTS),
    "pkl pickle joblib": (
        "a pickled object",
        "of scikit-learn, skl2onnx.to_onnx(model, samples) makes an ONNX model; of PyTorch, "
        "torch.onnx.export does",
    ),
    "json ubj": (
        "text or a model of decision trees",
        "packages such as onnxmltools make an ONNX model of trees",
    ),
    "mlmodel mlpackage xml engine plan trt ort mnn param dlc": ("no ONNX model", _RUNTIME),
    "npy npz": ("a file of arrays", "give the model here, and arrays to its run"),
    "zip gz tgz tar xz bz2 7z": ("an archive", "unpack it, and give the .onnx file in it"),
}
"""What files are, by the ends of their names, and how one gets an ONNX model."""

BY_BEGINNING = (
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file itself: git lfs pull"),
    (b"<!DOCTYPE", "a web page", "download the file itself, not the page that shows it"),
    (b"<html", "a web page", "download the file itself, not the page that shows it"),
    (b"PK\x03\x04", "a zip archive, as PyTorch and Keras write them", _TORCH),
    (b"\x89HDF", "a file in HDF5, as Keras writes them", _KERAS),
    (b"GGUF", "a file of weights", _WEIGHTS),
    (b"\x93NUMPY", "a file of arrays", "give the model here, and arrays to its run"),
    (b"\x1f\x8b", "a compressed file", "unpack it, and give the .onnx file in it"),
    (b"\x80\x02", "a pickled object, as PyTorch writes them", _TORCH),
    (b"\x80\x04", "a pickled object", "export the model that it holds to ONNX"),
    (b"\x80\x05", "a pickled object", "export the model that it holds to ONNX"),
)
"""Beginnings of files of other kinds, whatever their names are."""

_KINDS = {suffix: kind for suffixes, kind in BY_SUFFIX.items() for suffix in suffixes.split()}


def other_kind(path: str, beginning: bytes) -> str | None:
    """Return ``what it is; how to get an ONNX model`` of a file that is none, if that is known."""
    by_name = _KINDS.get(PurePath(path).suffix[1:].lower())
    if by_name is not None:
        return f"it is {by_name[0]}; {by_name[1]}" if by_name[0] != "no ONNX model" else by_name[1]
    for mark, what, advice in BY_BEGINNING:
        if beginning.lstrip()[: len(mark)].lower() == mark.lower():
            return f"it is {what}; {advice}"
    return None
