"""Sign-off: who may sign, what prevents it, and what happens if two people sign at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext

from backoffice.accounts.access import may
from backoffice.accounts.models import User
from orders.models.review import (
    FINAL,
    KINDS,
    PARTIAL,
    RANKS,
    SEEN,
    SIGNED,
    UNDONE,
    Delegation,
    Review,
    Signature,
)
from orders.results import unreadable_versions
from orders.rules.result_identity import current_identity

UNDO_SECONDS: Final = 10


class CannotSign(Exception):
    """The sign-off is refused. The message is for the user."""


class AlreadySigned(CannotSign):
    """Someone else has signed before."""

    def __init__(self, signature: Signature) -> None:
        self.by: User = signature.by
        self.at: datetime = signature.at
        super().__init__(gettext("This result is already signed."))


class ResultChanged(CannotSign):
    """Another version has arrived meanwhile."""

    def __init__(self) -> None:
        super().__init__(
            gettext(
                "This result changed while you were reading it. Review the current version first."
            )
        )


class NotAcknowledged(CannotSign):
    def __init__(self) -> None:
        super().__init__(gettext("This result is critical. Acknowledge it before you sign."))


class IdentityNotConfirmed(CannotSign):
    def __init__(self) -> None:
        super().__init__(
            gettext(
                "This result names someone else. Check whose it is, and confirm that it belongs "
                "to this patient before you sign."
            )
        )


class NotAllowed(CannotSign):
    """Neither a role nor a delegation lets this person sign this result."""

    def __init__(self) -> None:
        super().__init__(gettext("Only a clinician can sign this result."))


class UndoExpired(CannotSign):
    def __init__(self) -> None:
        super().__init__(
            gettext("Only the person who signed can undo a signature, within %(count)s seconds.")
            % {"count": UNDO_SECONDS}
        )


def valid_signatures(signatures: Sequence[Signature]) -> list[Signature]:
    """Return the signatures that were not undone."""
    undone_ids = {signature.undoes_id for signature in signatures}
    return [
        signature
        for signature in signatures
        if signature.kind != UNDONE and signature.pk not in undone_ids
    ]


def lock_review(order_id: UUID) -> Review:
    """Return the review, locked until the transaction ends. A second signer waits here."""
    return Review.objects.select_for_update(of=("self",)).get(pk=order_id)


def sign(
    order_id: UUID,
    version: int,
    by: User,
    *,
    note: str = "",
    tells: str = "",
    is_identity_confirmed: bool = False,
) -> Signature:
    """Sign the version that `by` has seen, or acknowledge a partial one. Needs a transaction.

    All signatures of staff are made here. Raises a `CannotSign` if somebody has signed before,
    another version has arrived, a critical value is not acknowledged, the result names somebody
    else and that was not confirmed, or `by` may not sign this result.
    """
    review = lock_review(order_id)
    delegated_by = None
    if not may(by, "results.sign"):
        delegated = active_delegation(by, review)
        if delegated is None:
            raise NotAllowed
        delegated_by = delegated.by
    if review.version != version or version < 1:
        raise ResultChanged
    kind = SEEN if review.kind == PARTIAL else SIGNED
    signatures = Signature.objects.filter(order_id=order_id, version=version).select_related("by")
    before = next(
        (signature for signature in valid_signatures(list(signatures)) if signature.kind == kind),
        None,
    )
    if before is not None:
        raise AlreadySigned(before)
    if not review.is_acknowledged:
        raise NotAcknowledged
    contradicts = current_identity(order_id).contradicts
    if contradicts and not is_identity_confirmed:
        raise IdentityNotConfirmed
    signature = Signature(
        order_id=order_id,
        version=version,
        kind=kind,
        by=by,
        note=note,
        tells=tells,
        delegated_by=delegated_by,
        is_identity_confirmed=contradicts,
    )
    signature.save(force_insert=True)
    signature.refresh_from_db(fields=["at"])
    return signature


def undo(signature_id: int, by: User) -> Signature:
    """Undo the user's own signature by adding a row. Needs a transaction.

    Raises `UndoExpired` after `UNDO_SECONDS`, or if there is no such signature.
    """
    signature = Signature.objects.filter(pk=signature_id, by=by).exclude(kind=UNDONE).first()
    if signature is None:
        raise UndoExpired
    lock_review(signature.order_id)
    is_undone = Signature.objects.filter(undoes=signature).exists()
    if is_undone or timezone.now() - signature.at > timedelta(seconds=UNDO_SECONDS):
        raise UndoExpired
    Signature(
        order_id=signature.order_id, version=signature.version, kind=UNDONE, by=by, undoes=signature
    ).save(force_insert=True)
    return signature


def delegation_obstacles(review: Review) -> list[str]:
    """Return the reasons why only a clinician may sign this result, whatever was delegated.

    Each reason is a sentence for the user. Empty if delegation is possible.
    """
    reasons = []
    if current_identity(review.pk).contradicts:
        reasons.append(gettext("This result names someone else. A clinician must sign it."))
    if unreadable_versions.unreadable_result(review.pk):
        reasons.append(gettext("A newer version could not be read. A clinician must sign it."))
    if review.has_uninterpreted:
        reasons.append(
            gettext("A value of this result is not interpreted. A clinician must sign it.")
        )
    if review.kind not in KINDS:
        reasons.append(gettext("The status of this result is unknown. A clinician must sign it."))
    return reasons


def active_delegation(user: User, review: Review) -> Delegation | None:
    """Return the delegation by which a user without the permission may sign; None if none."""
    if delegation_obstacles(review):
        return None
    now = timezone.now()
    rows = Delegation.objects.filter(to=user, until__gt=now, ended_at=None).select_related("by")
    scope = Q(order_id=review.pk)
    if review.rank == RANKS.index("normal") and review.kind == FINAL:
        scope |= Q(order_id=None)
    return next((row for row in rows.filter(scope) if may(row.by, "results.sign")), None)
