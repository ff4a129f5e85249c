"""How long orders usually stay in a step, learned from their history, and which are overdue."""
