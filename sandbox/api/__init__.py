"""The interface of the stand-in service: one module per chapter, one `Call` per operation.

calls.py       a call: method, path, parameters, view; dispatch, headers, closed errors
params.py      parameter kinds: how text becomes a value, what the refusal says
auth.py        team key, management key
errors.py      refusals and their bodies
responses.py   JSON and PDF responses
paging.py      page numbers and opaque cursors
schema.py      the OpenAPI document, made from the same calls
urls.py        every call, most literal path first
"""
