"""The Java runtime that Spark needs: checked before anything is downloaded or started."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from headrace.errors import ConfigurationError

# Spark 4.2 is tested on these; older ones cannot load its classes.
SUPPORTED = (17, 21)
INSTALL_HINT = (
    "install Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME"
)


def find_java() -> Path:
    """Return the `java` executable of JAVA_HOME or the path; raise `ConfigurationError` if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        where = f"JAVA_HOME={home}" if home else "the path"
        raise ConfigurationError(f"no Java runtime on {where}; Spark runs on it", hint=INSTALL_HINT)
    return Path(java)


def java_version(java: Path) -> str:
    said = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "([^"]+)"', said.stderr)
    if match is None:
        raise ConfigurationError(f"{java} does not report its version", hint=INSTALL_HINT)
    return match.group(1)


def check_java() -> str:
    """Return the version of a supported Java runtime; raise `ConfigurationError` saying what to install otherwise."""
    java = find_java()
    version = java_version(java)
    major = int(version.split(".")[0].split("-")[0])
    if major < min(SUPPORTED):
        raise ConfigurationError(f"Java {version} at {java} is too old for Spark", hint=INSTALL_HINT)
    return version


def host_variables(master: str) -> dict[str, str]:
    """Return variables with which a local Spark starts although no address belongs to the machine's name.

    In a container without a network none does, and Spark then fails. Executors on other machines need a name that has one.
    """
    if not master.startswith("local") or os.environ.keys() & {"SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP"}:
        return {}
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return {"SPARK_LOCAL_HOSTNAME": "localhost"}
    return {}
