"""The list page of orders.

`definition.py` and `columns.py` define the list, `list_query.py` reads a page of it,
`bulk_actions.py` works on many rows, and `views.py` shows the page. The rows are rendered by
`templates/jinja2/orders/order_rows.html`.
"""
