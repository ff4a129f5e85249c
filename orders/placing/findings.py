"""Checks of an order before it is placed: what would be refused, or needs a second look.

Each finding names its field. The service or the lab would refuse a `STOP`. A `CONFIRM` needs a
checked box. A `WARN` is for a person to judge. Rules: orders.md 2.3-2.10, catalogue.md 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.core.identifiers import UnusableCharacter, clean
from backoffice.core.phone_numbers import NotAPhoneNumber, e164
from backoffice.core.spreadsheets import damage_message, warning_message
from backoffice.core.time_formats import short_day
from orders.commands.placing import NOT_CANCELED
from orders.models import Order
from orders.models.order import CANCELED_STATUSES
from orders.placing import drafts, patient_rules
from orders.placing.account_findings import account_findings
from orders.placing.finding_type import CONFIRM, STOP, WARN, Finding
from orders.placing.forms import NOTE_LETTERS
from orders.placing.order_request import TYPED_PHYSICIAN, OrderRequest
from orders.placing.questions import answer_warning

UNNAMED_CONFIRMATION: Final = "on"
"""A confirmation that does not say which order it confirms."""
REPEATED_WITHIN: Final = timedelta(days=30)
JUST_NOW: Final = timedelta(days=1)
CONFIRM_TO_CONTINUE: Final = gettext_noop("Check “Order again” to continue.")
MISSING_MESSAGES: Final = {
    "first_name": gettext_noop("The first name is missing."),
    "last_name": gettext_noop("The last name is missing."),
    "dob": gettext_noop("The birth date is missing."),
    "gender": gettext_noop("The sex is missing."),
    "phone_number": gettext_noop(
        "The phone number is missing. The service needs it for text messages."
    ),
    "email": gettext_noop("The email address is missing."),
    "first_line": gettext_noop("The street address is missing."),
    "city": gettext_noop("The city is missing."),
    "state": gettext_noop("The state is missing."),
    "zip": gettext_noop("The ZIP code is missing."),
}


def findings(order_request: OrderRequest) -> list[Finding]:
    """Return all findings in the order of the page."""
    all_findings = [
        *_check_replaced(order_request),
        *_check_person(order_request),
        *_check_age(order_request),
        *_check_tests(order_request),
        *_check_repetition(order_request),
        *_check_account_and_method(order_request),
        *_check_physician(order_request),
        *_check_billing(order_request),
        *_check_note_and_date(order_request),
    ]
    for question in order_request.questions:
        if question.required and not order_request.value(question.name):
            words = gettext("Answer the lab’s question: %(question)s") % {
                "question": question.words
            }
            all_findings.append(Finding("question", words, question.name))
        elif doubt := answer_warning(question, order_request.value(question.name)):
            words = gettext("%(question)s: %(doubt)s Check the answer.") % {
                "question": question.label,
                "doubt": doubt,
            }
            all_findings.append(Finding("question doubted", words, question.name, WARN))
    return all_findings


def blocking_findings(all_findings: list[Finding], order_request: OrderRequest) -> list[Finding]:
    """Return the findings that prevent placing the order as it is."""
    confirmed = order_request.typed.get("another", ())
    return [
        finding
        for finding in all_findings
        if finding.level == STOP or (finding.level == CONFIRM and finding.key not in confirmed)
    ]


def _check_replaced(order_request: OrderRequest) -> Iterator[Finding]:
    """Check that the order at the wrong lab is canceled before another one replaces it."""
    if order_request.replaces is None or order_request.importing:
        return
    if order_request.replaced_order is None:
        words = gettext("The order to replace is not this patient’s order. Start over.")
        yield Finding("not replaceable", words, "panel")
    elif not order_request.replaced_order.was_canceled():
        url = reverse("orders:detail", args=[order_request.replaced_order.pk])
        yield Finding("not canceled", gettext(NOT_CANCELED), "panel", STOP, url)


def _check_person(order_request: OrderRequest) -> Iterator[Finding]:
    for name, words in MISSING_MESSAGES.items():
        text = order_request.value(name)
        if not text:
            yield Finding(f"no {name}", gettext(words), name)
        elif name in ("first_name", "last_name") and not patient_rules.is_name(text):
            yield Finding("name rule", _name_rule_message(name, text), name)
    if (
        order_request.value("zip")
        and not patient_rules.is_zip(order_request.value("zip"))
        and not _is_on_record(order_request, "zip")
    ):
        yield Finding("zip", gettext("Enter a ZIP code with 5 or 9 digits."), "zip")
    if order_request.value("phone_number"):
        try:
            e164(order_request.value("phone_number"))
        except NotAPhoneNumber as error:
            yield Finding("phone", error.words, "phone_number")
    if order_request.value("email") and not patient_rules.is_mail(order_request.value("email")):
        yield Finding("email", gettext("Enter an email address such as name@example.org."), "email")
    state = order_request.value("state")
    if (
        state
        and not (len(state) == 2 and state.isalpha())
        and not _is_on_record(order_request, "state")
    ):
        yield Finding("state", gettext("Enter two letters for the state, such as AZ."), "state")


def _name_rule_message(name: str, text: str) -> str:
    """Return the rule for a name that labs refuse, and a similar name that they accept."""
    words = (
        gettext(
            "Labs do not accept this first name. Use at most %(count)s letters, digits, and "
            ". , ' -, without accents, with single spaces."
        )
        if name == "first_name"
        else gettext(
            "Labs do not accept this last name. Use at most %(count)s letters, digits, and "
            ". , ' -, without accents, with single spaces."
        )
    ) % {"count": patient_rules.NAME_LETTERS}
    plain = patient_rules.plain_name(text)
    if not plain:
        return words
    proposal = gettext("Try “%(name)s”.") % {"name": plain}
    return f"{words} {proposal}"


def _is_on_record(order_request: OrderRequest, name: str) -> bool:
    """Whether the service already has this value of the patient. Then our rules do not apply."""
    return drafts.person_values(order_request.patient, order_request.person).get(name) == [
        order_request.value(name)
    ]


def _check_age(order_request: OrderRequest) -> Iterator[Finding]:
    born = order_request.date_value("dob")
    if born is None:
        if order_request.value("dob"):
            yield Finding("dob", gettext("The birth date is not a valid date."), "dob")
        return
    today = timezone.localdate()
    if born > today:
        yield Finding("dob", gettext("The birth date is in the future."), "dob")
    elif patient_rules.age_on(born, today) < patient_rules.ADULT:
        if not order_request.medical_proxy:
            words = gettext(
                "The patient is under 18, and the service has no medical proxy on file."
            )
            yield Finding("minor without proxy", words, "dob")
        if order_request.method == "at_home_phlebotomy":
            words = gettext("Patients under 18 cannot have a home draw.")
            yield Finding("minor at home", words, "collection_method")


def _check_tests(order_request: OrderRequest) -> Iterator[Finding]:
    if order_request.unknown_choices:
        words = gettext("A selected test is no longer in the catalog. Remove it.")
        yield Finding("lost test", words, "panel")
    if not order_request.tests and not order_request.markers:
        yield Finding("no test", gettext("No test is selected."), "panel")
    for test in order_request.tests:
        if test.status != "active" or test.missing_since:
            words = gettext("%(test)s cannot be ordered now.") % {"test": test.name}
            yield Finding("inactive test", words, "panel")
    for marker in order_request.markers:
        if not marker.a_la_carte_enabled or marker.is_orderable is False:
            words = gettext(
                "%(test)s cannot be ordered on its own. It is only available in a panel."
            ) % {"test": marker.name}
            yield Finding("no add-on", words, "panel")
    if len(order_request.labs) > 1:
        words = gettext(
            "The tests are from different labs: %(labs)s. Place a separate order for each lab."
        ) % {"labs": ", ".join(lab.name for lab in order_request.labs)}
        yield Finding("several labs", words, "panel")
    if order_request.value("collection_method"):
        return
    if len(order_request.methods) > 1:
        words = gettext("The tests are collected in different ways. Choose one.")
        yield Finding("several methods", words, "collection_method")
    elif order_request.markers:
        words = gettext("You added an individual test. Choose how it is collected.")
        yield Finding("add-on without method", words, "collection_method")
    elif order_request.importing and order_request.tests and not order_request.method:
        words = gettext("Choose how the sample was collected.")
        yield Finding("no method", words, "collection_method")


def _check_repetition(order_request: OrderRequest) -> Iterator[Finding]:
    """Check for a recent order of the same test for the same person, or an import's sample ID."""
    if order_request.importing:
        yield from _check_sample_id(order_request)
        return
    last = recent_same_order(order_request)
    if last is None:
        return
    recent = timezone.now() - last.created_at < JUST_NOW
    sentence = (
        gettext("%(test)s was already ordered for this patient within the last 24 hours.")
        if recent
        else gettext("%(test)s was already ordered for this patient on %(day)s.")
    )
    words = sentence % {
        "test": last.lab_test_name or gettext("The same test"),
        "day": short_day(timezone.localtime(last.created_at)),
    }
    url = reverse("orders:detail", args=[last.pk])
    yield Finding("same test", words, "another", CONFIRM, url, str(last.pk))


