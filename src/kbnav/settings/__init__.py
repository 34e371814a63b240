"""Settings and where they come from, options of systems, plug-ins, and the registry of systems."""
