"""Processors as data: a :class:`.machine.Machine` is a row of numbers, each with its provenance.

Plans and estimates take their numbers from ``target.machine``; nothing else of the package knows a
cache size, a latency, a bandwidth or a measured factor of a processor. This folder imports only the
reader of the host's caches.
"""
