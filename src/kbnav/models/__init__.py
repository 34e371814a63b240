"""Chat models: opened, called, priced, cancelled; and models that follow a script."""
