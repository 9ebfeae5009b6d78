"""A vault that never was: seeded pages with the sizes and the word statistics of a real one.

Page `n` of a seed is always the same, whatever else is generated. Words follow Zipf's law over everyday English and
closed compounds of it, so that queries have many hits, stemming finds its work, and an English model knows the pieces.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from typing import Final

MEDIAN_WORDS: Final = 350  # of a body, with its headings and links
FRAME_WORDS: Final = 34  # what title, headings and links of such a body come to
SPREAD: Final = 0.4  # of the word count's logarithm
SHORTEST: Final = 40
LONG_SHARE: Final = 0.05
LONG_WORDS: Final = (1_200, 4_000)
LINKS: Final = 2
SECTION_WORDS: Final = 120  # under one heading, about
PARAGRAPH_WORDS: Final = 60
SENTENCE_WORDS: Final = (6, 22)
QUERY_WORDS: Final = (2, 5)
TELLING: Final = (140, 4_000)  # ranks of the words that say what a page is about and still stand in many
ZIPF_EXPONENT: Final = 1.2
ZIPF_SHIFT: Final = 2.7

_COMMON = (
    "the of and to in a is that for it as was with be by on not this are at from or have an they which one you had we"
    " can their has there been if more when will would who so no about up into than its time only could other these two"
    " may then do first any my now such like our over me even most made after also did many before must through back"
    " where much your way well down should because each just those people how too good very make still see work being"
    " new page note system order value change result reason model team data point state part rule case plan report test"
    " cost user choice source limit answer error history question record number process problem decision review"
    " service request memory index daily weekly project meeting draft method measure effect cause claim scope"
)
_PARTS = (
    "air arm back bank base bell bird block board boat body bone book box brand bread break bridge brook brush build"
    " camp card cart chain chalk clay cliff clock cloth cloud coast copper corn cross crown dark dawn deep dock door"
    " draft drift drop dust earth edge farm feather field fire fish flag flat flint flood flow foot forge frame frost"
    " gate glass gold grain grass green ground guard hand harbor head heart heat hill hollow horn horse house ice iron"
    " ivory key lake lamp land lane leaf ledge light line lock log long loom mark marsh mast meadow mill mine mirror"
    " moon moss mound night north oak oar ocean paper path pearl pin pine pipe plate plow pond post press quarry rail"
    " rain reed ridge ring river road rock roof root rope row sail salt sand scale seed shade sheep shell shore side"
    " silver sky slate slope smoke snow spark spring star steel stem stone storm straw stream sun swan table tail thorn"
    " tide timber tower track trail tree vale vine wagon wall watch water wave way wheat wheel whale wild wind wing"
    " winter wire wolf wood wool work yard"
)


@dataclass(frozen=True, slots=True)
class GeneratedPage:
    """A page's path below the wiki's folder, its title, and the whole file."""

    path: str
    title: str
    text: str


class VaultGenerator:
    """Makes the pages of one vault of `pages` pages, and queries about them.

    `telling_words` are those that queries are made of: neither everywhere nor in a page or two.
    """

    def __init__(self, pages: int, seed: int) -> None:
        self.pages = pages
        self._seed = seed
        self._words = _vocabulary()
        weights = [1 / (rank + ZIPF_SHIFT) ** ZIPF_EXPONENT for rank in range(len(self._words))]
        self._weights = list(accumulate(weights))
        self.telling_words = self._words[slice(*TELLING)]
        self._telling_weights = list(accumulate(weights[slice(*TELLING)]))

    def all(self) -> Iterator[GeneratedPage]:
        return map(self.page, range(self.pages))

    def page(self, number: int) -> GeneratedPage:
        """Page `number`, counted from 0."""
        kind, title, path = self._identity(number)
        rng = random.Random(f"{self._seed}/text/{number}")
        head = self._frontmatter(rng, kind, title)
        return GeneratedPage(path, title, f"---\n{head}---\n\n# {title}\n\n{self._body(rng)}")

    def queries(self, count: int, *, stream: str = "queries") -> list[str]:
        """Questions of two to five telling words that stand in one page; another `stream`, other questions."""
        rng = random.Random(f"{self._seed}/{stream}")
        known = set(self.telling_words)
        found = []
        for _ in range(count):
            page = self.page(rng.randrange(self.pages))
            telling = sorted(known.intersection(letters(page.text).split()))
            found.append(" ".join(rng.sample(telling, min(rng.randint(*QUERY_WORDS), len(telling)))))
        return found

    def _identity(self, number: int) -> tuple[str, str, str]:
        """The type, title and path that links to the page need as well."""
        rng = random.Random(f"{self._seed}/identity/{number}")
        kind, folder = rng.choices(
            (("concept", "concepts"), ("entity", "entities"), ("analysis", "analyses"), ("source", "sources")),
            (60, 20, 10, 10),
        )[0]
        words = self._telling(rng, rng.randint(2, 4))
        return kind, " ".join(words).capitalize(), f"{folder}/{'-'.join(words)}-{number:05d}.md"

    def _frontmatter(self, rng: random.Random, kind: str, title: str) -> str:
        """Eight keys, as pages of the OKF format have them."""
        month, day = rng.randint(1, 12), rng.randint(1, 28)
        metadata = {
            "type": kind,
            "title": title,
            "description": self._sentence(rng),
            "status": rng.choice(("stable", "stable", "draft")),
            "tags": self._telling(rng, 3),
            "aliases": [" ".join(self._telling(rng, 2))],
            "created": f"2024-{month:02d}-{day:02d}",
            "updated": f"2025-{month:02d}-{day:02d}",
        }
        # JSON values are YAML values
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in metadata.items())

    def _body(self, rng: random.Random) -> str:
        remaining = _length(rng)
        links = [self._link(rng) for _ in range(LINKS)]
        parts: list[str] = []
        in_section = 0
        while remaining > 0:
            if in_section >= SECTION_WORDS:
                parts.append(f"## {' '.join(self._telling(rng, 3)).capitalize()}")
                in_section = 0
            size = min(remaining, PARAGRAPH_WORDS)
            parts.append(self._block(rng, size, links.pop() if links else ""))
            remaining -= size
            in_section += size
        parts.extend(links)
        return "\n\n".join(parts) + "\n"

    def _block(self, rng: random.Random, size: int, link: str) -> str:
        """A paragraph of `size` words, now and then a list, ending in the link."""
        sentences = []
        while size > 0:
            length = min(size, rng.randint(*SENTENCE_WORDS))
            sentences.append(self._sentence(rng, length))
            size -= length
        if link:
            sentences.append(link)
        if rng.random() < 0.15:
            return "\n".join(f"- {each}" for each in sentences)
        return " ".join(sentences)

    def _sentence(self, rng: random.Random, length: int = 10) -> str:
        return " ".join(rng.choices(self._words, cum_weights=self._weights, k=length)).capitalize() + "."

    def _telling(self, rng: random.Random, count: int) -> list[str]:
        return rng.choices(self.telling_words, cum_weights=self._telling_weights, k=count)

    def _link(self, rng: random.Random) -> str:
        _, title, path = self._identity(rng.randrange(self.pages))
        return f"[{title}](/{path})."


def write_pages(generator: VaultGenerator, folder: Path) -> None:
    """Write every page below `folder`."""
    for page in generator.all():
        path = folder / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.text, encoding="utf-8", newline="\n")


def _length(rng: random.Random) -> int:
    if rng.random() < LONG_SHARE:
        return rng.randint(*LONG_WORDS)
    return max(SHORTEST, round((MEDIAN_WORDS - FRAME_WORDS) * rng.lognormvariate(0.0, SPREAD)))


def _vocabulary() -> Sequence[str]:
    """Common words by falling frequency, then every pair of parts, in an order that mixes them."""
    compounds = [a + b for a, b in product(_PARTS.split(), repeat=2) if a != b]
    random.Random(0).shuffle(compounds)
    return list(dict.fromkeys([*_COMMON.split(), *_PARTS.split(), *compounds]))


def letters(text: str) -> str:
    """The text in lower case, all but its letters blank."""
    return "".join(each if each.isalpha() else " " for each in text.lower())
