"""List pages: filters in the URL, saved views, chosen columns, downloads, and bulk actions.

    class OrderList(ListPage): …                  a list: its form, rows, columns and bulk actions
    ListContext.of(request, list_page, form)      the context of its templates, for one user
    *list_urls(list_page)                         its URLs: views, columns, download, bulk actions
    process_runs(LISTS)                           called by workers: work on the open bulk runs

A saved view has filters, sort, columns and density. The list's form validates it again for each
user who opens it. A bulk run is a database row, with one more row for each record. The Celery
message only wakes a worker.

    definition.py     the base class of lists
    forms.py          forms of filters; fields.py has the fields they share
    context.py        the context of the templates
    saved_views.py    saved views
    export.py         downloads; formulas.py makes cells safe for spreadsheets
    bulk.py           bulk actions
    views/            the views of saved views, columns, downloads and bulk runs

This file imports nothing, because Django loads the models before everything else.
"""
