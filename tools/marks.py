"""Programs paste what they have found into documents, between a mark that names them and ``<!-- end -->``."""

import re


def pasted(text: str, mark: str, content: str) -> str:
    """The text with other content behind this mark.

    Raises:
        ValueError: it does not have the mark once.
    """
    place = re.compile(rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
    text, count = place.subn(lambda found: f"{found[1]}{content}{found[2]}", text)
    if count != 1:
        raise ValueError(f"the document has {count} places marked <!-- {mark} -->: it must have one")
    return text
