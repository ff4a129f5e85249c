"""The admin site: who may open it, and its index page."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, URLResolver, include, path, reverse
from django.utils.translation import gettext, gettext_lazy

from backoffice.accounts.access import View, may, requires
from backoffice.admin.groups import GROUPS, LINKS
from backoffice.admin.lists import BaseAdmin, capitalize_first


class AdministrationSite(AdminSite):
    """The admin site without sign-in, sign-out, and password pages of its own."""

    site_header = site_title = index_title = gettext_lazy("Administration")

    def has_permission(self, request: HttpRequest) -> bool:
        return may(request.user, "admin.open")

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Check the permission like every other page: record refusals, forbid caching."""
        return requires("admin.open")(view)

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what our templates read; the base template needs no more."""
        return {"site_title": self.site_title}

    def get_urls(self) -> list[URLResolver | URLPattern]:
        return [
            path("", self.admin_view(self.index), name="index"),
            *(
                path(f"{model._meta.app_label}/{model._meta.model_name}/", include(admin.urls))
                for model, admin in self._registry.items()
            ),
        ]

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        lines: dict[str, list[dict[str, str]]] = {group: [] for group in GROUPS}
        for model, admin in self._registry.items():
            assert isinstance(admin, BaseAdmin)
            if admin.has_view_permission(request):
                name = f"{model._meta.app_label}_{model._meta.model_name}"
                lines[admin.group].append(
                    {
                        "label": capitalize_first(gettext(admin.plural)),
                        "words": gettext(admin.words),
                        "url": reverse(f"{self.name}:{name}_changelist"),
                    }
                )
        for link in LINKS:
            if may(request.user, link.permission) and (url := _url_or_empty(link.route)):
                line = {
                    "label": gettext(link.label),
                    "words": gettext(link.words),
                    "url": url + link.query,
                }
                lines[link.group].append(line)
        groups = [
            {"title": gettext(title), "words": gettext(GROUPS[title]), "lines": entries}
            for title, entries in lines.items()
            if entries
        ]
        return TemplateResponse(request, "administration/index.html", {"groups": groups})


def _url_or_empty(route: str) -> str:
    """Return the URL of a route; "" if it does not exist."""
    try:
        return reverse(route)
    except NoReverseMatch:
        return ""


site: Final = AdministrationSite()
