"""Hooks of mkdocs: the site is made of the files as they lie in the repository.

Links of the documents are those of a checkout.  So each is resolved there and led to the page that shows that file:
documents are pages anyway, and any other file that a document names (a specification, a test, a module) becomes a page
with its text.  ``mkdocs.yml`` names this module; ``make docs`` builds the site.
"""

import json
import posixpath
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from permitflow_tools.checking import check_graph
from permitflow_tools.explain.blueprint_page import JudgedGraph, blueprint_page
from permitflow_tools.explain.playground import play_page
from permitflow_tools.explain.playgrounds import PLAYGROUNDS
from permitflow_tools.parameters.graph import read_graph
from tools import cli_reference, proved_code, wire_errors_reference

REPOSITORY = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?(?:\s+\"[^\"]*\")?\))")
EMPTY_HEADER = re.compile(r"<th[^>]*></th>")
HOME = "README.md"
CONTENTS = "docs/README.md"
SOURCES = "sources"
PLAY = "start/play.md"
GRAPHS = REPOSITORY / "docs/examples/graphs"
GRAPHS_GUIDE = "guides/graphs.md"
GRAPH_LINK = re.compile(r"\]\(\.\./examples/graphs/(?:\w+/)?([\w-]+)\.toml\)")


def playground_links() -> str:
    """To the pages that only the site has."""
    links = " \u00b7 ".join(f"[{each.title}](../play/{name}.html)" for name, each in PLAYGROUNDS.items())
    return f"**Open: {links}**"


