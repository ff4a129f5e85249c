"""Appointments for draws: what is possible, the offered times, and the pages.

`rules` has what is possible and what to warn about, `slots` and `sites` look up times and places,
`forms` and `views` are the pages. The commands are in `orders.commands.appointments`.
Specification: appointments.
"""
