"""Pages and pictures for newcomers are true: their links lead to the code, and the picture shows its imports."""

import re
from pathlib import Path

import pytest

from scripts.house_picture import draw_house
from scripts.page_links import BrokenLink, refresh_links
from tests.support.adding_pages import ADDING_PAGES, read_steps
from tests.support.repository import DOCS, ROOT
from tests.support.tables import try_each

PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def test_the_walk_links_to_the_lines_of_its_functions() -> None:
    walk = DOCS / "walk.md"
    assert walk.read_text().count("#L") > 30
    assert refresh_links(walk) == walk.read_text(), "run `make generate`"


def test_the_picture_of_the_house_shows_the_imports_of_today() -> None:
    assert (DOCS / "house.svg").read_text() == draw_house(ROOT), "run `make generate`"


def test_a_link_to_a_function_that_is_gone_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("class A:\n    def there(self): ...\n")
    page = tmp_path / "page.md"
    page.write_text("[`A.there`](module.py#L1)")
    assert refresh_links(page) == "[`A.there`](module.py#L2)"
    for gone in ("[`A.gone`](module.py#L2)", "[`A.there`](elsewhere.py#L2)"):
        page.write_text(gone)
        with pytest.raises(BrokenLink, match=r"links to A\.\w+ in \w+\.py, and it is not there"):
            refresh_links(page)


@try_each("page", PAGES)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


@try_each("page", PAGES)
def test_paths_of_code_in_prose_exist(page: Path) -> None:
    paths = re.findall(
        r"`((?:protocol|storage|tools|server|clients|tests|scripts)/[\w./-]+\.(?:py|toml|md))`", page.read_text()
    )
    made = {
        step.file for name in ADDING_PAGES for step in read_steps(DOCS / name) if step.kind in {"python", "markdown"}
    }
    assert not [path for path in paths if not (ROOT / path).exists() and path not in made]
