"""Element kinds, tensor types and arrays, for what is added from outside."""

from __future__ import annotations

from glow_nb.base.types import Array as Array
from glow_nb.base.types import ElementKind as ElementKind
from glow_nb.base.types import TensorType as TensorType
