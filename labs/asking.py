"""Forms of this app's pages: as posted, as they were for a refused command, or new."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from django.http import HttpRequest

from backoffice.models import CommandRecord
from backoffice.outbox import AskForm

Form = TypeVar("Form", bound=AskForm)


def form_of(request: HttpRequest, kind: type[Form], **options: Any) -> Form:
    """`?again=<command id>` shows what was typed here for that command, and why it was refused."""
    if request.method == "POST":
        return kind(request.POST, **options)
    try:
        asked = UUID(request.GET.get("again", ""))
    except ValueError:
        return kind(**options)
    row = CommandRecord.objects.filter(pk=asked, form_url=request.path).first()
    return kind(**options) if row is None else kind.again(row, **options)
