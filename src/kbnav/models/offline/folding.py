"""Names as they are compared."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache


@lru_cache(8_192)
def fold(text: str) -> str:
    """Without case, accents and the Arabic article. The same few names are compared with much, again and again."""
    decomposed = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()
    return " ".join(re.sub(r"^ال(?=\w{3})", "", word) for word in plain.split())
