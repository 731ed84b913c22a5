"""The gradient rules, one file a family of operators; importing this registers them all.

An operator of a user has its rule beside it, under ``@gradient``.
"""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__, f"{__name__}."):
    import_module(_file.name)
