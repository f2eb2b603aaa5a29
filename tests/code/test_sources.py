"""Where user code may come from."""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from headrace.code.sources import locate_class, locate_file, locate_uri
from headrace.egress import EgressPolicy
from headrace.errors import EgressDeniedError, Error, LimitError, NotFoundError, ProgrammingError, StorageError
from headrace.settings import Settings, load
from tests.code.https_server import HttpsServer, running_https_server

CODE = b"raise SystemExit('imported')\n"


@pytest.fixture
def folder(settings: Settings) -> Path:
    """Return the plugin folder of functions."""
    path = settings.plugin_folder("udf")
    path.mkdir(parents=True)
    return path


def closed(settings: Settings) -> EgressPolicy:
    """Return the policy of a home that several people use."""
    return EgressPolicy(settings, lambda: False)


def write(path: Path, content: bytes = CODE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def write_zip(path: Path, *members: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, CODE)
    return path


def members(content: bytes) -> list[str]:
    return zipfile.ZipFile(BytesIO(content)).namelist()


# Files


def test_files_of_the_plugin_folders_are_read(folder: Path, settings: Settings) -> None:
    write(folder / "double.py")
    trigger = write(settings.plugin_folder("trigger") / "alert.py")
    for uri in (f"file:{folder}/double.py", f"file://{folder}/double.py", f"file://localhost{folder}/double.py", "file:double.py"):
        source = locate_uri(uri, "udf", closed(settings))
        assert (source.name, source.read()) == ("double.py", CODE)
    assert locate_uri(f"FILE:{trigger}", "udf", closed(settings)).name == "alert.py"
    assert locate_file("double.py", "udf", settings).location == str(folder / "double.py")


def test_an_escaped_path_is_unescaped(folder: Path, settings: Settings) -> None:
    write(folder / "my code.py")
    assert locate_uri(f"file:{folder}/my%20code.py", "udf", closed(settings)).read() == CODE


def test_files_elsewhere_are_refused_whether_they_exist_or_not(folder: Path, settings: Settings, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside.py")
    (folder / "link.py").symlink_to(outside)
    (folder / "up").symlink_to(tmp_path)
    sibling = write(folder.with_name("udfs") / "double.py")
    paths = [
        outside,
        tmp_path / "missing.py",
        folder / "link.py",
        folder / "up/outside.py",
        folder / "../../../outside.py",
        sibling,
    ]
    for path in paths:
        with pytest.raises(ProgrammingError, match="code must not be read from") as refused:
            locate_uri(f"file:{path}", "udf", closed(settings))
        assert "HEADRACE_CODE_SOURCE_FOLDERS" in refused.value.hint
    with pytest.raises(ProgrammingError, match="code must not be read from"):
        locate_uri(f"file:{folder}/%2e%2e/%2e%2e/%2e%2e/outside.py", "udf", closed(settings))


@pytest.mark.parametrize("kind", ["udf", "trigger", "pipe"])
def test_settings_name_the_plugin_folders(kind: str, tmp_path: Path) -> None:
    write(tmp_path / "home" / "lib" / "here.py")
    write(tmp_path / "elsewhere" / "there.py")
    for value, module, name in (
        ("lib", "here", "the folder lib of the home"),
        (str(tmp_path / "elsewhere"), "there", f"the folder that HEADRACE_{kind.upper()}_FOLDER names"),
    ):
        settings = load(home=tmp_path / "home", **{f"{kind}_folder": value})
        source = locate_class(f"{module}.Class", kind, settings)
        assert source is not None
        assert source.name == f"{module}.py"
        with pytest.raises(ProgrammingError, match="code must not be read") as refused:
            locate_file("/etc/passwd.py", kind, settings)
        assert name in (refused.value.hint or "")


def test_a_link_within_the_plugin_folder_is_followed(folder: Path, settings: Settings) -> None:
    write(folder / "releases/2/double.py")
    (folder / "current").symlink_to(folder / "releases/2")
    assert locate_uri(f"file:{folder}/current/double.py", "udf", closed(settings)).read() == CODE


def test_a_setting_allows_further_folders(tmp_path: Path) -> None:
    write(tmp_path / "shared/double.py")
    settings = load(home=tmp_path / "home", code_source_folders=f"{tmp_path}/other:{tmp_path}/shared")
    assert locate_uri(f"file:{tmp_path}/shared/double.py", "udf", closed(settings)).read() == CODE


def test_what_is_no_file_of_code_is_refused(folder: Path, settings: Settings) -> None:
    os.mkfifo(folder / "pipe.py")
    write(folder / "double.jar")
    for path, message in {
        "missing.py": "does not exist",
        f"{'m' * 300}.py": "does not exist",
        "pipe.py": "is no file",
        ".": "is no file",
    }.items():
        with pytest.raises(NotFoundError, match=message):
            locate_file(path, "udf", settings)
    with pytest.raises(ProgrammingError, match=r"double.jar is not Python code"):
        locate_file("double.jar", "udf", settings)


def test_a_file_that_changes_into_something_else_is_not_read(folder: Path, settings: Settings) -> None:
    path = write(folder / "double.py")
    source = locate_file("double.py", "udf", settings)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StorageError, match=r"double.py is no regular file"):
        source.read()
    path.unlink()
    with pytest.raises(StorageError, match=r"double.py cannot be read: No such file"):
        source.read()


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", code_max_bytes=10)
    write(settings.plugin_folder("udf") / "large.py", b"#" * 11)
    with pytest.raises(LimitError, match=r"large.py has more than 10 bytes"):
        locate_file("large.py", "udf", settings).read()


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "URI is empty, please specify the URI."),
        ("double.py", "The scheme of URI is not set, please specify the scheme of URI."),
        ("/double.py", "The scheme of URI is not set, please specify the scheme of URI."),
        ("ftp://host/double.py", "URIs of code with the scheme ftp are not supported"),
        ("http://localhost/double.py", "URIs of code with the scheme http are not supported"),
        ("file://host/double.py", "names another machine"),
        ("file:", "the path of the code is empty"),
        ("file:a%00.py", "has a zero byte"),
        ("https://localhost/double.py", "HEADRACE_EGRESS does not allow code at https://localhost/double.py"),
        ("s3://bucket/double.py", "HEADRACE_EGRESS does not allow code at s3://bucket/double.py"),
    ],
)
def test_other_uris_are_refused(uri: str, message: str, settings: Settings) -> None:
    with pytest.raises(ProgrammingError) as refused:
        locate_uri(uri, "udf", closed(settings))
    assert message in refused.value.message
    assert refused.value.hint


