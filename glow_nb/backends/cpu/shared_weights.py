"""Weights in memory that several programs of one network read: packed once, held once.

What a weight is made of says which weights are equal: the digest of the numbers of the model that
go into it, and the nodes that scale, transpose or pack them.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping

import numpy as np

from glow_nb.base.alignment import Bytes
from glow_nb.base.payload import Payload, Recipe
from glow_nb.base.schema import attributes_of, operands_of
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Constant
from glow_nb.hlir.recipe import NodeRecipe


class WeightPlace:
    """Where one weight lies: in a block of memory, which lives as long as this."""

    def __init__(self, block: Bytes, offset: int) -> None:
        """Take the place *offset* bytes after the beginning of *block*."""
        self.block, self.offset = block, offset


class SharedWeights:
    """The weights that live executables hold, by their sources."""

    def __init__(self) -> None:
        """Know none."""
        self._places: weakref.WeakValueDictionary[Hashable, WeightPlace] = (
            weakref.WeakValueDictionary()
        )
        self._digests: dict[int, tuple[weakref.ref[Array | Recipe], bytes]] = {}
        self._lock = threading.Lock()

    def key(self, payload: Payload) -> Hashable | None:
        """Return what is equal for weights that are equal; None if there is no telling."""
        if isinstance(payload, NodeRecipe):
            node = payload.node
            operands = [v.payload if isinstance(v, Constant) else None for v in operands_of(node)]
            keys = tuple(map(self.key, operands))
            attributes = tuple(map(repr, attributes_of(node).values()))
            return None if None in keys else (type(node), str(node.type), attributes, keys)
        if payload is None:
            return None
        if not isinstance(payload, Recipe):
            return self._array_key(payload)
        return self._digest(payload, lambda: _typed_digest(payload.make()))

    def find(self, key: Hashable | None) -> WeightPlace | None:
        """Return where a weight lies that is made like this; None if it must be made."""
        with self._lock:
            return None if key is None else self._places.get(key)

    def add(self, places: Mapping[Hashable | None, WeightPlace]) -> None:
        """Let others find the weights at *places*, which are complete; the first of two stays."""
        with self._lock:
            for key, place in places.items():
                if key is None:
                    continue
                self._places.setdefault(key, place)

    def _array_key(self, array: Array) -> Hashable:
        """Return the digest of the memory that *array* looks at, and how it does."""
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if not owner.flags.c_contiguous:
            owner = array = np.ascontiguousarray(array)
        start = array.ctypes.data - owner.ctypes.data
        digest = self._digest(owner, lambda: hashlib.sha256(_bytes(owner)).digest())
        return (str(array.dtype), array.shape, array.strides, start, digest)

    def _digest(self, owner: Array | Recipe, compute: Callable[[], bytes]) -> bytes:
        """Return the digest of *owner*, computed once while it lives: a model keeps its weights."""
        known = self._digests.get(id(owner))
        if known is not None and known[0]() is owner:
            return known[1]
        digest, number, digests = compute(), id(owner), self._digests
        digests[number] = (weakref.ref(owner, lambda _: digests.pop(number, None)), digest)
        return digest


def _typed_digest(array: Array) -> bytes:
    digest = hashlib.sha256(str(TensorType.of(array)).encode())
    digest.update(_bytes(array))
    return digest.digest()


def _bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
