"""Source to machine code: the cache, the entry, native programs, and the threads that run them.

It imports `kernels`, `simd`, `compiler` and what stands below those.

``compile`` turns one kernel source into a relocatable object, ``pool`` many in parallel processes,
``cache`` keeps them, and ``entry`` generates the function that calls them in order.
``make_native_program`` does all of this and returns a ``native_program``, which is data.
``loaded_code`` links its objects into a process, and ``loaded_program`` runs it with ``threads``.
"""