# Addresses


@pytest.mark.parametrize(
    "uri",
    [
        "https://code.example.com/udf/double.py",
        "https://CODE.example.com:443/udf/v2/double.py",
        "https://other.example.com:8443/double.py",
        "s3a://bucket/udf/double.py",
    ],
)
def test_addresses_below_an_allowed_prefix_are_located(uri: str, tmp_path: Path) -> None:
    prefixes = "https://code.example.com/udf/, https://other.example.com:8443,s3://bucket/udf"
    settings = load(home=tmp_path / "home", egress=prefixes)
    assert locate_uri(uri, "udf", closed(settings)).name == "double.py"


@pytest.mark.parametrize(
    "uri",
    [
        "https://code.example.com/double.py",
        "https://code.example.com/udfs/double.py",
        "https://code.example.com/udf/../double.py",
        "https://code.example.com/udf/%2e%2e/double.py",
        "https://code.example.com:8443/udf/double.py",
        "https://code.example.com.evil.org/udf/double.py",
        "https://code.example.com@evil.org/udf/double.py",
        "https:///udf/double.py",
        "s3://code.example.com/udf/double.py",
    ],
)
def test_addresses_elsewhere_are_refused(uri: str, tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", egress="https://code.example.com/udf")
    with pytest.raises(ProgrammingError, match=r"does not allow|is not a valid URI|leads upwards"):
        locate_uri(uri, "udf", closed(settings))


def test_rules_for_other_connections_are_none_for_code(tmp_path: Path) -> None:
    for rules in ("*", "code.example.com", "kafka=https://code.example.com/"):
        with pytest.raises(EgressDeniedError):
            locate_uri("https://code.example.com/double.py", "udf", closed(load(home=tmp_path, egress=rules)))
    located = locate_uri("https://code.example.com/double.py", "udf", closed(load(home=tmp_path, egress="code=*.example.com")))
    assert located.name == "double.py"


# Downloads


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsServer]:
    """Provide a server whose certificate this process trusts."""
    with running_https_server(tmp_path) as running:
        monkeypatch.setenv("SSL_CERT_FILE", str(running.certificate))
        monkeypatch.setenv("no_proxy", "localhost")
        yield running


def download(server: HttpsServer, path: str, **settings: object) -> bytes:
    """Read code from a server, of which only paths below `/udf` are allowed."""
    loaded = load(home="unused", egress=server.url("/udf"), **settings)
    return locate_uri(server.url(path), "udf", closed(loaded)).read()


def test_code_is_downloaded(server: HttpsServer) -> None:
    server.serve("/udf/double.py", CODE)
    server.redirect("/udf/latest.py", "/udf/double.py")
    assert download(server, "/udf/double.py") == CODE
    assert download(server, "/udf/latest.py") == CODE


