"""Import rules, one file a family; importing this package registers them all."""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__, f"{__name__}."):
    import_module(_file.name)
