"""What of a network is written to files for others: object code for C, and a page for a browser."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glow_nb.base.feeds import Feeds
    from glow_nb.network.building import Buildable
    from glow_nb.network.reporting.networks import ReportedNetwork


class WrittenNetwork:
    """A network as far as it is written to files; :class:`~glow_nb.Network` is what one runs."""

    def build(
        self: Buildable,
        folder: str | os.PathLike[str],
        *,
        name: str | None = None,
        target: str | None = None,
        cpu: str | Sequence[str] = (),
        threads: int | None = None,
        shared: bool = False,
        embed_constants: bool = False,
    ) -> None:
        """Write the network as object code for C and C++ to *folder*.

        :func:`glow_nb.build` explains the arguments. By default, the code is that of this network:
        for this processor, and for as many threads. States begin with the values that they have
        now. For other processors or threads, a model that is a file is compiled again. Of a network
        with open sizes, it is the program for all sizes, the first one if there are several.

        Raises:
            OptionError: An argument has no meaning, or the folder holds something else.
            UnsupportedError: The network leaves sizes open and has no program for all of them, is
                not machine code, or is of no file that could be compiled for another processor.
            GlowError: A file cannot be written.
            StateError: A run is in progress.
        """
        from glow_nb.network.building import build_network

        build_network(
            self,
            folder,
            name=name,
            target=target,
            cpu=cpu,
            threads=threads,
            shared=shared,
            embed_constants=embed_constants,
        )

    def report(
        self: ReportedNetwork,
        path: str | os.PathLike[str],
        inputs: Feeds | None = None,
        *,
        runs: int = 20,
        against: ReportedNetwork | str | os.PathLike[str] | None = None,
        drift: object = None,
        title: str = "",
    ) -> None:
        """Write everything about the network to one HTML file, for a browser.

        It has the stages side by side, from the nodes of the model to the kernels and their source,
        passes with what they changed, plans, times below the machine's limits, memory and weights::

            net.report("report.html")
            net.report("report.html", against=glow_nb.compile(model, precision="bfloat16"))

        Args:
            path: The file; it needs no other file, and no network.
            inputs: The feeds of the timed runs; random numbers by default.
            runs: The number of timed runs; 0 for none.
            against: The other side of a comparison: another network, or the page of an earlier
                report.
            drift: A result of :func:`glow_nb.quant.drift`, to be shown as well.
            title: The title of the page; by default the name of the network.

        Raises:
            OptionError: An argument has no meaning.
            FeedError: *inputs* do not fit.
            ModelError: *against* is a file, and no page of a report of this version.
            GlowError: The file cannot be written, or nothing is compiled yet.
        """
        from glow_nb.network.reporting.writing import write_report  # for a report alone

        write_report(
            self,
            path,
            inputs=inputs,
            runs=runs,
            against=against,
            drift=drift,
            titles=(title, ""),
            facts=({}, {}),
        )
