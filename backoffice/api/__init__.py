"""The JSON API: it reads, and shows what its reader may see, as the pages do.

    tokens.py       a token: its text, what is kept of it, how long and for what it is good
    face.py         what every address shares: who asks, how often, how it refuses
    resources.py    a resource: one class that names model, columns, children and filters
    schema.py       the OpenAPI document, derived from what resources declare
    pages.py        System > API tokens

A resource answers `GET /api/<resource>/?limit=&cursor=` with `{"results": [...], "next": cursor or
null}` and `GET /api/<resource>/<id>/` with one item. Each item carries

- `id`: the service's id; a record without one has its natural key, joined by ":";
- the promoted columns under the service's names (nested names joined by "_"); a column the
  reader's roles or scopes do not show is null;
- `as_of`: when this version was asked for; `missing_since`: when the service was found to no
  longer have it; `superseded_at`, where the service shows only the latest: when it was replaced;
- `record`: the record byte for byte as received, null for readers without `records.view`.

Lists are ordered by the primary key and paged by it: nothing is counted or skipped, and a row
that exists during the whole walk is met exactly once. Errors are `{code, message, request_id}`.
"""
