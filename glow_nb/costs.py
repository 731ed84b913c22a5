"""Counts of arithmetic and bytes, for operators that are added from outside."""

from __future__ import annotations

from glow_nb.base.costs import Cost as Cost
