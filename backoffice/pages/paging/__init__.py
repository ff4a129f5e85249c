"""Keyset pages of long lists, and capped counts of their rows."""