def test_redirects_to_other_places_are_not_followed(server: HttpsServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_https_server(tmp_path_factory.mktemp("other")) as other:
        targets = [
            server.url("/secret.py"),
            other.url("/udf/double.py"),
            f"http://localhost:{server.port}/udf/double.py",
            "file:///etc/passwd",
        ]
        for target in targets:
            server.redirect("/udf/double.py", target)
            with pytest.raises(Error, match=r"cannot be downloaded: .* not allowed|which is not allowed|does not allow"):
                download(server, "/udf/double.py")
        assert other.requests == []
    assert server.requests == ["/udf/double.py"] * len(targets)


def test_downloads_are_limited_in_size_and_time(server: HttpsServer) -> None:
    ended = threading.Event()
    server.serve("/udf/large.py", b"#" * 1_000_001)
    server.trickle("/udf/slow.py", ended)
    with pytest.raises(LimitError, match=r"large.py has more than 1000000 bytes"):
        download(server, "/udf/large.py", code_max_bytes=1_000_000)
    with pytest.raises(StorageError, match=r"slow.py takes too long to download"):
        download(server, "/udf/slow.py", code_download_timeout_s=1)
    assert ended.wait(60)


def test_failing_downloads_name_the_address(server: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match=r"udf/missing.py cannot be downloaded: HTTP Error 404"):
        download(server, "/udf/missing.py")
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(StorageError, match=r"CERTIFICATE_VERIFY_FAILED"):
        download(server, "/udf/missing.py")


# Classes without a URI


def test_a_class_of_the_plugin_folder_is_a_file_or_a_package(folder: Path, settings: Settings) -> None:
    write(folder / "double.py")
    write(folder / "tools/__init__.py")
    write(folder / "tools/data/scale.json")
    write(folder / "tools/__pycache__/__init__.cpython-311.pyc")
    write(folder / "org/apache/iotdb/example.py")
    found = {name: locate_class(name, "udf", settings) for name in ("double.D", "tools.D", "org.apache.iotdb.example.Adder")}
    contents = {name: source.read() for name, source in found.items() if source is not None}
    assert contents["double.D"] == CODE
    assert members(contents["tools.D"]) == ["tools/__init__.py", "tools/data/scale.json"]
    assert members(contents["org.apache.iotdb.example.Adder"]) == ["org/apache/iotdb/example.py"]
    assert locate_class("org.apache.iotdb.other.Adder", "udf", settings) is None


def test_a_class_is_found_in_a_wheel_or_zip(folder: Path, settings: Settings) -> None:
    write(folder / "damaged.zip", b"PK")
    write_zip(folder / "a.zip", "other.py")
    wheel = write_zip(folder / "tools-1.0-py3-none-any.whl", "tools/__init__.py", "tools/double.py")
    source = locate_class("tools.double.Double", "udf", settings)
    assert source is not None
    assert (source.name, source.read()) == (wheel.name, wheel.read_bytes())


def test_a_zip_of_a_package_depends_on_its_content_alone(folder: Path, settings: Settings) -> None:
    def content() -> bytes:
        source = locate_class("tools.Double", "udf", settings)
        assert source is not None
        return source.read()

    for name in ("a", "__init__", "b"):
        write(folder / f"tools/{name}.py")
    first = content()
    for path in (folder / "tools").iterdir():
        path.chmod(0o600)
        os.utime(path, (0, 0))
    assert content() == first
    write(folder / "tools/a.py", b"")
    assert content() != first


def test_an_installed_module_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "lib/installed_code.py")
    write(tmp_path / "lib/installed_tools/double.py")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    settings = load(home=tmp_path / "home")
    module = locate_class("installed_code.Double", "udf", settings)
    package = locate_class("installed_tools.double.Double", "udf", settings)
    assert module is not None
    assert package is not None
    assert module.read() == CODE
    assert members(package.read()) == ["installed_tools/double.py"]
    assert not {"installed_code", "installed_tools"} & set(sys.modules)
    for allowed, is_found in (("other,installed_*", True), ("installed_tools", False), ("", False)):
        settings = load(home=tmp_path / "home", code_packages=allowed)
        assert (locate_class("installed_code.Double", "udf", settings) is not None) is is_found


@pytest.mark.parametrize(
    "class_name",
    [
        "Double",
        "",
        "no.such.Clazz",
        "json.missing.Double",
        "..evil.Double",
        "a b.Double",
        "sys.Double",
        "headrace.udf.UDTF",
        f"{'m' * 300}.D",
        "x/y.D",
    ],
)
def test_other_classes_are_not_found(class_name: str, settings: Settings) -> None:
    assert locate_class(class_name, "udf", settings) is None


def test_a_package_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", code_max_bytes=10)
    write(settings.plugin_folder("udf") / "tools/__init__.py", b"#" * 11)
    source = locate_class("tools.Double", "udf", settings)
    assert source is not None
    with pytest.raises(LimitError, match="the package tools has more than 10 bytes"):
        source.read()
