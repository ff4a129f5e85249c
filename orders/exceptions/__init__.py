"""The exception queue: orders that need a person, with one call card for each."""
