"""Keyset pages of long lists: what their rows are found by, and how many there are."""
