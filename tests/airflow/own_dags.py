"""DAGs of a user, which the system of the tests runs beside those of Headrace."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.docs.pages import AIRFLOW_REASON, ROOT, parse_blocks

PAGE: Final = ROOT / "docs" / "guides" / "airflow.md"


def write_own_dags(folder: Path) -> None:
    """Write the DAG files of the page about DAGs of users into a folder."""
    folder.mkdir(parents=True)
    for number, block in enumerate(block for block in parse_blocks(PAGE) if block.skip_reason == AIRFLOW_REASON):
        (folder / f"own_{number}.py").write_text(block.text)
