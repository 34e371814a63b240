"""What is asked and what is answered: questions and their words, tables of typed rows, rankings."""
