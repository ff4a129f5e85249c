"""How long orders usually stay in a step, computed from their history, and which are overdue."""
