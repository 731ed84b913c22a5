"""What MkDocs calls while it builds the site (``hooks`` in ``mkdocs.yml``)."""

from __future__ import annotations

import shutil
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typing_extensions import override

from website.generated import with_parts
from website.links import FILES, OUTSIDE, ROOT, for_the_site
from website.notebooks import to_markdown


class NotebookFile(File):
    """A notebook that is a page of the site."""

    @override
    def is_documentation_page(self) -> bool:
        return True


FIRST = {"Tutorial", "How-to"}
"""Parts whose pages a search shows first; the reference, which has all words, comes after them."""


def on_config(config: MkDocsConfig) -> None:
    """Leave out the page of errors: it looks for its styles at the top of a host."""
    config.theme.static_templates.discard("404.html")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and files that lie outside of ``docs/``, and make pages of notebooks."""
    for source, place in OUTSIDE.items():
        if place != "README.md":
            text = for_the_site((ROOT / source).read_text(encoding="utf-8"), source)
            files.append(File.generated(config, place, content=text))
    for source, place in FILES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(notebook)
        page = NotebookFile(
            notebook.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls
        )
        page.content_string = to_markdown(notebook.content_string, Path(page.src_uri).name)
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links of the site and with its generated parts."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    if not FIRST.isdisjoint(section.title for section in page.ancestors):
        page.meta["search"] = {"boost": 8}
    if page.file.generated_by:
        return markdown
    return with_parts(for_the_site(markdown, f"docs/{page.file.src_uri}"))


def on_post_build(config: MkDocsConfig) -> None:
    """Put notebooks beside their pages, which have links to them."""
    docs = Path(config.docs_dir)
    for notebook in docs.rglob("*.ipynb"):
        shutil.copy(notebook, Path(config.site_dir) / notebook.relative_to(docs))
