"""Every address of the server, by what it is for."""

from kbnav.apps.web.routes.completions import router as completions
from kbnav.apps.web.routes.dates import router as dates
from kbnav.apps.web.routes.doors import router as doors
from kbnav.apps.web.routes.editing import router as editing
from kbnav.apps.web.routes.entities import router as entities
from kbnav.apps.web.routes.evidence import router as evidence
from kbnav.apps.web.routes.explore import router as explore
from kbnav.apps.web.routes.pages import router as pages
from kbnav.apps.web.routes.questions import router as questions
from kbnav.apps.web.routes.results import router as results
from kbnav.apps.web.routes.sessions import router as sessions
from kbnav.apps.web.routes.text2sparql import router as text2sparql

ROUTERS = (
    doors, pages, questions, sessions, editing, evidence, dates, results, entities, explore, completions, text2sparql,
)  # fmt: skip
