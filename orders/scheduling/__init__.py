"""Visits: what may be asked about them, the times there are, and the pages that ask.

`rules` says what is possible and what to warn of, `slots` and `sites` look up what there is and
make it readable, `forms` and `views` ask. The commands are in `orders.commands.appointments`.
Interface: appointments.
"""