MARKED = {
    PLAY: ("<!-- the site leads to the pages from here -->", playground_links),
    "reference/wire_errors.md": ("<!-- the site has the table of types here -->", wire_errors_reference.table),
    "reference/proved-code.md": ("<!-- the site lists the claims here -->", proved_code.claims),
}
"""What only the site has, because it is generated: by page, the mark that it replaces."""
DOORS = "reference/api.md"
DOOR = re.compile(r"^\| \[`([\w.]+)`\]\(([^)]+)\)", re.MULTILINE)
_WITHOUT_CONTENT = ("__init__.py", "py.typed")
LANGUAGES = {".py": "python", ".toml": "toml", ".proto": "protobuf", ".tla": "text", ".jsonl": "json", ".csv": "text"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give each door its place in the navigation."""
    reference = next(part["Reference"] for part in config.nav or [] if "Reference" in part)
    python = next(part["Python"] for part in reference if isinstance(part, dict))
    python += [_page_of(door) for door in _doors()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as home, pages for each door and for all commands, and what the documents link to."""
    if contents := files.get_file_from_path("README.md"):
        files.remove(contents)
    pages = {"index.md": HOME, "contents.md": CONTENTS}
    pages |= {site_path(named): named for named in _named_sources()}
    for uri, place in pages.items():
        files.append(File.generated(config, uri, content=_content(place)))
    for door in _doors():
        files.append(File.generated(config, _page_of(door), content=f"# {door}\n\n::: {door}\n"))
    files.append(File.generated(config, "reference/cli.md", content=cli_reference.reference()))
    for name, playground in PLAYGROUNDS.items():
        files.append(File.generated(config, f"play/{name}.html", content=play_page(playground, PLAYGROUNDS.values())))
    for described in sorted(GRAPHS.rglob("*.toml")):
        graph = read_graph(described)
        page = blueprint_page(JudgedGraph(graph.about.title, graph.blueprint, check_graph(graph.blueprint)))
        files.append(File.generated(config, f"graphs/{described.stem}.html", content=page))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead the links of a checkout to pages."""
    place = _places().get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if place.endswith(tuple(LANGUAGES)):
        return markdown  # a text that is shown, not a document
    if page.file.src_uri == DOORS:
        markdown = DOOR.sub(r"| [`\1`](python/\1.md)", markdown)
    if marked := MARKED.get(page.file.src_uri):
        mark, generated = marked
        before, after = markdown.split(mark)
        markdown = f"{before}{generated()}{after}"
    if page.file.src_uri == GRAPHS_GUIDE:
        markdown = GRAPH_LINK.sub(r"\g<0> ([page](../graphs/\1.html))", markdown)
    return LINK.sub(lambda link: f"{link[1]}{_led(link[2], place, page.file.src_uri)}{link[3]}", markdown)


def on_page_content(html: str, **_: object) -> str:
    """A header without a word is none."""
    return EMPTY_HEADER.sub("<td></td>", html)


def _doors() -> list[str]:
    """The modules that users import, in reading order."""
    return [found[1] for found in DOOR.finditer((REPOSITORY / "docs" / DOORS).read_text(encoding="utf-8"))]


def _page_of(door: str) -> str:
    return f"reference/python/{door}.md"


def site_path(place: str) -> str:
    """The page, or the file below docs, that shows a file or folder of the repository."""
    if place == HOME:
        return "index.md"
    if place == CONTENTS:
        return "contents.md"
    if place.startswith("docs/") and (REPOSITORY / place).is_file():
        return place.removeprefix("docs/")
    return f"{SOURCES}/{place}.md" if (REPOSITORY / place).is_file() else f"{SOURCES}/{place}/index.md"


def _places() -> dict[str, str]:
    """Where the files of those pages lie that do not lie below docs."""
    return {"index.md": HOME, "contents.md": CONTENTS} | {site_path(place): place for place in _named_sources()}


def _led(target: str, place: str, uri: str) -> str:
    if "://" in target or target.startswith(("mailto:", "/")):
        return target
    aim = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
    if not (REPOSITORY / aim).exists():
        return target  # mkdocs itself tells of a link that leads nowhere
    return posixpath.relpath(site_path(aim), posixpath.dirname(uri) or ".")


@cache
def _tracked() -> tuple[str, ...]:
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    return tuple(listed.stdout.splitlines())


@cache
def _named_sources() -> list[str]:
    """Files and folders outside docs that documents link to; with a folder, its files; in Markdown, what these name."""
    known = _tracked()
    ahead = [place for place in known if place.endswith(".md") and (place == HOME or place.startswith("docs/"))]
    read, found = set(ahead), set[str]()
    while ahead:
        place = ahead.pop()
        for link in LINK.finditer((REPOSITORY / place).read_text(encoding="utf-8")):
            aim = posixpath.normpath(posixpath.join(posixpath.dirname(place), link[2]))
            if "://" in link[2] or not (REPOSITORY / aim).exists() or aim in read:
                continue
            is_folder = (REPOSITORY / aim).is_dir()
            inside = (each for each in known if posixpath.dirname(each) == aim)
            aims = (
                [aim, *(each for each in inside if posixpath.basename(each) not in _WITHOUT_CONTENT)]
                if is_folder
                else [aim]
            )
            for each in aims:
                if each.startswith("docs/") and not (is_folder and each == aim):
                    continue
                found.add(each)
                if each.endswith(".md") and each not in read:
                    read.add(each)
                    ahead.append(each)
    return sorted(found - {HOME, CONTENTS})


def _content(place: str) -> str:
    path = REPOSITORY / place
    if path.is_dir():
        names = [each.name for each in sorted(path.iterdir()) if f"{place}/{each.name}" in _tracked()]
        # Resolved as from a document in the folder beside it.
        lines = [f"- [{name}]({path.name}/{name})" for name in names if name not in _WITHOUT_CONTENT]
        return "\n".join([f"# {place}", "", *lines, ""])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".ipynb":
        return "\n\n".join(_shown(json.loads(text)["cells"]))
    return f"# {place}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def _shown(cells: list[dict[str, Any]]) -> Iterator[str]:
    """A notebook as Markdown: its text, its code, and what this printed and drew."""
    heading = ""
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = next((line.lstrip("# ") for line in source.splitlines() if line.startswith("#")), heading)
            yield source
            continue
        yield f"```python\n{source}\n```"
        printed = "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")
        if printed:
            yield f"```text\n{printed.rstrip()}\n```"
        for output in cell["outputs"]:
            if picture := output.get("data", {}).get("image/png"):
                data = "".join(picture).replace("\n", "")
                yield f'<p><img src="data:image/png;base64,{data}" alt="The plot of: {heading}"></p>'
