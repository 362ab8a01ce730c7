"""Imported by `sm121probe.pth` when Python starts with SM121PROBE_ACTIVATE in its environment: waits for the program to import Triton or PyTorch,
and calls `sm121probe.processes.imported` then. Nothing of the package is imported before, so that a program without kernels starts as fast as ever.
"""

import sys

#: The packages that are waited for.
PACKAGES = ("torch", "triton")


class Loader:
    """The loader of a package, and what follows when it has run."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def exec_module(self, module):
        """Run the module with its own loader."""
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _imported(module.__name__)


class Finder:
    """Finds the packages by the other finders, and replaces their loaders."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """Return the specification of a package that is waited for; `None` for others."""
        if name not in PACKAGES:
            return None
        for finder in sys.meta_path:
            find = None if finder is cls else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                # A folder without `__init__.py` is no package of that name.
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader)
                return spec
        return None


def _imported(name):
    from sm121probe import processes

    processes.imported(name)


sys.meta_path.insert(0, Finder)
for _name in PACKAGES:
    if _name in sys.modules:
        _imported(_name)
