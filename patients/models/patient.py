"""Patients (users of the service), their demographics, and the search for them."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce
from operator import and_, itemgetter
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import OpClass
from django.core.exceptions import EmptyResultSet
from django.db import connection, models
from django.db.models import Count, Q, QuerySet, Value
from django.db.models.functions import Lower

from backoffice.core import vocabulary
from backoffice.core.identifiers import (
    IdentifierKey,
    comparison_key,
    key_expression,
    same_identifier,
)
from backoffice.mirror.models import AS_RECEIVED, MirrorModel
from backoffice.pages.paging.keys import key_condition
from patients.models.name import PatientNameWord, name_contains_word
from patients.search_keys import parse_search_text, required_prefixes

if TYPE_CHECKING:
    # Only for types: the orders app imports this one.
    from orders.models import Order

MAX_WORDS_AT_ONCE: Final = 10_000
"""Most words read at once. Several words of one name may match."""
FINISHED_BUCKETS: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)
"""Buckets of the orders that are not open."""
_REFERENCE_KEY: Final = key_expression("client_user_id")


class PatientQuerySet(QuerySet["Patient"]):
    """Queries for patients."""

    def matching(self, text: str) -> Self:
        """Return the patients that a search text finds: by name, birth date, phone, email or id."""
        condition = identity_condition(text)
        by_id = same_identifier("client_user_id", text)
        if ids := id_range_for_prefix(text):
            by_id |= Q(pk__range=ids)
        # Most texts are no ids. Without that alternative, PostgreSQL need not check each patient.
        if not condition or Patient.objects.filter(by_id).exists():
            condition |= by_id
        return self.alias(mail=Lower("email")).filter(condition)

    def identified_by(self, text: str) -> Self:
        """Return the patients that match all parts of a search text, except those of ids."""
        condition = identity_condition(text)
        return self.alias(mail=Lower("email")).filter(condition) if condition else self.none()

    def named(self, *columns: str) -> Self:
        """Return the patients that have a name, with their names and these columns."""
        return self.filter(name_key__gt="").only("first_name", "last_name", *columns)

    def with_reference(self, *texts: str) -> Self:
        """Return the patients that have one of these client user ids, in any spelling."""
        return self.filter(same_identifier("client_user_id", *texts))

    def open_order_counts(self) -> dict[UUID, int]:
        """Return the number of open orders of each patient, by one query.

        Reads only the index `order_of_patient` of the orders app, which declares the relation.
        """
        count = Count("orders", filter=~Q(orders__bucket__in=FINISHED_BUCKETS))
        return dict(self.order_by().values_list("pk").annotate(open_orders=count))

    def best_matches(self, text: str, most: int) -> list[UUID]:
        """Return the ids of at most `most` matching patients, in one query.

        Matches by client user id come first, then by id, by whole words of the name, and by
        beginnings of words. The query takes the same time however many names share a beginning.
        """
        whole = PatientNameWord.matching(text, whole=True).values("user_id")
        parts = [
            f"(SELECT id, 0 FROM patients_patient WHERE {_REFERENCE_KEY} = %s LIMIT %s)"  # noqa: S608
        ]
        values: list[Any] = [comparison_key(text), most]
        if ids := id_range_for_prefix(text):
            parts.append("(SELECT id, 1 FROM patients_patient WHERE id BETWEEN %s AND %s LIMIT %s)")
            values += [*ids, most]
        for rank, rows in enumerate((whole, _ids_by_identity(text)), start=2):
            # Several words of one name may match: then the patient is found more than once.
            with suppress(EmptyResultSet):
                query, parameters = rows[: 2 * most].query.sql_with_params()
                parts.append(f"SELECT id, {rank} AS rank FROM ({query}) AS found (id)")  # noqa: S608
                values += parameters
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), values)
            matches = sorted(cursor.fetchall(), key=itemgetter(1))
        return list(dict.fromkeys(pk for pk, _ in matches))[:most]


def _ids_by_identity(text: str) -> QuerySet[Any, Any]:
    """Return the ids of the patients that match by anything except their ids.

    Names alone are read from the index of words.
    """
    typed = parse_search_text(text)
    if typed.has_only_words:
        return PatientNameWord.matching(typed.words).values("user_id")
    return Patient.objects.order_by().identified_by(text).values("pk")


def identity_condition(text: str) -> Q:
    """Return the condition that a patient matches all parts of a search text.

    The parts are birth date, email, end of the phone number, and beginnings of names. `mail` must
    be an alias of the email in lower case. The condition is empty if the text has no parts.
    """
    typed = parse_search_text(text)
    if typed.has_only_words:
        return name_condition(typed.words)
    condition = Q()
    if typed.birth_date:
        condition &= Q(dob=typed.birth_date)
    if typed.email:
        condition &= Q(mail__startswith=typed.email)
    if typed.phone_digits:
        is_match = Q(phone_digits__startswith=typed.phone_digits)
        if typed.digits_as_date:
            is_match |= Q(dob=typed.digits_as_date)
        condition &= is_match
    return condition & _has_words(typed.words)


def name_condition(words: str, max_words: int = MAX_WORDS_AT_ONCE) -> Q:
    """Return the condition that a patient has a matching name. Runs one query.

    Names are a selective key: up to `max_words` of their words are found first, with the keys of
    their patients. If there are more, PostgreSQL checks the name of each patient.
    """
    matching = PatientNameWord.matching(words).values("user_id")
    return key_condition("pk", matching, max_words, otherwise=_has_words(words))


def _has_words(typed: str) -> Q:
    """Return the condition that the name has each typed word. It needs no separate index."""
    conditions = (name_contains_word("name_key", *word) for word in required_prefixes(typed))
    return reduce(and_, conditions, Q())


class Patient(MirrorModel):
    """A user of the service (users.md 2) with the identity of the person.

    The identity comes from `Demographics`, or from an order where demographics lack a value.
    """

    id = models.UUIDField(primary_key=True)
    team_id = models.UUIDField()
    client_user_id = models.TextField()
    created_on = models.DateTimeField()
    fallback_time_zone = models.TextField(null=True)
    fallback_birth_date = models.DateField(null=True)
    ingestion_start = models.DateField(null=True)
    ingestion_end = models.DateField(null=True)
    # The identity. Triggers set these columns: patients/sql/identity.sql.
    first_name = models.TextField(default="", db_default="")
    last_name = models.TextField(default="", db_default="")
    name_key = models.TextField(
        default="", db_default="", help_text="First and last name, folded, for search and sort"
    )
    email = models.TextField(default="", db_default="")
    phone_number = models.TextField(default="", db_default="")
    phone_digits = models.TextField(
        default="", db_default="", help_text="Digits only, reversed: prefix search on any tail"
    )
    gender = models.TextField(default="", db_default="")
    dob = models.DateField(null=True)
    city = models.TextField(default="", db_default="")
    state = models.TextField(default="", db_default="")
    zip = models.TextField(default="", db_default="")
    fields_from_order = ArrayField(
        models.TextField(),
        default=list,
        db_default=Value([], ArrayField(models.TextField())),
        help_text="Those of name, dob, gender, phone, email that demographics lack",
    )
    source_order_id = models.UUIDField(null=True, help_text="The order that gave them")
    source_order_created_at = models.DateTimeField(null=True)

    objects = PatientQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["-created_on", "id"], name="patient_newest"),
            models.Index(IdentifierKey("client_user_id"), name="patient_client_id"),
            models.Index(fields=["name_key", "id"], name="patient_by_name"),
            models.Index(fields=["dob", "id"], name="patient_by_birth_date"),
            models.Index(
                fields=["phone_digits"], name="patient_phone", opclasses=["text_pattern_ops"]
            ),
            models.Index(OpClass(Lower("email"), name="text_pattern_ops"), name="patient_email"),
        ]

    @property
    def full_name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip()

    @property
    def is_named_by_order(self) -> bool:
        return "name" in self.fields_from_order

    def orders_open_first(self, most: int) -> list[Order]:
        """Return at most `most` orders with their transactions: open ones first, then newest."""
        return list(
            self.orders.select_related("order_transaction")
            .defer(*AS_RECEIVED, "order_transaction__record")
            .alias(is_finished=Q(bucket__in=FINISHED_BUCKETS))
            .order_by("is_finished", "-created_at", "-pk")[:most]
        )

    def open_order_count(self) -> int:
        return self.orders.exclude(bucket__in=FINISHED_BUCKETS).count()


def mirrored_patient(related_name: str) -> models.ForeignKey[Patient | None, Patient | None]:
    """Return a foreign key to a patient that may not be in the mirror yet.

    It has no constraint and is nullable, so joins are outer joins. Each model declares its own
    index that begins with the patient.
    """
    return models.ForeignKey(
        Patient,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name=related_name,
    )


def id_range_for_prefix(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and last id that begin with `text`, or None if it has less than 4 digits."""
    digits = text.replace("-", "").lower()
    if not 4 <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


class Demographics(MirrorModel):
    """User information (users.md 3). Searches use the columns that triggers copy to `Patient`."""

    user = models.OneToOneField(
        Patient,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="demographics",
    )
    first_name = models.TextField()
    last_name = models.TextField()
    name_key = models.TextField(help_text="First and last name, folded, for search and sort")
    email = models.TextField()
    phone_number = models.TextField()
    phone_digits = models.TextField(help_text="Digits only, reversed: prefix search on any tail")
    gender = models.TextField()
    dob = models.DateField(null=True)
    first_line = models.TextField(default="")
    second_line = models.TextField(default="")
    city = models.TextField(default="")
    state = models.TextField(default="")
    zip = models.TextField(default="")
    country = models.TextField(default="")
    race = models.TextField(null=True)
    ethnicity = models.TextField(null=True)
    sexual_orientation = models.TextField(null=True)
    gender_identity = models.TextField(null=True)
