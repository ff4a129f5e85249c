"""The JSON API. It is read-only, and applies the same permissions as the pages.

    tokens.py       tokens: their text, what is stored of them, expiry and scopes
    base.py         the base class of all API views: authentication, rate limits, errors
    errors.py       the shape of errors
    throttles.py    rate limits
    viewsets.py     the base class of the viewsets, which audits reads
    serializers.py  base classes of the serializers: columns, records, hidden fields
    filters.py      base class of the filter sets, and the filter backend
    pagination.py   pages and cursors
    renderers.py    JSON by orjson
    routers.py      routes and their names
    schema.py       what drf-spectacular cannot read from the views
    system.py       sync runs and commands
    views.py        System > API tokens, and the OpenAPI document

A resource is a serializer, a filter set and a viewset in the `api.py` of its app, registered in
`backoffice/api_urls.py`. `GET /api/<resource>/?limit=&cursor=` answers `{"results": [...], "next":
cursor or null}`, and `GET /api/<resource>/<id>/` one item. Each item has

- `id`: the service's id; a record without one has its natural key, joined by ":";
- the promoted columns under the service's names (nested names joined by "_"). A column that the
  user's roles or the token's scopes do not show is null;
- `as_of`: when this version was requested. `missing_since`: when a sync found that the service no
  longer has the record. `superseded_at`, where the service shows only the latest version: when a
  newer one replaced it;
- `record`: the record byte for byte as received, null for users without `records.view`.

Lists are ordered by the primary key and paged by it. No page counts or skips rows. A client that
reads all pages gets every row that exists the whole time exactly once. Errors are
`{code, message, request_id}`.
"""
