"""Registration of user code: its content is stored, and its class is loaded once in a code host. Nothing refers to it before.

What a process that dies leaves is an artifact to which nothing refers. It is removed a day later, when something else is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from headrace.code.artifacts import ArtifactStore
from headrace.errors import Error, InvalidCodeError
from headrace.model.failpoints import failpoint
from headrace.model.functions import Artifact, FunctionKind

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.code.hosts import ClassDescription
    from headrace.settings import Settings

LOCK: Final = "artifacts"
ZIP_MAGIC: Final = (b"PK\3\4", b"PK\5\6")
"""How a zip begins: with a file, or with its end if it is empty."""
logger = logging.getLogger(__name__)
NEEDED: Final = {
    FunctionKind.SCALAR: ("init", "destroy", "process"),
    FunctionKind.UDAF: ("init", "destroy", "start", "reduce", "finish"),
}
"""The functions that a module has to define. It may define those of both kinds."""
ALL_FUNCTIONS: Final = tuple(dict.fromkeys(name for names in NEEDED.values() for name in names))


def store_code(name: str, content: bytes, catalog: Catalog, settings: Settings) -> Artifact:
    """Store the content of a file.

    Raises:
        InvalidCodeError: It is neither Python code nor a zip. A program or library is not stored, even if a zip is hidden in it.
        LimitError: It is too large.
        StorageError: It cannot be stored.
    """
    if b"\0" in content if name.endswith(".py") else not content.startswith(ZIP_MAGIC):
        expected = "Python code, which is text" if name.endswith(".py") else "a wheel or a zip"
        raise InvalidCodeError(f"{name} is not {expected}", hint="check the file and its name")
    with catalog.lock(LOCK):
        artifact = ArtifactStore.of(settings).put(name, content)
    failpoint("code.stored")
    return artifact


def describe_class(artifact: Artifact, class_name: str, owner: str, name: str, settings: Settings) -> ClassDescription:
    """Load a class `module.Class` of an artifact, which a user registers by a name, in a code host, and return what it is.

    Raises:
        InvalidCodeError: The artifact has no such class, or it is no class of user code.
        UserCodeError: Loading it fails, takes too long, or ends the process.
        StorageError: The artifact cannot be copied to this machine.
    """
    from headrace.code.hosts import HostedClass

    description = HostedClass.registered(artifact, class_name, owner, name, settings).describe()
    failpoint("code.described")
    return description


def check_functions(artifact: Artifact, module: str, kind: FunctionKind, owner: str, name: str, settings: Settings) -> None:
    """Load the module of a function in TDengine's language in a code host, and check that it defines what its kind needs.

    Raises:
        InvalidCodeError: It does not.
        UserCodeError: Loading it fails, takes too long, or ends the process.
        StorageError: The artifact cannot be copied to this machine.
    """
    from headrace.code.hosts import HostedClass

    hosted = HostedClass.registered(artifact, f"{module}.", owner, name, settings)
    check_module(module, kind, hosted.defined_functions(ALL_FUNCTIONS))
    failpoint("code.described")


def keep_for_now(artifact: Artifact | None, settings: Settings) -> None:
    """Keep an artifact whose user is about to be dropped, since it may be running."""
    if artifact is not None:
        ArtifactStore.of(settings).renew(artifact)


def collect_artifacts(catalog: Catalog, settings: Settings) -> None:
    """Remove artifacts that nothing has referred to for a day. A failure is logged: there will be other occasions."""
    try:
        with catalog.lock(LOCK):
            in_use = catalog.functions.artifacts() | catalog.triggers.artifacts() | catalog.pipe_plugins.artifacts()
            removed = ArtifactStore.of(settings).collect(in_use)
    except Error as error:
        logger.warning("not removing unused artifacts: %s", error)
    else:
        if removed:
            logger.info("removed %d unused artifacts", len(removed))


def check_module(module: str, kind: FunctionKind, defined: Collection[str]) -> None:
    """Raise `InvalidCodeError` unless a module defines the functions that a kind of function needs."""
    missing = [function for function in NEEDED[kind] if function not in defined]
    if missing:
        raise InvalidCodeError(f"module {module} does not define {', '.join(missing)}", hint=_hint(kind, defined))


def _hint(kind: FunctionKind, defined: Collection[str]) -> str:
    other = FunctionKind.SCALAR if kind is FunctionKind.UDAF else FunctionKind.UDAF
    if set(NEEDED[other]).issubset(defined):
        return "write CREATE AGGREGATE FUNCTION" if other is FunctionKind.UDAF else "leave AGGREGATE out"
    return f"a module of this kind of function defines {', '.join(NEEDED[kind])}"
