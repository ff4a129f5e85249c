"""The orders list as clinics would get it elsewhere: Django admin's changelist at
`/admin/orders/order/`, and django-filter with django-tables2 at `/orders/`.

A project of its own with our models, database, sessions and web server, but without our middleware,
and with PostgreSQL's defaults for the connection. Both lists have the columns of ours that orders
have themselves (ours also shows the assignee), its page size and order, and read the rows as the
ORM does by default. The changelist filters as Django does by default for fields without choices,
which it reads from the rows. The other list has the choices of ours, and needs no session.

Only a web server imports this module, because it configures Django.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import django
from django.conf import settings

from backoffice import settings as own_settings

settings.configure(
    **{name: value for name, value in vars(own_settings).items() if name.isupper()}
    | {
        "ROOT_URLCONF": "tests.bench.pages_peers",
        "INSTALLED_APPS": [*own_settings.INSTALLED_APPS, "django_filters", "django_tables2"],
        "MIDDLEWARE": [
            "django.middleware.security.SecurityMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "django.middleware.clickjacking.XFrameOptionsMiddleware",
            "allauth.account.middleware.AccountMiddleware",  # The app does not start without it.
        ],
        "TEMPLATES": [
            {**own_settings.TEMPLATES[1], "DIRS": [Path(__file__).with_name("templates")]}
        ],
        "DATABASES": {"default": {**own_settings.DATABASES["default"], "SESSION_SETTINGS": {}}},
    }
)
django.setup()

from django.contrib.admin import AdminSite, ModelAdmin, display  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.db.models import Q, QuerySet  # noqa: E402
from django.urls import path  # noqa: E402
from django_filters import CharFilter, ChoiceFilter, FilterSet  # noqa: E402
from django_filters.views import FilterView  # noqa: E402
from django_tables2 import Column, SingleTableMixin, Table  # noqa: E402

from backoffice.core import vocabulary  # noqa: E402
from backoffice.operations import request_buffer  # noqa: E402
from backoffice.pages.lists.forms import SIZE  # noqa: E402
from orders.models import Order  # noqa: E402

COLUMNS = (
    *("patient_dob", "low_level_status", "bucket", "lab_test_name", "method"),
    *("created_at", "updated_at", "id"),
)
"""The columns of both lists, after the patient."""

# Django admin


class OrderAdmin(ModelAdmin):  # type: ignore[type-arg]  # generic only in the stubs
    list_display = ("patient", *COLUMNS)
    list_filter = ("low_level_status", "method")
    search_fields = ("^patient_first_name", "^patient_last_name")
    ordering = ("-created_at", "-id")
    list_per_page = SIZE

    @display(ordering="patient_name")
    def patient(self, order: Order) -> str:
        return order.patient_label


site = AdminSite()
site.register(Order, OrderAdmin)


# django-filter and django-tables2


class OrderFilterSet(FilterSet):
    status = ChoiceFilter(
        field_name="low_level_status", choices=vocabulary.choices("order.low_level_status")
    )
    method = ChoiceFilter(choices=vocabulary.choices("order.method"))
    name = CharFilter(label="Name", method="filter_name")

    class Meta:
        model = Order
        fields: ClassVar[list[str]] = []

    def filter_name(self, orders: QuerySet[Order], name: str, value: str) -> QuerySet[Order]:
        return orders.filter(
            Q(patient_first_name__istartswith=value) | Q(patient_last_name__istartswith=value)
        )


class OrderTable(Table):  # type: ignore[misc]
    patient = Column(
        accessor="patient_label",
        order_by="patient_name",
        linkify=lambda record: f"/admin/orders/order/{record.pk}/change/",
    )

    class Meta:
        model = Order
        fields = ("patient", *COLUMNS)


class OrderTableView(SingleTableMixin, FilterView):  # type: ignore[misc]
    queryset = Order.objects.order_by("-created_at", "-id")
    filterset_class = OrderFilterSet
    table_class = OrderTable
    table_pagination: ClassVar[dict[str, Any]] = {"per_page": SIZE}
    template_name = "orders_table.html"


urlpatterns = [
    path("accounts/login/", site.login),
    path("admin/", site.urls),
    path("orders/", OrderTableView.as_view()),
]
web = request_buffer.Web(WSGIHandler())
