"""The list page of orders.

`order_list.py` and `columns.py` define the list, and `bulk_actions.py` works on many rows. The page
is `templates/orders/list.html`, and its rows are rendered by `templates/orders/order_rows.html`.
"""
