"""Hooks of MkDocs: pages of the project that are not in the folder of the documentation, and the version."""

import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md")
LINK = re.compile(r"\]\((?:\.\./)+(CHANGELOG|CONTRIBUTING)\.md(#[\w-]+)?\)")
DOCS_LINK = re.compile(r"\]\(docs/")
DETAILS = re.compile(r"\]\((?!\w+:|#|docs/)([\w./-]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the version beside the name."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    config.site_name = f"{config.site_name} {version}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are at the root of the project."""
    for name in OUTSIDE:
        files.append(File.generated(config, f"project/{name}", content=at_root(name)))
    return files


def at_root(name: str) -> str:
    """Return a page of the root with links that hold in the site; other files of the repository are only named."""
    text = DOCS_LINK.sub("](../", (ROOT / name).read_text())
    return DETAILS.sub(lambda link: link[0] if link[1].startswith("../") or link[1] in OUTSIDE else "]", text).replace("[]", "")


def on_page_markdown(markdown: str, *, page: object, **_: object) -> str:
    """Point links to pages of the root to their place in the site."""
    depth = page.file.src_uri.count("/")  # type: ignore[attr-defined]
    return LINK.sub(lambda link: f"]({'../' * depth}project/{link[1]}.md{link[2] or ''})", markdown)
