"""Plans of relation paths from the nodes a question names to those that answer it (PASemiQA, section 4.1)."""
