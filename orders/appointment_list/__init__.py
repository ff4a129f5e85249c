"""Visits of all patients: by day, by week, by site, for printing; and orders without a visit."""
