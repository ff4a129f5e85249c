"""List pages: filters in the URL, saved views, chosen columns, downloads, and bulk actions.

    class OrderList(ListPage): …                  a list: its filters, columns and bulk actions
    ListContext.of(request, list_page, form)      the context of its templates, for one user
    *list_urls(list_page)                         its URLs: page, views, columns, download, bulk
    process_runs(LISTS)                           called by workers: work on the open bulk runs

A saved view has filters, sort, columns and density. The filter set of the list validates it again
for each user who opens it. A bulk run is a database row, with one more row for each record. The
Celery message only wakes a worker.

    definition.py     the base class of lists
    filters.py        the base class of filter sets, and filters that lists share
    forms.py          the base class of their forms; fields.py has the fields they share
    urls.py           the URLs of a list
    context.py        the context of the templates
    saved_views.py    saved views
    export.py         downloads; formulas.py makes cells safe for spreadsheets
    bulk.py           bulk actions
    views/            the views of the page, saved views, columns, downloads, runs

This file imports nothing, because Django loads the models before everything else.
"""
