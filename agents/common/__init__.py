"""What every agent has: its parts, its state, the policy of a chat model, and what follows a finish."""
