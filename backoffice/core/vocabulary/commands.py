"""The kinds of requests that staff make to the service."""

from __future__ import annotations

from typing import Final

from backoffice.core.vocabulary.terms import Term, build_terms

COMMAND_KINDS: Final[dict[str, dict[str, Term]]] = {
    "command.kind": build_terms(
        ("order.create", "Place an order"),
        ("order.import", "Import an order"),
        ("order.cancel", "Cancel an order"),
        ("order.activation", "Change an order's date"),
        ("order.draw_completed", "Mark a draw as done"),
        ("order.messages", "Change text messages"),
        ("order.resend_events", "Resend updates"),
        ("order.simulate", "Move a sandbox order along"),
        ("appointment.book", "Book a home visit"),
        ("appointment.book_center", "Book a service center"),
        ("appointment.request", "Request a visit"),
        ("appointment.move", "Reschedule a visit"),
        ("appointment.cancel", "Cancel a visit"),
        ("result.accept", "Match a result"),
        ("result.resolve", "Resolve an unmatched result"),
        ("patient.create", "Register a patient"),
        ("patient.info", "Change patient details"),
        ("insurance.create", "Add insurance"),
        ("payor.create", "Add an insurance company"),
        ("connection.link", "Create a link to connect a device"),
        ("connection.end", "Disconnect a device"),
        ("lab_account.allowlist", "Change the teams of a lab account"),
        ("lab_test.create", "Create a lab test"),
        ("lab_test.rename", "Rename a lab test"),
        ("lab_test.archive", "Archive a lab test"),
        ("lab_test.restore", "Restore a lab test"),
        ("webhook.create", "Create a webhook endpoint"),
        ("webhook.rotate", "Change the secret of a webhook endpoint"),
        ("webhook.switch", "Switch a webhook endpoint on or off"),
        ("webhook.delete", "Delete a webhook endpoint"),
    ),
}
