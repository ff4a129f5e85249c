"""How long orders usually rest in a step, as learned from their own history, and what is over it."""
