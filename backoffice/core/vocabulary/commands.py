"""The kinds of requests that staff make to the service."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop

from backoffice.core.vocabulary.terms import Term, build_terms

COMMAND_KINDS: Final[dict[str, dict[str, Term]]] = {
    "command.kind": build_terms(
        ("order.create", gettext_noop("Place an order")),
        ("order.import", gettext_noop("Import an order")),
        ("order.cancel", gettext_noop("Cancel an order")),
        ("order.activation", gettext_noop("Change an order's date")),
        ("order.draw_completed", gettext_noop("Mark a draw as completed")),
        ("order.messages", gettext_noop("Change text messages")),
        ("order.resend_events", gettext_noop("Resend updates")),
        ("order.simulate", gettext_noop("Advance a sandbox order")),
        ("appointment.book", gettext_noop("Book a home visit")),
        ("appointment.book_center", gettext_noop("Book a service center")),
        ("appointment.request", gettext_noop("Request a visit")),
        ("appointment.move", gettext_noop("Reschedule a visit")),
        ("appointment.cancel", gettext_noop("Cancel a visit")),
        ("result.accept", gettext_noop("Match a result")),
        ("result.resolve", gettext_noop("Resolve an unmatched result")),
        ("patient.create", gettext_noop("Register a patient")),
        ("patient.info", gettext_noop("Change patient details")),
        ("insurance.create", gettext_noop("Add insurance")),
        ("payor.create", gettext_noop("Add an insurance company")),
        ("connection.link", gettext_noop("Create a link to connect a device")),
        ("connection.end", gettext_noop("Disconnect a device")),
        ("lab_account.allowlist", gettext_noop("Change the teams of a lab account")),
        ("lab_test.create", gettext_noop("Create a lab test")),
        ("lab_test.rename", gettext_noop("Rename a lab test")),
        ("lab_test.archive", gettext_noop("Archive a lab test")),
        ("lab_test.restore", gettext_noop("Restore a lab test")),
        ("webhook.create", gettext_noop("Create a webhook endpoint")),
        ("webhook.rotate", gettext_noop("Change the secret of a webhook endpoint")),
        ("webhook.switch", gettext_noop("Turn a webhook endpoint on or off")),
        ("webhook.delete", gettext_noop("Delete a webhook endpoint")),
    ),
}
