"""Where statements find user code: at a URI, in the plugin folders of the home, or among the installed packages.

Locating code reads no more than names of files, and never imports it. Reading it returns one file: a module, a wheel or a zip.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.code.packages import holds_module, module_paths, zip_package
from headrace.code.permitted import limited
from headrace.egress import EgressPolicy, Endpoint, EndpointKind, file_path
from headrace.errors import NotFoundError, ProgrammingError, StorageError
from headrace.settings import Settings

SUFFIXES: Final = (".py", ".whl", ".zip")
CLASS_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
OWN_PACKAGE: Final = "headrace"
PLUGIN_KINDS: Final = ("udf", "trigger", "pipe")


@dataclass(frozen=True, slots=True)
class CodeSource:
    """Code that was located: the name of its file, where it is, and what reads it. Reading raises an `Error` of ours."""

    name: str
    location: str
    read: Callable[[], bytes]


def folder_name(kind: str, settings: Settings) -> str:
    """Return how messages call a plugin folder, without telling where it is on this machine."""
    folder: Path = getattr(settings, f"{kind}_folder")
    is_below_home = not folder.expanduser().is_absolute()
    return f"the folder {folder} of the home" if is_below_home else f"the folder that HEADRACE_{kind.upper()}_FOLDER names"


def check_uri(uri: str) -> None:
    """Raise `ProgrammingError` if a URI is empty or has no scheme."""
    if not uri:
        raise ProgrammingError("URI is empty, please specify the URI.", hint="write one, or leave USING URI out")
    if not urlsplit(uri).scheme:
        raise ProgrammingError("The scheme of URI is not set, please specify the scheme of URI.", hint=f"write file:{uri}")


def locate_uri(uri: str, kind: str, egress: EgressPolicy) -> CodeSource:
    """Return the code at a URI.

    Raises:
        ProgrammingError: The URI is invalid, or the settings do not allow its place.
        NotFoundError: There is no such file.
    """
    check_uri(uri)
    scheme = urlsplit(uri).scheme.lower()
    match scheme:
        case "file":
            return locate_file(file_path(uri), kind, egress.settings)
        case "https" | "s3" | "s3a":
            return _locate_remote(uri, egress)
    raise ProgrammingError(f"URIs of code with the scheme {scheme} are not supported", hint="supported are file:, https: and s3:")


def locate_file(path: str, kind: str, settings: Settings) -> CodeSource:
    """Return the code in a file of this machine; a relative path is below the plugin folder.

    Raises:
        ProgrammingError: The file is in no folder that the settings allow.
        NotFoundError: There is no such file.
    """
    folder = settings.plugin_folder(kind)
    if not path or "\0" in path:
        raise ProgrammingError("the path of the code is empty or has a zero byte", hint="name a file")
    allowed = [settings.plugin_folder(other) for other in PLUGIN_KINDS]
    allowed += [Path(part).expanduser() for part in settings.code_source_folders.split(":") if part]
    resolved = Path(os.path.realpath(folder / path))
    # The message does not reveal whether a file exists elsewhere.
    if not any(resolved.is_relative_to(os.path.realpath(place)) for place in allowed):
        raise ProgrammingError(f"code must not be read from {path}", hint=untrusted_hint(kind, settings))
    if not os.path.isfile(resolved):
        raise NotFoundError(f"{path} does not exist or is no file", hint="check the path")
    return _source_of(resolved, settings)


def locate_class(class_name: str, kind: str, settings: Settings) -> CodeSource | None:
    """Return the code of a class `module.Class` in the plugin folder, else in an installed package; None if there is none.

    In the plugin folder that is the file or package of the top-level name, or the first wheel or zip that has the module.
    """
    if not CLASS_NAME.fullmatch(class_name):
        return None
    module = class_name.rpartition(".")[0]
    if module.partition(".")[0] == OWN_PACKAGE:
        return None
    folder = settings.plugin_folder(kind)
    if (source := _source_in(folder, module, settings)) is not None:
        return source
    archives = (archive for archive in _archives(folder) if holds_module(archive, module))
    archive = next(archives, None)
    return _locate_installed(module, settings) if archive is None else _source_of(archive, settings)


def _source_in(folder: Path, module: str, settings: Settings) -> CodeSource | None:
    """Return the source of a module in a folder: a file, or the package of its top-level name as a zip."""
    top = module.partition(".")[0]
    if not any(os.path.isfile(folder / path) for path in module_paths(module)):
        return None
    if top == module and not os.path.isfile(folder / top / "__init__.py"):
        return _source_of(folder / f"{top}.py", settings)
    package = folder / top
    return CodeSource(f"{top}.zip", str(package), lambda: zip_package(top, [package], settings.code_max_bytes))


def _locate_installed(module: str, settings: Settings) -> CodeSource | None:
    from importlib.util import find_spec

    top = module.partition(".")[0]
    patterns = [pattern.strip() for pattern in settings.code_packages.split(",")]
    if not any(fnmatchcase(top, pattern) for pattern in patterns):
        return None
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    folders = [] if spec is None else [Path(folder).parent for folder in spec.submodule_search_locations or ()]
    if spec is not None and spec.has_location and spec.origin is not None and not folders:
        folders = [Path(spec.origin).parent]
    return next(filter(None, (_source_in(folder, module, settings) for folder in folders)), None)


def _source_of(path: Path, settings: Settings) -> CodeSource:
    check_suffix(path.name)
    return CodeSource(path.name, str(path), lambda: read_file(Path(os.path.realpath(path)), settings.code_max_bytes))


def _locate_remote(uri: str, egress: EgressPolicy) -> CodeSource:
    egress.check(Endpoint(EndpointKind.CODE, uri))
    name = unquote(urlsplit(uri).path).rpartition("/")[2]
    check_suffix(name)

    def read() -> bytes:
        from headrace.code.downloads import download, read_object

        return read_object(uri, egress.settings) if uri.startswith("s3") else download(uri, egress)

    return CodeSource(name, uri, read)


def untrusted_hint(kind: str, settings: Settings) -> str:
    """Return what to do about code in a place from which it must not be read."""
    return f"move it to {folder_name(kind, settings)}, or have HEADRACE_CODE_SOURCE_FOLDERS name its folder"


def check_suffix(name: str) -> None:
    """Raise `ProgrammingError` unless a file may be Python code."""
    if not name.endswith(SUFFIXES):
        raise ProgrammingError(
            f"{name} is not Python code", hint=f"write the class in Python, in a file whose name ends with {', '.join(SUFFIXES)}"
        )


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        StorageError: It cannot be read.
        LimitError: It is too large.
    """
    try:
        # Opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise StorageError(f"{path} is no regular file", hint="check the path")
            return limited(iter(lambda: file.read(1 << 20), b""), str(path), max_bytes)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}", hint="check the file and its permissions") from error


def _archives(folder: Path) -> list[Path]:
    """Return the wheels and zips in a folder by name; none if it cannot be read."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.endswith((".whl", ".zip")) and os.path.isfile(folder / name)]
