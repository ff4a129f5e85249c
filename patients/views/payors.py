"""The search for payors in the insurance form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from backoffice.accounts.access import requires
from backoffice.core import service_client
from backoffice.service import errors
from patients.models import Payor

PAYORS_SHOWN: Final = 12
PAYOR_LETTERS: Final = 3
"""Least letters of a search text."""
PAYOR_TIMEOUT: Final = 2.0
"""Seconds for which a page waits for a search at the service."""


@requires("patients.view", "patients.change")
@require_POST
def payors(request: HttpRequest) -> HttpResponse:
    """Search payors: a fragment."""
    return render(request, "patients/_payors.html", payor_context(request.POST))


def payor_context(data: Mapping[str, str]) -> dict[str, object]:
    """Return payors of the service by name or alias, a stored one by code, and the chosen one."""
    text = data.get("payor_query", "").replace("\0", "").strip()[:100]
    chosen = data.get("payor", "")[:300]
    options: dict[str, dict[str, str]] = {}
    trouble = False
    if len(text) >= PAYOR_LETTERS:
        for row in Payor.objects.filter(payor_code__iexact=text)[:1]:
            options[row.payor_code] = _option(row.payor_code, row.name, row.source or "")
        try:
            page = (
                service_client.service()
                .within(PAYOR_TIMEOUT)
                .insurance.search_payors(insurance_name=text)
            )
        except errors.ServiceError:
            trouble = True
        else:
            for record in page.records[:PAYORS_SHOWN]:
                payor = record.data
                code, aliases = payor.payor_code, ", ".join(payor.aliases)
                options.setdefault(code, _option(code, payor.name, payor.source, aliases))
    code, _, name = chosen.partition(" ")
    if code and code not in options:
        options = {code: _option(code, name, ""), **options}
    return {
        "payor_options": list(options.values()),
        "payor_chosen": code,
        "payor_trouble": trouble,
        "payor_text": text if len(text) >= PAYOR_LETTERS else "",
        "payor_state": data.get("state", "")[:40],
    }


def _option(code: str, name: str, source: str, aliases: str = "") -> dict[str, str]:
    value = f"{code} {name}"
    return {"code": code, "name": name, "source": source, "aliases": aliases, "value": value}