def recent_same_order(order_request: OrderRequest) -> Order | None:
    """Return the patient's newest order of one of these tests within the last month."""
    rows = Order.objects.filter(
        user_id=order_request.patient.pk,
        lab_test_id__in=[test.pk for test in order_request.tests],
        created_at__gt=timezone.now() - REPEATED_WITHIN,
    ).exclude(low_level_status__in=CANCELED_STATUSES)
    if order_request.replaces is not None:
        rows = rows.exclude(pk=order_request.replaces)
    return rows.order_by("-created_at").with_list_columns().first()


def _check_sample_id(order_request: OrderRequest) -> Iterator[Finding]:
    sample = order_request.value("sample_id")
    if not sample:
        yield Finding("no sample id", gettext("The sample ID is missing."), "sample_id")
        return
    try:
        sample = clean(sample)
    except UnusableCharacter as error:
        yield Finding("sample id character", error.words, "sample_id")
        return
    other_order = order_request.order_with_sample_id
    if other_order is not None:
        url = reverse("orders:detail", args=[other_order.pk])
        words = gettext("Another order already has this sample ID.")
        if other_order.sample_id != sample:
            words = gettext("Another order already has this sample ID, written “%(sample)s”.") % {
                "sample": other_order.sample_id
            }
        yield Finding("sample id", words, "sample_id", STOP, url)
    if words := damage_message(sample) or warning_message(sample):
        yield Finding("sample id damaged", words, "sample_id", WARN)


