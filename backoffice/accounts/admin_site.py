"""Django's admin behind the door of everybody: our log-in, and a fresh proof for every page."""

from __future__ import annotations

from typing import Any

from allauth.account.decorators import secure_admin_login
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse

from backoffice.accounts.fresh import fresh


class Site(AdminSite):
    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        return fresh(super().admin_view(view, cacheable))

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        ours: HttpResponse = secure_admin_login(super().login)(request)
        return ours
