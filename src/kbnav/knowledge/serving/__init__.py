"""Servers of data on this machine, which are asked as the endpoints on the web are."""
