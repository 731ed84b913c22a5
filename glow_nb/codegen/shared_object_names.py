"""What a shared object of ours exports beside its functions, for those who load it."""

from __future__ import annotations

IMPORTS = "glow_imports"
"""The table of addresses of functions from outside."""

IMPORT_NAMES = "glow_import_names"
"""Their names in the order of the table, each with a zero after it, and one zero more."""