def _check_account_and_method(order_request: OrderRequest) -> Iterator[Finding]:
    yield from account_findings(order_request)
    lab, method = order_request.lab, order_request.method
    if lab is None or order_request.importing:
        return
    if method and lab.collection_methods and method not in lab.collection_methods:
        words = gettext("%(lab)s does not offer this collection method: %(method)s.") % {
            "lab": lab.name,
            "method": gettext(vocabulary.term("order.method", method).label),
        }
        yield Finding("method of lab", words, "collection_method", WARN)


def _check_physician(order_request: OrderRequest) -> Iterator[Finding]:
    chosen = order_request.value("physician")
    if chosen == TYPED_PHYSICIAN:
        for name in ("first_name", "last_name", "npi"):
            if not order_request.value(f"physician_{name}"):
                words = gettext("Enter the physician’s first name, last name, and NPI.")
                yield Finding("physician missing", words, f"physician_{name}")
                return
        npi = order_request.identifier("physician_npi")
        if not (npi.isascii() and npi.isdigit() and len(npi) == 10):
            yield Finding("npi", gettext("An NPI has 10 digits."), "physician_npi")
        elif not patient_rules.is_npi(npi):
            words = gettext("This NPI fails its check digit. Look for a mistyped digit.")
            yield Finding("npi", words, "physician_npi", WARN)
    elif order_request.needs_physician and chosen not in {
        physician.npi for physician in order_request.physicians
    }:
        words = gettext("This account needs an ordering physician. Choose one.")
        yield Finding("physician missing", words, "physician")


def _check_billing(order_request: OrderRequest) -> Iterator[Finding]:
    billing, state = order_request.billing_type, order_request.value("state").upper()
    states = order_request.allowed_states(billing)
    if states is not None and state and state not in states:
        words = gettext("“%(billing)s” is not allowed in %(state)s for this account.") % {
            "billing": gettext(vocabulary.term("order.billing_type", billing).label),
            "state": state,
        }
        yield Finding("billing not in state", words, "billing_type")
    if billing != "commercial_insurance" or order_request.importing:
        return
    insurance = order_request.insurance
    if insurance is None:
        words = gettext("The service has no primary insurance on file for this patient.")
        yield Finding("no insurance", words, "billing_type")
    elif insurance.relationship not in ("", "Self") and not insurance.record_at("guarantor"):
        words = gettext(
            "The patient is insured through another person, but no guarantor is on file."
        )
        yield Finding("no guarantor", words, "billing_type", WARN)
    if order_request.person is None:
        words = gettext(
            "The service has no demographics for this patient, so insurance cannot be billed."
        )
        yield Finding("no demographics", words, "billing_type")
    if not order_request.icd_codes:
        words = gettext("Insurance requires at least one diagnosis code.")
        yield Finding("no diagnosis", words, "icd_codes")


def _check_note_and_date(order_request: OrderRequest) -> Iterator[Finding]:
    if order_request.importing:
        return
    letters = len(order_request.joined_note)
    if letters > NOTE_LETTERS:
        sentence = (
            gettext(
                "The note, with the account’s own note, has %(count)s characters. The limit is "
                "%(limit)s."
            )
            if order_request.default_note
            else gettext("The note has %(count)s characters. The limit is %(limit)s.")
        )
        words = sentence % {"count": letters, "limit": NOTE_LETTERS}
        yield Finding("note too long", words, "clinical_notes")
    day = order_request.date_value("activate_by")
    if day is not None and day < timezone.localdate():
        words = gettext("The release date is in the past.")
        yield Finding("date in the past", words, "activate_by")
