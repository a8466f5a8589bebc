"""The files that pages and drawings are made of."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

__all__ = ["asset", "page"]


def asset(name: str) -> str:
    """The text of one of them."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def page(
    name: str,
    styles: Sequence[str],
    texts: Mapping[str, str],
    markup: Mapping[str, str],
    *,
    scripts: Sequence[str] = (),
    document: object = None,
) -> str:
    """One HTML file with everything in it: nothing is fetched, and the page forbids itself to.

    Args:
        name: of the template of its body, without the suffix; scripts find the data under this name.
        styles: files of style.
        texts: what stands in the template, among them a title; no text is taken for markup.
        markup: what else stands in it.
        scripts: files that are joined into one script with a scope of its own; without any, none may run.
        document: the data for them.
    """
    escaped = {key: escape(text) for key, text in texts.items()}
    data = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    for character in "<\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    code = "\n".join(map(asset, scripts))
    script = f'''<script type="application/json" id="{name}">{data}</script>
<script>
(() => {{
"use strict";
{code}}})();
</script>'''
    return Template(asset("page.html")).substitute(
        html_class="no-script" if scripts else "plain",
        body_class=f"{name}-body",
        script_source="script-src 'unsafe-inline';" if scripts else "",
        title=escaped["title"],
        style="".join(map(asset, styles)),
        body=Template(asset(f"{name}.html")).substitute(escaped, **markup),
        script=script if scripts else "",
    )
