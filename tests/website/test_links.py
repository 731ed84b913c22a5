"""Links of all pages lead to files and headings that are there, in the repository and on the site.

``make docs`` checks the site itself; these tests need nothing but the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from website.generated import with_parts
from website.links import FILES, OUTSIDE, ROOT, for_the_site, outside_code
from website.notebooks import to_markdown

PAGES = sorted(path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".ipynb")) + [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def text_of(page: Path) -> str:
    """Return a page as the site has it, but with the links of the repository."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        return to_markdown(text, page.name)
    return with_parts(text)


@cache
def headings(page: Path) -> set[str]:
    """Return the anchors of the headings of *page*, as GitHub and the site make them."""
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set(re.findall(r'id="([^"]+)"', prose))
    found |= {*re.findall(r"^::: (\S+)$", prose, re.MULTILINE)}
    for heading in re.findall(r"^#+ +(.+?) *$", prose, re.MULTILINE):
        if given := re.search(r" \{ #(\S+) \}$", heading):
            found.add(given[1])
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.replace("`", "")).strip().lower().replace(" ", "-")
        number = 1
        while slug in found:
            slug = f"{slug.removesuffix(f'_{number - 1}')}_{number}"
            number += 1
        found.add(slug)
    return found


def links(page: Path) -> list[tuple[str, str]]:
    """Return file and anchor of each link of *page* that leads to no other host."""
    prose: list[str] = []

    def keep(part: str) -> str:
        prose.append(part)
        return part

    outside_code(text_of(page), keep)
    found = re.findall(r"\]\(([^)\s]+)\)", "\n".join(prose))
    parts = [link.partition("#") for link in found if "://" not in link]
    return [(file, anchor) for file, _, anchor in parts]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    missing = [file for file, _ in links(page) if file and not (page.parent / file).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_headings(page: Path) -> None:
    wrong = [
        f"{file}#{anchor}"
        for file, anchor in links(page)
        if anchor and anchor not in headings((page.parent / file).resolve() if file else page)
    ]
    assert wrong == []


def test_every_page_is_in_the_navigation_once() -> None:
    pages = {name_of(page).removeprefix("docs/") for page in PAGES if page.parent != ROOT}
    named = list(entries(navigation()))
    assert len(named) == len(set(named))
    assert set(named) == pages | {"contributing.md", "changelog.md"}


def navigation() -> Any:
    """Return the navigation; tags of ``mkdocs.yml`` that make objects of Python are ignored."""
    loader: Any = type("Loader", (yaml.SafeLoader,), {})
    loader.add_multi_constructor("", lambda loader, suffix, node: None)
    return yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), loader)["nav"]


def entries(part: Any) -> Iterator[str]:
    """Return the pages of a *part* of the navigation."""
    if isinstance(part, str):
        yield part
    for child in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        yield from entries(child)


def test_each_page_and_file_outside_has_a_place() -> None:
    assert all((ROOT / name).exists() for name in (*OUTSIDE, *FILES))


@pytest.mark.parametrize("part", ["howto", "reference", "explanation", "tutorial"])
def test_overviews_call_pages_by_their_titles(part: str) -> None:
    overview = ROOT / "docs" / part / "README.md"
    found = re.findall(r"\[([^\]]+)\]\(([^)#]+)\)", overview.read_text(encoding="utf-8"))
    titles = {
        link: re.search(r"^# (.+)$", text_of((overview.parent / link).resolve()), re.MULTILINE)
        for _, link in found
        if "://" not in link
    }
    wrong = {text: title[1] for text, link in found if (title := titles[link]) and title[1] != text}
    assert wrong == {}


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent != ROOT], ids=name_of)
def test_a_page_whose_code_reads_the_model_offers_it(page: Path) -> None:
    """Who has only the package installed can download it."""
    text = page.read_text(encoding="utf-8")
    shown = text if page.suffix == ".md" else text_of(page)
    code = re.findall(r"^```(?:python|sh)\n.*?^```", shown, re.MULTILINE | re.DOTALL)
    if "digits.onnx" in "".join(code):
        assert "glow_nb/demo/digits.onnx)" in text or "glow_nb.demo" in text


@pytest.mark.parametrize(
    ("page", "link", "wanted"),
    [
        ("docs/running.md", "../CONTRIBUTING.md#tests", "contributing.md#tests"),
        ("docs/howto/debugging.md", "../../README.md", "../README.md"),
        ("docs/howto/debugging.md", "../plans.md#a-plan", "../plans.md#a-plan"),
        ("docs/README.md", "../CHANGELOG.md", "changelog.md"),
        ("docs/howto/report.md", "../../glow_nb/demo/digits.onnx", "../digits.onnx"),
        ("CONTRIBUTING.md", "docs/architecture.md", "architecture.md"),
        ("CONTRIBUTING.md", "#tests", "#tests"),
        ("docs/README.md", "https://numba.pydata.org", "https://numba.pydata.org"),
    ],
)
def test_links_on_the_site(page: str, link: str, wanted: str) -> None:
    assert for_the_site(f"see [it]({link})", page) == f"see [it]({wanted})"


def test_a_file_is_called_by_its_title() -> None:
    text = "see [plans.md](../plans.md#a-plan), [it](../plans.md)"
    title = (ROOT / "docs" / "plans.md").read_text(encoding="utf-8").partition("\n")[0][2:]
    wanted = f"see [{title}](../plans.md#a-plan), [it](../plans.md)"
    assert for_the_site(text, "docs/howto/debugging.md") == wanted


def test_code_is_left_as_it_is() -> None:
    text = "`[a](../README.md)`\n\n```text\n[a](../README.md)\n```\n"
    assert for_the_site(text, "docs/howto/debugging.md") == text
