"""Visits of all patients: by day, by week, by site, on paper, and the orders that wait for one."""
