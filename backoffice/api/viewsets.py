"""Base class of the viewsets of the JSON API: a read-only resource, whose reads are audited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar
from uuid import UUID

import django_filters
from django.db import models
from django.http import Http404
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from backoffice.api.base import BaseAPIView
from backoffice.api.filters import FilterSet, StrictFilterBackend
from backoffice.api.pagination import CursorPagination
from backoffice.api.renderers import OrjsonRenderer
from backoffice.api.schema import ResourceSchema
from backoffice.api.serializers import ColumnSerializer
from backoffice.audit.recording import record_list, record_view


class ResourceViewSet(BaseAPIView, ReadOnlyModelViewSet[Any]):
    """A resource: its list, its items, and the audit entries of its reads."""

    serializer_class: type[ColumnSerializer]
    renderer_classes = [OrjsonRenderer]
    filter_backends = (StrictFilterBackend,)
    filterset_class: type[django_filters.FilterSet] = FilterSet
    pagination_class = CursorPagination
    lookup_url_kwarg = "id"
    lookup_value_converter = "path"
    lookup_fields: ClassVar[tuple[str, ...]] = ("pk",)
    """Fields of the natural key, if the service gives no id. They are joined by ":" in the URL."""
    patient_field: ClassVar[str | None] = None
    """Field that has the patient's id. Reads of such a resource are audited."""
    schema = ResourceSchema()

    def get_object(self) -> Any:
        values = self.kwargs["id"].split(":", len(self.lookup_fields) - 1)
        if len(values) != len(self.lookup_fields) or "\x00" in self.kwargs["id"]:
            raise Http404
        lookup = dict(zip(self.lookup_fields, values, strict=True))
        return get_object_or_404(self.get_queryset(), **lookup)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response = super().list(request, *args, **kwargs)
        if self.patient_field is not None:
            items = response.data["results"]
            record_list(
                request._request,
                self.get_object_type(),
                [item["id"] for item in items],
                self.get_patients(items),
                searched=self.action == "search",
            )
        return response

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response = super().retrieve(request, *args, **kwargs)
        if self.patient_field is not None:
            patients = self.get_patients([response.data])
            record_view(request._request, self.get_object_type(), [kwargs["id"]], patients)
        return response

    def get_object_type(self) -> str:
        """Return what the audit trail calls the records."""
        model: type[models.Model] = self.serializer_class.Meta.model
        return str(model._meta.verbose_name)

    def get_patients(self, items: Iterable[dict[str, Any]]) -> Iterable[UUID | None]:
        return (item[self.patient_field or ""] for item in items)
