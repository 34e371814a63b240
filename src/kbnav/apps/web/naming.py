"""What files are called that a reader takes along."""

from __future__ import annotations

import re
from urllib.parse import quote

LONGEST = 100


def attachment(title: str, ending: str) -> str:
    """The header ``Content-Disposition`` of a file that is called after a title, as RFC 6266 has it."""
    words = " ".join(re.sub(r"[^\w .,'()-]", " ", title).split())[:LONGEST].strip(" .") or "kbnav"
    plain = words.encode("ascii", "ignore").decode().strip() or "kbnav"
    header = f'attachment; filename="{plain}.{ending}"'
    return header if plain == words else f"{header}; filename*=UTF-8''{quote(words, safe='')}.{ending}"
