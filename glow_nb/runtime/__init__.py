"""Networks on many devices (paper section 6): partitioned, provisioned, executed, served."""

from __future__ import annotations

from glow_nb.runtime.deploy import compile_part as compile_part
from glow_nb.runtime.deployable import Deployable as Deployable
from glow_nb.runtime.device_description import DeviceDescription as DeviceDescription
from glow_nb.runtime.device_description import Link as Link
from glow_nb.runtime.partitioner import partition as partition
from glow_nb.runtime.partitioning import Part as Part
from glow_nb.runtime.partitioning import Partitioning as Partitioning
