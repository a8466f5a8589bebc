"""The files that pages and drawings are made of."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template


def asset(name: str, folder: Traversable | None = None) -> str:
    """The text of one of them; what the given folder has is taken from there."""
    own = None if folder is None else folder.joinpath(name)
    found = own if own is not None and own.is_file() else files(__name__).joinpath(name)
    return found.read_text(encoding="utf-8")


def page(
    name: str,
    styles: Sequence[str],
    texts: Mapping[str, str],
    markup: Mapping[str, str],
    *,
    scripts: Sequence[str] = (),
    document: object = None,
    folder: Traversable | None = None,
    asks_its_server: bool = False,
) -> str:
    """One HTML file with everything in it: nothing is fetched, and the page forbids itself to.

    Args:
        name: of the template of its body, without the suffix; scripts find the data under this name.
        styles: files of style.
        texts: what stands in the template, among them a title; no text is taken for markup.
        markup: what else stands in it.
        scripts: files that are joined into one script with a scope of its own; without any, none may run.
        document: the data for them.
        folder: the files of a program that has some of its own.
        asks_its_server: may scripts fetch from where the page comes from?
    """
    escaped = {key: escape(text) for key, text in texts.items()}
    data = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    for character in "<\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    code = "\n".join(asset(name, folder) for name in scripts)
    script = f'''<script type="application/json" id="{name}">{data}</script>
<script>
(() => {{
"use strict";
{code}}})();
</script>'''
    body = asset(f"{name}.html", folder).replace("$controls", asset("controls.html"))  # of a page with a player
    return Template(asset("page.html")).substitute(
        html_class="no-script" if scripts else "plain",
        body_class=f"{name}-body",
        script_source="script-src 'unsafe-inline';" if scripts else "",
        connect_source="connect-src 'self';" if asks_its_server else "",
        title=escaped["title"],
        style="".join(asset(each, folder) for each in styles),
        body=Template(body).substitute(escaped, **markup),
        script=script if scripts else "",
    )
