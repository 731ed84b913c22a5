"""The report: all that the compiler knows of a network in one HTML file, for a browser.

:mod:`~glow_nb.report.data` says what a report holds. The modules that are named after a part of it
(stages, passes, memory, weights, plans) make this part of graphs and programs;
:mod:`~glow_nb.report.comparison` lays two compilations side by side, and
:mod:`~glow_nb.report.page` writes the file. What is asked of a network stands above it, in
:mod:`glow_nb.network.reporting`.
"""
