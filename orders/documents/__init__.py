"""Documents of orders: requisition, labels, ABN, collection instructions, result documents.

`kinds.py` is the one table of them. They are fetched from the service when somebody opens one
(`fetching.py`), or in the background for many orders at once (`printing.py`). Whoever may see
orders and who the patients are may open and print what goes with the sample; documents with
results need the permission to see results.
"""
