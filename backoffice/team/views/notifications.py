"""The page of notifications, the redirect from one to its record, and the choice of emails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice.accounts.access import requires, staff_user
from backoffice.pages.paging.pages import Sort, fetch_page, page_position
from backoffice.team.models import MailChoice, Notification
from backoffice.team.notification_texts import NOTIFICATION_KINDS
from backoffice.team.subjects import subject_label, subject_url

PAGE_SIZE: Final = 50
NEWEST_FIRST: Final = Sort(("at", "id"), descending=True)


@dataclass(frozen=True, slots=True)
class NotificationText:
    """One notification and its text."""

    row: Notification
    words: str


@dataclass(frozen=True, slots=True)
class NotificationGroup:
    """The notifications about one record on one day, newest first."""

    day: date
    subject_type: str
    subject_id: str
    word: str
    texts: list[NotificationText] = field(default_factory=list)

    @property
    def unseen(self) -> bool:
        return any(text.row.seen_at is None for text in self.texts)


@requires("notes.write")
@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """Show the notifications of the user, newest first, by day and record."""
    unseen_only = request.GET.get("show") == "unseen"
    rows = Notification.objects.of_user(request.user.pk)
    if unseen_only:
        rows = rows.unseen()
    page = fetch_page(rows, NEWEST_FIRST, size=PAGE_SIZE, **page_position(request))
    context = {
        "page": page,
        "groups": group_notifications(page.rows),
        "unseen_only": unseen_only,
        "newest": page.rows[0].pk if page.rows else "",
    }
    return render(request, "team/notifications.html", context)


def group_notifications(rows: Iterable[Notification]) -> list[NotificationGroup]:
    groups: dict[tuple[date, str, str], NotificationGroup] = {}
    for row in rows:
        day = timezone.localtime(row.at).date()
        key = (day, row.subject_type, row.subject_id)
        group = groups.setdefault(key, NotificationGroup(*key, subject_label(row.subject_type)))
        group.texts.append(NotificationText(row, notification_text(row)))
    return list(groups.values())


def notification_text(row: Notification) -> str:
    kind = NOTIFICATION_KINDS.get(row.kind)
    word = subject_label(row.subject_type)
    text = gettext(kind.text) if kind else gettext("This %(subject)s changed")
    return text % {"subject": word}


@requires("notes.write")
@require_safe
def open_notification(request: HttpRequest, notification_id: int) -> HttpResponse:
    """Redirect to the record, and mark its notifications as seen."""
    own_rows = Notification.objects.of_user(request.user.pk)
    row = own_rows.filter(pk=notification_id).first()
    if row is None:
        raise Http404
    own_rows.filter(subject_type=row.subject_type, subject_id=row.subject_id).mark_seen(row.pk)
    return redirect(subject_url(row.subject_type, row.subject_id) or "team:notifications")


@requires("notes.write")
@require_POST
def mark_seen(request: HttpRequest) -> HttpResponse:
    """Mark all notifications as seen up to the newest one that the page showed."""
    newest = request.POST.get("newest", "")
    if newest.isascii() and newest.isdigit() and len(newest) < 19:
        Notification.objects.of_user(request.user.pk).mark_seen(int(newest))
    return redirect("team:notifications")


@requires("notes.write")
@require_http_methods(["GET", "HEAD", "POST"])
def mail_choices(request: HttpRequest) -> HttpResponse:
    """Choose which notifications are mailed."""
    user = staff_user(request)
    if request.method == "POST":
        MailChoice.objects.replace(user, request.POST.getlist("kind"), NOTIFICATION_KINDS)
        return redirect("team:notifications")
    unwanted_kinds = MailChoice.objects.unwanted_kinds(user)
    context = {
        "kinds": [
            (kind, gettext(words.choice), kind not in unwanted_kinds)
            for kind, words in NOTIFICATION_KINDS.items()
        ],
        "mails": bool(settings.EMAIL_URL),
        "address": user.email,
    }
    return render(request, "team/choices.html", context)
