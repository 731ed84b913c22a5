"""Loading an ONNX model and checking its header."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

import onnx
from google.protobuf.message import DecodeError

from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.base.memory_limit import out_of_memory
from glow_nb.formats.onnx.importer.other_files import other_kind
from glow_nb.formats.onnx.importer.tensors import Numbers, Storage
from glow_nb.formats.onnx.importer.weight_files import WeightBytes, WeightFile
from glow_nb.formats.onnx.importer.wire import LARGE_BYTES, WireError, read_skeleton
from glow_nb.formats.onnx.schema.schemas import NEWEST_OPSET
from glow_nb.system.data_folder import DataFolder

ModelSource = Union[str, "os.PathLike[str]", bytes, onnx.ModelProto, "Model"]


@dataclass(frozen=True)
class Model:
    """A loaded model.

    Attributes:
        proto: The message; large weights may be missing from it.
        place: The name of the model in errors: its path, or ``<model>``.
        storage: Where weights may lie outside of the message.
        is_borrowed: True if the message belongs to the caller, who may change it.
        for_training: True if it is imported to be trained: what it drops at random in training,
            it drops.
        opsets: Version of each imported operator set, the default domain as ``""``.
    """

    proto: onnx.ModelProto
    place: str
    storage: Storage = field(default_factory=Storage)
    is_borrowed: bool = False
    for_training: bool = False
    _numbers: dict[int, tuple[object, Numbers]] = field(default_factory=dict, repr=False)

    def numbers_of(
        self, tensor: onnx.TensorProto | onnx.SparseTensorProto, read: Callable[[], Numbers]
    ) -> Numbers:
        """Return what *read* makes of a message; the same object each time the model is imported.

        So all sizes of a network share its weights. Small numbers in the message itself are read
        again: an operator's body may bring new ones.
        """
        values = tensor.values if isinstance(tensor, onnx.SparseTensorProto) else tensor
        is_external = values.data_location == onnx.TensorProto.EXTERNAL
        if not is_external and tensor.ByteSize() < LARGE_BYTES:
            return read()
        known = self._numbers.get(id(tensor))
        if known is None:
            # The message is kept as well: nothing else can have its id.
            known = self._numbers[id(tensor)] = (tensor, read())
        return known[1]

    @property
    def opsets(self) -> dict[str, int]:
        """Version of each imported operator set by domain, the default domain as ``""``."""
        return opsets_of(self.proto.opset_import)


def opsets_of(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return operator set versions by domain; ``ai.onnx`` is the default domain ``""``."""
    return {normal_domain(e.domain): e.version for e in entries}


def normal_domain(domain: str) -> str:
    """Return the one spelling of a domain: the default domain has two."""
    return "" if domain == "ai.onnx" else domain


def load_model(source: ModelSource) -> Model:
    """Load a model from a path, from bytes or from a ``ModelProto``; return one that is loaded.

    Raises:
        ModelError: The file is missing, empty, truncated, or not an ONNX model.
        UnsupportedError: The model needs a newer or older operator set than is known here.
    """
    if isinstance(source, Model):
        return source
    if isinstance(source, onnx.ModelProto):
        model = Model(source, "<model>", is_borrowed=True)
    elif isinstance(source, bytes):
        model = _parse("<model>", WeightBytes(source))
    else:
        model = _load_file(os.fspath(source))
    _check_header(model)
    return model


def _load_file(path: str) -> Model:
    try:
        return _parse(path, WeightFile(path), DataFolder.of(path))
    except MemoryError as error:
        raise out_of_memory(path, error) from error
    except IsADirectoryError as error:
        raise ModelError(
            f"{path}: it is a folder; give the .onnx file in it, or of a SavedModel of TensorFlow "
            "what python -m tf2onnx.convert --saved-model FOLDER --output model.onnx makes"
        ) from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}; check the path") from error


def _parse(place: str, file: WeightFile | WeightBytes, folder: DataFolder | None = None) -> Model:
    if not file.size_bytes:
        raise ModelError(f"{place}: it is empty, not an ONNX model; export or download it again")
    try:
        with file.opened() as stream:
            proto = onnx.ModelProto.FromString(read_skeleton(stream, file.size_bytes))
    except (WireError, DecodeError) as error:
        known = _other_kind(place, file)
        doubt = f"or a truncated one ({error}); export or download it again"
        raise ModelError(f"{place}: not an ONNX model, {known or doubt}") from error
    known = None if _is_model(proto) else _other_kind(place, file)
    if known:
        raise ModelError(f"{place}: not an ONNX model, {known}")
    return Model(proto, place, Storage(folder, file))


def _other_kind(place: str, file: WeightFile | WeightBytes) -> str | None:
    with file.opened() as stream:
        stream.seek(0)
        return other_kind(place, stream.read(64))


def _is_model(proto: onnx.ModelProto) -> bool:
    return proto.HasField("graph") and bool(proto.graph.output and proto.ir_version)


def _check_header(model: Model) -> None:
    proto, place = model.proto, model.place
    if not _is_model(proto):
        missing = "ir_version" if not proto.ir_version else "graph with outputs"
        raise ModelError(f"{place}: not an ONNX model: it has no {missing}; export it again")
    if proto.ir_version > onnx.IR_VERSION:
        raise UnsupportedError(
            f"{place}: its IR version {proto.ir_version} is newer than {onnx.IR_VERSION}, the "
            f"newest that onnx {onnx.__version__} knows; upgrade onnx or export an older version"
        )
    if not proto.opset_import:
        raise ModelError(f"{place}: it imports no operator set; export it again")
    for text in _texts(proto):
        if not isinstance(text, str):
            raise ModelError(
                f"{place}: the name {text!r} in it is not UTF-8 text; the file may be damaged"
            )
    check_opsets(model.opsets, place)


def _texts(proto: onnx.ModelProto) -> Iterator[object]:
    """Yield all names; protobuf gives those that are not valid text as bytes."""
    for entry in proto.opset_import:
        yield entry.domain
    for function in proto.functions:
        yield from (function.name, function.domain, function.overload)
        yield from (*function.input, *function.output, *function.attribute)
        yield from (entry.domain for entry in function.opset_import)
        yield from (attribute.name for attribute in function.attribute_proto)
        yield from _node_texts(function.node)
    yield from _graph_texts(proto.graph)


def _graph_texts(graph: onnx.GraphProto) -> Iterator[object]:
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        yield tensor.name
        for entry in tensor.external_data:
            yield from (entry.key, entry.value)
    yield from _node_texts(graph.node)


def _node_texts(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload)
        yield from (*node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            if attribute.HasField("g"):
                yield from _graph_texts(attribute.g)
            for graph in attribute.graphs:
                yield from _graph_texts(graph)


def check_opsets(opsets: Mapping[str, int], place: str) -> None:
    """Raise UnsupportedError if the default domain's version is newer than those we know.

    A number that is no version at all raises ModelError. Operators of opsets before
    ``OLDEST_OPSET`` are looked at one by one: most did not change.
    """
    for domain, number in opsets.items():
        if not 0 < number < 1 << 31:
            raise ModelError(f"{place}: {number} is no version of operator set {domain!r}")
    version = opsets.get("", NEWEST_OPSET)
    if version > NEWEST_OPSET:
        raise UnsupportedError(
            f"{place}: opset {version} is newer than {NEWEST_OPSET}, the newest that onnx "
            f"{onnx.__version__} knows; upgrade onnx or export an older version"
        )
