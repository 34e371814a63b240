"""A bot that answers questions on the talk pages of a MediaWiki."""
