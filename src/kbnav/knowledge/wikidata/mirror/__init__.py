"""A local stand-in for Wikidata: an embedded RDF store built from files, asked in the process or served over HTTP.

``build.build_mirror`` makes one, ``mirror.Mirror`` opens it, ``kbnav.knowledge.serving`` serves it. Nothing is
imported here, so that the command line starts without the store's library.
"""
