"""Every address of the chat page's server, by what it is for."""

from kbnav.apps.web.routes import completions, explore, pages, questions, results

ROUTERS = (
    pages.login_router, pages.router, questions.router, results.router, explore.api_router, explore.router,
    completions.router, pages.text2sparql_router,
)  # fmt: skip
