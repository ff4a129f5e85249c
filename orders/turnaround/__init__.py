"""How long orders usually rest in a step, learned from their history, and what is over it."""
