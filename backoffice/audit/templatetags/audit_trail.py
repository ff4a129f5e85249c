"""Template tags of the audit trail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django import template
from django.template import Context
from django.utils.safestring import SafeString

from backoffice.audit import entry_list
from backoffice.audit.models import AuditEntry
from backoffice.pages.lists.definition import Column

register = template.Library()


@register.simple_tag(takes_context=True)
def entry_rows(
    context: Context, entries: Iterable[AuditEntry], columns: Sequence[Column]
) -> SafeString:
    """Render entries as table rows with these columns."""
    return entry_list.render_rows(entries, columns, context["request"].user)


@register.filter
def did(entry: AuditEntry) -> str:
    return entry_list.action_label(entry)


@register.filter
def who(entry: AuditEntry) -> str:
    return entry_list.actor_name(entry)
