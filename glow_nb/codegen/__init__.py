"""From kernel sources and a sequence of calls to machine code that runs.

``compile`` turns one kernel source into a relocatable object, ``pool`` many in parallel processes,
``cache`` keeps them, ``entry`` generates the function that calls them in order, ``load`` links all
of it into this process and ``executable`` runs it with ``threads``.
"""
