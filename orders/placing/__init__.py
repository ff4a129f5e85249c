"""Placing and importing orders: what is wished, what of it would be refused, and the pages.

wish.py       what stands in the form, with the catalogue's records it names
findings.py   what the service, the lab or a colleague would stumble over, and where to mend it
bodies.py     a wish as what is sent
forms.py      its fields; drafts.py  what is kept of it until it is placed
views.py      one page to write it, one to review and place it
sheet.py      many imports at once, from a table
"""
