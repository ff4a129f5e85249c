"""The call card of an exception, with the rows of its group beside it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from backoffice.accounts.access import may, requires, staff_user
from backoffice.audit.recording import record_entry, record_view
from backoffice.core.time_formats import ago
from backoffice.sync.lookups import schedule_lookups
from backoffice.team.actions import AlreadyAssigned, assign
from backoffice.team.queries import assignments_by_subject
from backoffice.team.template_functions import staff_name
from orders.exceptions import cards, outcomes, queue
from orders.exceptions.exception_list import EXCEPTION_LIST, exception_rows, group_tabs
from orders.exceptions.forms import OutcomeForm
from orders.exceptions.queue import CRITICAL, EXCEPTION_GROUPS
from orders.local_time import LocalClock
from orders.models import Handling, Order, OrderEvent, UsualTime, order_with_move
from orders.progress import current_step
from orders.rules.appointment_rules import active_appointment

PERMISSIONS = EXCEPTION_LIST.needs
CHANGED_TEXT = gettext_noop(
    "This order changed since you opened it. Review it, then record the outcome again."
)


@requires(*PERMISSIONS)
@require_safe
def group(request: HttpRequest, group: str) -> HttpResponse:
    """Redirect to the list of a group."""
    return redirect(f"{EXCEPTION_LIST.url()}?group={_valid_group(request, group)}")


@requires(*PERMISSIONS)
@require_http_methods(["GET", "HEAD", "POST"])
def card(request: HttpRequest, group: str, order_id: UUID) -> HttpResponse:
    """Show one call card. A posted outcome leads to the next card."""
    group, order = _valid_group(request, group), _order(order_id)
    if request.method != "POST":
        return _page(request, group, order)
    clock = cards.patient_clock(order, active_appointment(order.pk))
    form = OutcomeForm(request.POST, clock, cards.available_outcomes(order))
    if not form.is_valid():
        return _page(request, group, order, form=form, status=400)
    values = form.cleaned_data
    try:
        row = outcomes.record_outcome(
            request,
            order.pk,
            values["outcome"],
            until=values["comes_back"],
            note=values["words"],
            seen_event=values["event"],
            seen_move=values["move"],
            seen_outcome=values["seen"],
        )
    except outcomes.OrderChanged:
        return _page(request, group, order, form=form, trouble=gettext(CHANGED_TEXT), status=409)
    except outcomes.OutcomeRecorded as recorded:
        problem = _recorded_text(recorded.handling, clock)
        return _page(request, group, order, form=form, trouble=problem, status=409)
    except AlreadyAssigned as taken:
        problem = gettext("Assigned to %(name)s %(ago)s. Your outcome was not saved.") % {
            "name": staff_name(taken.user),
            "ago": _ago_text(taken.at),
        }
        return _page(request, group, order, form=form, trouble=problem, status=409)
    messages.success(request, _saved_text(row, order, clock))
    following = queue.next_card(order, group, staff_user(request), timezone.now())
    return redirect("exceptions:card", *following) if following else redirect("exceptions:list")


@requires(*PERMISSIONS, "notes.write")
@require_POST
def assign_to_me(request: HttpRequest, group: str, order_id: UUID) -> HttpResponse:
    """Assign a card to the user, unless somebody else has it."""
    order = _order(order_id)
    try:
        assign(request, "order", order.pk, staff_user(request), order.user_id)
    except AlreadyAssigned as taken:
        text = gettext("Already assigned to %(name)s (%(ago)s).")
        values = {"name": staff_name(taken.user), "ago": _ago_text(taken.at)}
        messages.warning(request, text % values)
    return redirect("exceptions:card", group, order.pk)


@requires(*PERMISSIONS)
@require_POST
def check_order(request: HttpRequest, group: str, order_id: UUID) -> HttpResponse:
    """Ask the service for the current state of the order."""
    order = _order(order_id)
    schedule_lookups("orders", [order.pk])
    record_entry(request, "change", "order-check", ids=[order.pk], patients=[order.user_id])
    messages.success(request, gettext("Checking with the service. You’ll see any update here."))
    return redirect("exceptions:card", group, order.pk)


@requires(*PERMISSIONS)
@require_POST
def end_snooze(request: HttpRequest, group: str, order_id: UUID) -> HttpResponse:
    """Return a snoozed order to the queue."""
    order = _order(order_id)
    if outcomes.end_snooze(request, order.pk):
        messages.success(request, gettext("Back in the queue."))
    return redirect("exceptions:card", queue.group_of(order, timezone.now()) or group, order.pk)


def _page(
    request: HttpRequest,
    group: str,
    order: Order,
    *,
    form: OutcomeForm | None = None,
    trouble: str = "",
    status: int = 200,
) -> HttpResponse:
    now, user = timezone.now(), staff_user(request)
    counts = queue.group_counts(now, user)
    group_page = queue.group_page(group, now)
    rows = exception_rows(group_page.rows, user)
    record_view(
        request,
        "exception",
        [order.pk, *(row.order.pk for row in rows)],
        [
            order.user_id,
            order.moved_from if order.move_waits else None,
            *(row.order.user_id for row in rows),
        ],
    )
    context = {
        "tabs": group_tabs(
            [(each, counts[each.key]) for each in queue.visible_groups(user)],
            EXCEPTION_GROUPS[group],
            QueryDict(),
        ),
        "group": EXCEPTION_GROUPS[group],
        "page": group_page,
        "rows": rows,
        "other_items": queue.other_items(group, user),
        **_card(request, group, order, form, trouble),
    }
    return render(request, "exceptions/card.html", context, status=status)


def _card(
    request: HttpRequest, group: str, order: Order, form: OutcomeForm | None, trouble: str
) -> dict[str, object]:
    now = timezone.now()
    visit = active_appointment(order.pk)
    clock = cards.patient_clock(order, visit)
    events = list(OrderEvent.objects.filter(order_id=order.pk).order_by("created_at", "event_id"))
    turn = current_step(order, events, now, UsualTime.for_order(order))
    handling = Handling.objects.filter(pk=order.pk).select_related("by").first()
    assignment = assignments_by_subject("order", [order.pk]).get(str(order.pk))
    cause = queue.group_of(order, now) or group
    shipment = order.record_at("details", "data", "shipment")
    outward = not order.low_level_status.endswith("_lab")
    tracking = shipment.get("outbound_tracking_url" if outward else "inbound_tracking_url")
    web = isinstance(tracking, str) and tracking.startswith(("https://", "http://"))
    contact = order.record_at("patient_details")
    number = contact.get("phone_number")
    actions = cards.card_actions(
        order,
        cause,
        request.user,
        tracking=str(tracking) if web else "",
        turn=turn.term.turn,
        number=number if isinstance(number, str) else "",
    )
    handled = queue.is_handled(order, handling, now)
    return {
        "order": order,
        "turn": turn,
        "place": clock,
        "clock_warning": clock.warning(now),
        "contact": contact,
        "to_call": cards.has_contact(order),
        "address": cards.call_address(order, visit),
        "shipment": shipment,
        "outward": outward,
        "visit": visit,
        "script": cards.call_script(order, cause, turn.term.turn),
        "recommended": actions[0] if actions else None,
        "others": actions[1:],
        "choices": cards.outcome_choices(order, clock, now),
        "later": cards.snooze_choices(clock, now),
        "errors": {} if form is None else form.errors,
        "typed": {} if form is None else form.data,
        "trouble": trouble,
        "handling": handling,
        "due": cards.time_text(handling.until, clock) if handling and handling.until else "",
        "handled": handled,
        "assignment": assignment,
        "is_mine": assignment is not None and assignment.user_id == request.user.pk,
        "seen": outcomes.outcome_stamp(handling),
    }


def _order(order_id: UUID) -> Order:
    try:
        return order_with_move(order_id)
    except Order.DoesNotExist as error:
        raise Http404 from error


def _valid_group(request: HttpRequest, group: str) -> str:
    if group not in EXCEPTION_GROUPS or (
        group == CRITICAL and not may(request.user, "results.view")
    ):
        raise Http404
    return group


def _ago_text(at: datetime) -> str:
    return ago(at, timezone.now())


def _recorded_text(row: Handling, clock: LocalClock) -> str:
    outcome = gettext(cards.OUTCOME_LABELS.get(row.outcome, row.outcome))
    text = gettext(
        "%(name)s recorded “%(outcome)s” %(ago)s. Your outcome was not saved. Record it again if "
        "it should count too."
    )
    return text % {"name": staff_name(row.by), "outcome": outcome, "ago": _ago_text(row.at)}


def _saved_text(row: Handling, order: Order, clock: LocalClock) -> str:
    name = f"{order.patient_first_name} {order.patient_last_name}".strip() or gettext("Order")
    values = {"name": name, "outcome": gettext(cards.OUTCOME_LABELS[row.outcome])}
    if row.until is None:
        return gettext("%(name)s: %(outcome)s. Back in the queue only if it changes.") % values
    values["time"] = cards.time_text(row.until, clock)
    return gettext("%(name)s: %(outcome)s. Back in the queue %(time)s.") % values
