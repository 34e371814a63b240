"""Answers to take along and to pass on: one file that fetches nothing, a description for programs, a citation."""
