"""What a backend tells of a kernel, for backends that are added from outside."""

from __future__ import annotations

from glow_nb.base.kernel_report import KernelReport as KernelReport
