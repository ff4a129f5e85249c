"""Placing and importing orders: the form, the checks, the request, and the pages.

order_request.py reads the values of the form with the catalog records that they name; findings.py
checks what the service or the lab would refuse; request_bodies.py makes the command; forms.py has
the fields, drafts.py stores them until the order is placed; sheet_import.py imports many orders
from a table; views/ has the pages.
"""
