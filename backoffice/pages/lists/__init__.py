"""Lists of records: filters in the address, saved views, chosen columns, downloads, and work on
many rows at once.

    class Orders(Listing): …                    what a list has: its form, rows, columns, verbs
    Screen.of(request, listing, form)           what one person sees of it
    *paths(listing)                             its addresses: views, columns, download, bulk
    work(LISTS)                                 by workers: what was asked for many rows

A view is filters, sort, columns and density in one, read again by the list's form for whoever
opens it. A bulk run is a row with a row for each record; a Celery message only rings the bell.

`listing.py` is what a list says of itself, `forms.py` its filters, `screen.py` what one person
sees, `views.py` saved views, `export.py` downloads, `bulk.py` work on many rows, `pages.py` and
`bulk_pages.py` the faces. Nothing is imported here: the tables are read before all else.
"""
