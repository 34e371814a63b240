"""Questions and chats put to an agent, and what comes of a run: its evidence, its citation, other meanings of a name."""
