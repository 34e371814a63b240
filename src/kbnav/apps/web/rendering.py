"""Templates as pages in the language of whoever asks for them."""

from __future__ import annotations

from functools import cache

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kbnav.apps.web.parts import HERE
from kbnav.apps.web.texts import Texts, language_of


@cache
def _environment() -> Environment:
    return Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)


def page(request: Request, name: str, status: int = 200, **values: object) -> HTMLResponse:
    """A page rendered in the language of who asks for it; whatever is put into it is escaped."""
    texts = Texts(language_of(request.headers))
    text = _environment().get_template(name).render(t=texts, **values)
    return HTMLResponse(text, status, {"Vary": "Accept, Accept-Language, Cookie"})
