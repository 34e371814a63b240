"""The command line, a module for each group of commands."""

from kbnav.apps.cli.root import app, main

__all__ = ["app", "main"]
