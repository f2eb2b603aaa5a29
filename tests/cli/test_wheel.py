"""The wheel names what it needs, as the environment of the checkout has it."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

import headrace
from headrace.runtime.airflow_versions import BELOW, MINIMUM
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """Build the wheel, and return its metadata."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def run_time_requirements() -> Iterator[str]:
    """Yield the lines of the first section of requirements.in."""
    for line in (ROOT / "requirements.in").read_text().splitlines()[1:]:
        if line.startswith("#"):
            return
        yield line


def normalized(requirement: str) -> str:
    """Return a requirement without spaces and with its specifiers sorted, as builds order them differently."""
    name, *specifiers = requirement.replace(" ", "").replace(">", ",>").replace("==", ",==").replace("<", ",<").split(",")
    return ",".join((name.lower().replace("_", "-"), *sorted(filter(None, specifiers))))


def test_the_wheel_requires_what_the_checkout_installs_except_airflow(metadata: Message) -> None:
    expected = {normalized(line) for line in run_time_requirements() if not line.startswith("apache-airflow")}
    required = {normalized(requirement) for requirement in metadata.get_all("Requires-Dist", []) if "extra ==" not in requirement}
    assert required == expected
    assert len(expected) > 10


def test_the_extra_airflow_brings_what_the_checkout_installs_or_a_wider_range(metadata: Message) -> None:
    extra = [requirement for requirement in metadata.get_all("Requires-Dist", []) if "extra == 'airflow'" in requirement]
    assert [line for line in run_time_requirements() if line.startswith("apache-airflow==")] == ["apache-airflow==3.3.2"]
    assert any(requirement.startswith(f"apache-airflow<{BELOW},>={MINIMUM}") for requirement in extra), extra


def test_the_version_is_that_of_the_package_and_of_the_changelog(metadata: Message) -> None:
    newest = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert metadata["Version"] == headrace.__version__ == newest.split()[1]


def test_the_description_is_the_readme(metadata: Message) -> None:
    assert Path(ROOT / "README.md").read_text().splitlines()[0] in str(metadata.get_payload())
