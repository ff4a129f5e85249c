"""The OpenAPI document of the sandbox, drawn from the calls themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sandbox.api.calls import Call
from sandbox.api.params import Param

_KEYS = {"team": "TeamKey", "management": "ManagementKey"}

_REFUSAL: dict[str, Any] = {
    "type": "object",
    "required": ["detail"],
    "properties": {"detail": {}},
}
_MISFITS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "detail": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["loc", "msg", "type"],
                "properties": {
                    "loc": {
                        "type": "array",
                        "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    },
                    "msg": {"type": "string"},
                    "type": {"type": "string"},
                    "input": {},
                    "ctx": {"type": "object"},
                },
            },
        }
    },
}


def _parameter(param: Param) -> dict[str, Any]:
    schema = param.kind.schema()
    if param.many:
        schema = {"type": "array", "items": schema}
        if param.max_items is not None:
            schema["maxItems"] = param.max_items
    if param.default is not None:
        schema = {**schema, "default": param.default}
    found: dict[str, Any] = {
        "name": param.name,
        "in": "query",
        "required": param.required,
        "schema": schema,
    }
    if param.many:
        found |= {"style": "form", "explode": True}
    if param.note:
        found["description"] = param.note
    if param.deprecated:
        found["deprecated"] = True
    return found


def _refusals(call: Call) -> dict[str, Any]:
    texts = {"405": "Method not allowed", "422": "Validation error"}
    if call.key != "none":
        texts |= {"401": "Key missing or wrong"}
    if call.parts:
        texts |= {"403": "Record of another team", "404": "Unknown record"}
    return {
        status: {
            "description": text,
            "content": {"application/json": {"schema": _MISFITS if status == "422" else _REFUSAL}},
        }
        for status, text in sorted(texts.items())
    }


def _operation(call: Call) -> dict[str, Any]:
    body = {"type": "string", "format": "binary"} if call.produces.endswith("pdf") else {}
    operation: dict[str, Any] = {
        "operationId": getattr(call.view, "__name__", call.summary),
        "summary": call.summary,
        "parameters": [
            {"name": part.name, "in": "path", "required": True, "schema": part.kind.schema()}
            for part in call.parts
        ]
        + [_parameter(param) for param in call.query],
        "responses": {
            "200": {"description": "OK", "content": {call.produces: {"schema": body}}},
            **_refusals(call),
        },
    }
    if call.key != "none":
        operation["security"] = [{_KEYS[call.key]: []}]
    if call.takes:
        operation["requestBody"] = {"required": True, "content": dict(call.takes)}
    if call.deprecated:
        operation["deprecated"] = True
    return operation


def document(calls: Iterable[Call]) -> dict[str, Any]:
    """OpenAPI 3.1 of `calls`, in the order given."""
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Health Data and Lab Testing Service (sandbox)", "version": "1"},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "TeamKey": {"type": "apiKey", "in": "header", "name": "x-service-api-key"},
                "ManagementKey": {"type": "apiKey", "in": "header", "name": "X-Management-Key"},
            }
        },
    }
