"""Classes of user code, loaded from a file. This runs in code hosts."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from headrace.udf.functions import UDAF, UDTF

KINDS: Final = {UDTF: "UDTF", UDAF: "UDAF"}
VECTORIZED_METHODS: Final = {"UDTF": "transform_batch", "UDAF": "add_input"}
OTHER_BASES: Final = {
    "Trigger": ("headrace.trigger.", "TRIGGER"),
    "PipeSource": ("headrace.pipe.", "SOURCE"),
    "PipeProcessor": ("headrace.pipe.", "PROCESSOR"),
    "PipeSink": ("headrace.pipe.", "SINK"),
}
"""Package and kind of the base classes in packages that are not imported for functions."""
BASES: Final = (*(base.__name__ for base in KINDS), *OTHER_BASES)


REQUIRED_METHODS: Final = {
    "UDTF": (("before_start",), ("transform", "transform_batch")),
    "UDAF": (("before_start",), ("create_state",), ("add_input", "add_row"), ("output_final",)),
}
"""The methods that a class must define; of several, one."""


class LoadError(Exception):
    """The file does not contain such a class. The message says why."""


class MissingMethodError(LoadError):
    """A class does not define a method that it needs."""


@cache
def load_class(path: str, sha256: str, module: str, class_name: str) -> type[Any]:
    """Return a class of a module of a file: of Python code, a wheel, a zip or a folder; without a path, of an installed package.

    A name that begins with `@` is the adapter of a module of TDengine's language, which has functions instead of a class.

    Raises:
        LoadError: The file has changed, the module does not contain the class, or the class has no base class of user code.
    """
    loaded: Any = load_module(path, sha256, module)
    if class_name.startswith("@"):
        from headrace.code.module_functions import adapt

        return adapt(loaded, class_name)
    for name in class_name.split("."):
        if not hasattr(loaded, name):
            raise LoadError(f"module {module} has no class {class_name}")
        loaded = getattr(loaded, name)
    if not isinstance(loaded, type) or kind_of(loaded) is None:
        raise LoadError(f"{module}.{class_name} is not a subclass of {', '.join(BASES[:-1])} or {BASES[-1]}")
    return loaded


@cache
def load_module(path: str, sha256: str, name: str) -> ModuleType:
    """Import a module of a file, whose content must have the hash, if there is one."""
    if path:
        check_content(path, sha256)
    if path and Path(path).is_file() and not zipfile.is_zipfile(path):
        return load_source(path, name)
    if path and path not in sys.path:
        sys.path.insert(0, path)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise LoadError(f"there is no module {name}") from None
        raise


def load_source(path: str, name: str) -> ModuleType:
    """Execute a file of Python code as a module, whatever the file is called."""
    from importlib.machinery import SourceFileLoader

    spec = importlib.util.spec_from_loader(name, SourceFileLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def check_content(path: str, sha256: str) -> None:
    """Raise `LoadError` unless a file has the content of that hash. Folders have none."""
    try:
        if sha256 and Path(path).is_file():
            actual = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            if actual != sha256:
                raise LoadError(f"the content of {Path(path).name} is not the one that was registered")
        elif not Path(path).exists():
            raise LoadError(f"file {Path(path).name} does not exist")
    except OSError as error:
        raise LoadError(f"file {Path(path).name} cannot be read: {error}") from None


def kind_of(class_: type[Any]) -> str | None:
    """Return what a class is: UDTF, UDAF, TRIGGER, SOURCE, PROCESSOR or SINK; None for any other class."""
    for base in class_.__mro__[1:]:
        if base in KINDS:
            return KINDS[base]
        package, kind = OTHER_BASES.get(base.__name__, ("", None))
        if kind is not None and f"{base.__module__}.".startswith(package):
            return kind
    return None


def is_vectorized(class_: type[Any]) -> bool:
    """Return whether a class defines the method that takes many rows at once."""
    kind = kind_of(class_)
    base = next((base for base, name in KINDS.items() if name == kind), None)
    if kind is None or base is None:
        return False
    method = VECTORIZED_METHODS[kind]
    return getattr(class_, method) is not getattr(base, method)


def check_methods(class_: type[Any]) -> None:
    """Raise `MissingMethodError` unless a function defines the methods that it needs."""
    for base, kind in KINDS.items():
        if issubclass(class_, base):
            for names in REQUIRED_METHODS[kind]:
                require_method(class_, base, names)


def require_method(class_: type[Any], base: type[Any], names: Sequence[str]) -> None:
    """Raise `MissingMethodError` unless a class defines one of some methods of its base class."""
    if all(getattr(class_, name) is getattr(base, name) for name in names):
        raise MissingMethodError(f"{class_.__module__}.{class_.__name__} does not define {' or '.join(names)}")
