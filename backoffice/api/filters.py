"""Filters of the JSON API, by django-filter.

Parameters are strict: each value has one spelling, an empty value is a value, and an unknown
parameter is an error. A client with a mistake must not get rows that it did not ask for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.datastructures import MultiValueDict
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request

from backoffice.api.errors import bad_request
from backoffice.core.identifiers import same_identifier
from backoffice.core.text import is_storable
from backoffice.pages.lists.fields import UuidField

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I | re.A)


class _StrictField(forms.Field):
    """A form field that accepts values of one shape; None is a parameter that was not sent."""

    shape: ClassVar[re.Pattern[str]]
    to_value: ClassVar[Callable[[str], object]]
    description: ClassVar[str]

    def clean(self, value: str | None) -> Any:
        if value is None:
            return None
        if not self.shape.fullmatch(value):
            raise ValidationError(f"must be {self.description}.")
        return type(self).to_value(value)


class _TextField(_StrictField, forms.CharField):
    shape = re.compile(r"[^\0]*")
    to_value = str
    description = "text"


class _IntegerField(_StrictField, forms.DecimalField):
    shape = re.compile(r"-?[0-9]{1,18}")
    to_value = int
    description = "a whole number"


class _ExactFilter(django_filters.Filter):
    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        return qs if value is None else qs.filter(**{str(self.field_name): value})


class TextFilter(_ExactFilter, django_filters.CharFilter):
    field_class = _TextField


class IntegerFilter(_ExactFilter, django_filters.NumberFilter):
    field_class = _IntegerField


class IdentifierFilter(TextFilter):
    """A filter by identifier that ignores case, width and invisible characters."""

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        return qs if value is None else qs.filter(same_identifier(str(self.field_name), value))


class FilterSet(django_filters.FilterSet):
    """Base class of the filter sets of resources that have no list page; by itself without filters.

    A resource with a list page takes the filter set of the page (`orders.filters`).
    """


class StrictFilterBackend(DjangoFilterBackend):
    """The filter backend of django-filter, which answers 400 to the first mistake."""

    def get_filterset_kwargs(
        self, request: Any, queryset: QuerySet[Any], view: Any
    ) -> dict[str, Any]:
        return {"data": list_parameters(request), "queryset": queryset, "request": request}

    def filter_queryset(self, request: Any, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filterset = self.get_filterset(request, queryset, view)
        assert filterset is not None
        known = sorted({"limit", "cursor", *filterset.filters})
        if not list_parameters(request).keys() <= {*known}:
            raise bad_request(
                f"There is no parameter of that name here. These are known: {', '.join(known)}."
            )
        for name, texts in list_parameters(request).lists():
            field = filterset.form.fields.get(name)
            if len(texts) > 1 and not isinstance(field, forms.MultipleChoiceField):
                raise bad_request(f"{name} takes one value.")
            if field is not None:
                for text in texts:
                    _check_spelling(name, text, field)
        for name, messages in filterset.errors.items():
            # A strict field says what its value must be; a field of a list page has a sentence.
            separator = " " if messages[0][:1].islower() else ": "
            raise bad_request(f"{name}{separator}{messages[0]}")
        return filterset.qs


def _check_spelling(name: str, text: str, field: forms.Field) -> None:
    """Refuse what the field of a list page accepts: an empty box, another spelling of a UUID."""
    if isinstance(field, UuidField):
        if not _UUID.fullmatch(text):
            raise bad_request(f"{name} must be a UUID.")
    elif not text and not isinstance(field, _StrictField):
        raise bad_request(f"{name} must not be empty.")


def list_parameters(request: Request) -> MultiValueDict[str, str]:
    """Return the parameters of a list: the query, or the JSON body of a search."""
    if request.method != "POST":
        return request.query_params
    body = request.data
    if not isinstance(body, dict) or not all(
        isinstance(value, str) and is_storable(value) for value in body.values()
    ):
        raise bad_request("The body must be a JSON object, and its values text.")
    return MultiValueDict({name: [text] for name, text in body.items()})
