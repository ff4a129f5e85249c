"""Signing: who may, what stands in the way, and what two people at once are told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from backoffice.core.access import may
from backoffice.models import User
from orders.results import unreadable_versions
from orders.results.identity import identity_of
from orders.results.models import (
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

UNDO_SECONDS: Final = 10


class CannotSign(Exception):
    """The word does not count; what to tell the person stands in it."""


class Taken(CannotSign):
    """Somebody else was faster."""

    def __init__(self, signature: Signature) -> None:
        self.by: User = signature.by
        self.at: datetime = signature.at
        super().__init__("Somebody signed this already.")


class Changed(CannotSign):
    """Another version came meanwhile."""

    def __init__(self) -> None:
        super().__init__(
            "Another version of this result came while you were reading. Look at it first."
        )


class NotAcknowledged(CannotSign):
    def __init__(self) -> None:
        super().__init__("This result is critical: acknowledge it before you sign.")


class IdentityNotConfirmed(CannotSign):
    def __init__(self) -> None:
        super().__init__(
            "This result names somebody else. Check whose it is, and confirm that it is this"
            " patient’s before you sign."
        )


class NotAllowed(CannotSign):
    """Neither a role nor a delegation lets this person sign this result."""

    def __init__(self) -> None:
        super().__init__("Only a clinician may sign this result.")


class TooLate(CannotSign):
    def __init__(self) -> None:
        super().__init__(
            f"A signature can be taken back for {UNDO_SECONDS} seconds, by who signed."
        )


def standing(signatures: Sequence[Signature]) -> list[Signature]:
    """Of all that was said about a result, what nobody took back."""
    gone = {one.undoes_id for one in signatures}
    return [one for one in signatures if one.kind != UNDONE and one.pk not in gone]


def held(order_id: UUID) -> Review:
    """The review, locked until the transaction ends: of two people at once, one waits here."""
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
    """Sign the version that `by` has seen; a partial one is acknowledged. Inside a transaction.

    Every signature of a person is made here. Raises a `CannotSign` when somebody was faster,
    another version came, a critical value was not acknowledged, the result names somebody else and
    that was not confirmed, or `by` may not sign this result.
    """
    review = held(order_id)
    delegated_by = None
    if not may(by, "results.sign"):
        given = delegation(by, review)
        if given is None:
            raise NotAllowed
        delegated_by = given.by
    if review.version != version or version < 1:
        raise Changed
    kind = SEEN if review.kind == PARTIAL else SIGNED
    said = Signature.objects.filter(order_id=order_id, version=version).select_related("by")
    before = next((one for one in standing(list(said)) if one.kind == kind), None)
    if before is not None:
        raise Taken(before)
    if not review.is_acknowledged:
        raise NotAcknowledged
    contradicts = identity_of(order_id).contradicts
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
    """Take back one's own signature, as a further row. Inside a transaction. Raises `TooLate`."""
    found = Signature.objects.filter(pk=signature_id, by=by).exclude(kind=UNDONE).first()
    if found is None:
        raise TooLate
    held(found.order_id)
    gone = Signature.objects.filter(undoes=found).exists()
    if gone or timezone.now() - found.at > timedelta(seconds=UNDO_SECONDS):
        raise TooLate
    Signature(
        order_id=found.order_id, version=found.version, kind=UNDONE, by=by, undoes=found
    ).save(force_insert=True)
    return found


def delegation_obstacles(review: Review) -> list[str]:
    """Why this result may be signed by nobody but a clinician, whatever was delegated.

    Each reason is a sentence for the person who would sign; empty where nothing stands against it.
    """
    reasons = []
    if identity_of(review.pk).contradicts:
        reasons.append("This result names somebody else: a clinician has to sign it.")
    if unreadable_versions.of_result(review.pk):
        reasons.append("A newer version could not be read: a clinician has to sign it.")
    if review.has_uninterpreted:
        reasons.append("A value of this result is not interpreted: a clinician has to sign it.")
    if review.kind not in KINDS:
        reasons.append("The status of this result is not known: a clinician has to sign it.")
    return reasons


def delegation(user: User, review: Review) -> Delegation | None:
    """The word of a clinician by which somebody without the right to sign may sign this."""
    if delegation_obstacles(review):
        return None
    now = timezone.now()
    rows = Delegation.objects.filter(to=user, until__gt=now, ended_at=None).select_related("by")
    which = Q(order_id=review.pk)
    if review.rank == RANKS.index("normal") and review.kind == FINAL:
        which |= Q(order_id=None)
    return next((row for row in rows.filter(which) if may(row.by, "results.sign")), None)
