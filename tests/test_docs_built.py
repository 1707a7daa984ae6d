"""The pages as a browser gets them: nothing from other hosts, formulas drawn, words found."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all pages but the reference, which takes a minute by itself."""
    out = tmp_path_factory.mktemp("pages")
    settings = [
        "exclude_patterns=_build,_extensions,api/*",
        "extensions=described,mathml,myst_nb,sphinx.ext.autodoc",
    ]
    options = [part for setting in settings for part in ("-D", setting)]
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", *options, "docs", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    known = re.compile(r"WARNING: (?:toctree contains reference to excluded|unknown) document")
    assert [line for line in done.stderr.splitlines() if line and not known.search(line)] == []
    return out


def words() -> dict[str, tuple[str, ...]]:
    """Return the words of the field, and the pages that each should lead to."""
    path = ROOT / "docs" / "_extensions" / "described.py"
    spec = importlib.util.spec_from_file_location("described", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, tuple[str, ...]] = module.WORDS
    return found


class Loaded(HTMLParser):
    """Collects what a page makes a browser fetch, and what its head says."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.meta: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag in LOADS:
            self.loads.append(found.get(LOADS[tag], ""))
        if tag == "link" and found.get("rel") != "canonical":
            self.loads.append(found.get("href", ""))
        if tag == "meta" and "name" in found:
            self.meta[found["name"]] = found.get("content", "")


def read(page: Path) -> Loaded:
    """Return what a built page loads and says of itself."""
    parser = Loaded()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_nothing_is_loaded_from_other_hosts(built: Path) -> None:
    pages = sorted(built.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        outside = [url for url in read(page).loads if re.match(r"(?:https?:)?//", url)]
        assert outside == [], page.name
    for style in built.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(|@import )\s*[\"']?(?:https?:)?//", text), style.name
    for script in built.rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"(?:fetch|import)\(\s*[\"'](?:https?:)?//", text), script.name


def test_the_playground_lies_where_its_guide_points(built: Path) -> None:
    guide = (built / "guides" / "playground.html").read_text(encoding="utf-8")
    (link,) = set(re.findall(r'href="(\S*playground/index\.html)"', guide))
    assert (built / "guides" / link).resolve().is_file()


def test_formulas_are_drawn_by_the_browser_itself(built: Path) -> None:
    formulas = 0
    for page in built.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        drawn = re.findall(r"<math .*?</math>", text, re.DOTALL)
        formulas += len(drawn)
        # What the converter does not know it writes down as it is.
        for formula in drawn:
            assert not re.search(r"<m\w+[^>]*>[^<]*(?:\\|&<)", formula), formula
        assert not re.search(r"<script[^>]+mathjax", text, re.IGNORECASE)
    assert formulas > 150


def test_every_page_says_what_it_is_about(built: Path) -> None:
    said: Counter[str] = Counter()
    for source in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]:
        name = source.relative_to(ROOT / "docs").with_suffix("")
        if name.parts[0] in {"_build", "api"}:
            continue
        meta = read(built / f"{name}.html").meta
        assert len(meta.get("description", "")) > 40, name
        said[meta.get("description", "")] += 1
        for word, pages in words().items():
            assert (word in meta.get("keywords", "").split(", ")) == (str(name) in pages), name
    assert max(said.values()) == 1


def ranked(index: dict[str, dict[str, list[int] | int]], query: str) -> list[int]:
    """Return pages that hold all words of a query, best first, by Sphinx's own weights."""
    # Slow to import, and workers that do not build pages need them not.
    from snowballstemmer import stemmer
    from sphinx.search.en import SearchEnglish

    stem = stemmer("english").stemWord
    points: Counter[int] = Counter()
    hits: list[set[int]] = []
    for word in set(re.findall(r"\w+", query.lower())) - SearchEnglish.stopwords:
        pages: set[int] = set()
        for table, weight in (("titleterms", 15), ("terms", 5)):
            found = index[table].get(stem(word), [])
            for page in found if isinstance(found, list) else [found]:
                points[page] += weight
                pages.add(page)
        hits.append(pages)
    return sorted(set.intersection(*hits), key=lambda page: -points[page])


def test_the_search_finds_the_words_of_the_field(built: Path) -> None:
    text = (built / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    names = index["docnames"]
    for query, pages in words().items():
        found = [names[k] for k in ranked(index, query)]
        assert set(pages) <= set(found), query
        assert found.index(pages[0]) < 12, (query, found)
        shown = (built / f"{pages[0]}.html").read_text(encoding="utf-8")
        assert query.lower() in re.sub(r"<[^>]+>|\s+", " ", shown).lower(), query


def test_the_glossary_leads_to_the_pages_of_the_field(built: Path) -> None:
    glossary = (built / "glossary.html").read_text(encoding="utf-8").lower()
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", glossary))
    for word in FIELD:
        assert word.lower() in plain, word
        target = words()[word][0].split("/")[-1]
        assert f"{target}.html" in glossary, word


FIELD = (
    "analytic federated learning",
    "one-shot federated learning",
    "closed-form",
    "ROCKET",
    "MiniRocket",
    "edge",
    "unlearning",
    "echo state network",
    "reservoir computing",
    "federated ridge regression",
    "FedAvg",
    "differential privacy",
    "secure aggregation",
    "human activity recognition",
)
