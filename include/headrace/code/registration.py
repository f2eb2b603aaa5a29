"""Registration of user code: its content is stored, and its class is loaded once in a code host. Nothing refers to it before.

What a process that dies leaves is an artifact to which nothing refers. It is removed a day later, when something else is dropped.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.code.artifacts import ArtifactStore
from headrace.code.tdengine_modules import ALL_FUNCTIONS, check_module
from headrace.errors import Error
from headrace.model.failpoints import failpoint
from headrace.model.functions import Artifact, FunctionKind

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.code.hosts import ClassDescription, HostedClass
    from headrace.settings import Settings

LOCK: Final = "artifacts"
logger = logging.getLogger(__name__)


def store_code(name: str, content: bytes, catalog: Catalog, settings: Settings) -> Artifact:
    """Store the content of a file.

    Raises:
        LimitError: It is too large.
        StorageError: It cannot be stored.
    """
    with catalog.lock(LOCK):
        artifact = ArtifactStore.of(settings).put(name, content)
    failpoint("code.stored")
    return artifact


def describe_class(artifact: Artifact, class_name: str, owner: str, settings: Settings) -> ClassDescription:
    """Load a class `module.Class` of an artifact in a code host, and return what it is.

    Raises:
        InvalidCodeError: The artifact has no such class, or it is no class of user code.
        UserCodeError: Loading it fails, takes too long, or ends the process.
        StorageError: The artifact cannot be copied to this machine.
    """
    module, _, name = class_name.rpartition(".")
    description = _hosted(artifact, module, name, owner, settings).describe()
    failpoint("code.described")
    return description


def check_functions(artifact: Artifact, module: str, kind: FunctionKind, owner: str, settings: Settings) -> None:
    """Load a module of TDengine's Python functions in a code host, and check that it defines what the kind of function needs.

    Raises:
        InvalidCodeError: It does not.
        UserCodeError: Loading it fails, takes too long, or ends the process.
        StorageError: The artifact cannot be copied to this machine.
    """
    check_module(module, kind, _hosted(artifact, module, "", owner, settings).defined_functions(ALL_FUNCTIONS))
    failpoint("code.described")


def _hosted(artifact: Artifact, module: str, class_name: str, owner: str, settings: Settings) -> HostedClass:
    from headrace.code.hosts import HostedClass, HostLimits

    path = ArtifactStore.of(settings).local_path(artifact)
    return HostedClass(str(path), artifact.sha256, module, class_name, owner, HostLimits.from_settings(settings))


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
