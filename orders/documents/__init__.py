"""Documents of orders: requisition, labels, ABN, collection instructions, result documents.

`kinds.py` lists them all. They are fetched from the service when somebody opens one
(`fetching.py`), or in the background for many orders at once (`printing.py`). Staff who may see
orders and patients may open and print the documents that accompany the sample. Documents with
results need the permission to see results.
"""
