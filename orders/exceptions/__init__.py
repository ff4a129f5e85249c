"""The exception queue: orders that need a person, one call card at a time."""
