"""The chat page and its APIs: ``kbnav serve``."""
