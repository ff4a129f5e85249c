"""Queries of patients: the search of lists and pages, as methods of `Patient.objects`."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce
from operator import and_, itemgetter
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Lower

from backoffice.core import vocabulary
from backoffice.core.identifiers import key_expression, same_identifier
from backoffice.pages.paging.keys import key_condition
from patients.models.name import PatientNameWord, name_contains_word
from patients.search_text import RequiredPrefixes, SearchText

if TYPE_CHECKING:
    from patients.models.patient import Patient  # noqa: F401 - named in a string

MAX_WORDS_AT_ONCE: Final = 10_000
"""Most words read at once. Several words of one name may match."""
FINISHED_BUCKETS: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)
"""Buckets of the orders that are not open."""
NOTHING: Final = Q(pk__in=[])
_REFERENCE_KEY: Final = key_expression("client_user_id")


class PatientQuerySet(QuerySet["Patient"]):
    """Queries for patients."""

    def matching(self, search: SearchText) -> Self:
        """Return the patients that a text finds: by name, birth date, phone, email or id."""
        condition = identity_condition(search)
        by_id = Q(client_user_id__identifier=search.identifier) if search.identifier else NOTHING
        if search.id_range:
            by_id |= Q(pk__range=search.id_range)
        # Most texts are no ids. Without that alternative, PostgreSQL need not check each patient.
        if not condition or type(self)(self.model).filter(by_id).exists():
            condition |= by_id
        return self.alias(mail=Lower("email")).filter(condition)

    def identified_by(self, search: SearchText) -> Self:
        """Return the patients that match all parts of a text, except those of ids."""
        condition = identity_condition(search)
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

    def best_matches(self, search: SearchText, most: int) -> list[UUID]:
        """Return the ids of at most `most` matching patients, in one query.

        Matches by client user id come first, then by id, by whole words of the name, and by
        beginnings of words. The query takes the same time however many names share a beginning.
        """
        whole = PatientNameWord.matching(search.name, whole=True).values("user_id")
        parts = [
            f"(SELECT id, 0 FROM patients_patient WHERE {_REFERENCE_KEY} = %s LIMIT %s)"  # noqa: S608
        ]
        values: list[Any] = [search.identifier, most]
        if search.id_range:
            parts.append("(SELECT id, 1 FROM patients_patient WHERE id BETWEEN %s AND %s LIMIT %s)")
            values += [*search.id_range, most]
        for rank, rows in enumerate((whole, self._ids_by_identity(search)), start=2):
            # Several words of one name may match: then the patient is found more than once.
            with suppress(EmptyResultSet):
                query, parameters = rows[: 2 * most].query.sql_with_params()
                parts.append(f"SELECT id, {rank} AS rank FROM ({query}) AS found (id)")  # noqa: S608
                values += parameters
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), values)
            matches = sorted(cursor.fetchall(), key=itemgetter(1))
        return list(dict.fromkeys(pk for pk, _ in matches))[:most]

    def _ids_by_identity(self, search: SearchText) -> QuerySet[Any, Any]:
        """Return the ids of the patients that match by anything except their ids.

        Names alone are read from the index of words.
        """
        if search.has_only_words:
            return PatientNameWord.matching(search.words).values("user_id")
        return self.order_by().identified_by(search).values("pk")


def identity_condition(search: SearchText) -> Q:
    """Return the condition that a patient matches all parts of a text about a person.

    The parts are birth date, email, end of the phone number, and beginnings of names. `mail` must
    be an alias of the email in lower case. The condition is empty if the text has no parts.
    """
    if search.has_only_words:
        return name_condition(search.words)
    condition = Q()
    if search.birth_date:
        condition &= Q(dob=search.birth_date)
    if search.email:
        condition &= Q(mail__startswith=search.email)
    if search.phone_digits:
        is_match = Q(phone_digits__startswith=search.phone_digits)
        if search.digits_as_date:
            is_match |= Q(dob=search.digits_as_date)
        condition &= is_match
    return condition & _has_words(search.words)


def name_condition(required: RequiredPrefixes, max_words: int = MAX_WORDS_AT_ONCE) -> Q:
    """Return the condition that a patient has a matching name. Runs one query.

    Names are a selective key: up to `max_words` of their words are found first, with the keys of
    their patients. If there are more, PostgreSQL checks the name of each patient.
    """
    matching = PatientNameWord.matching(required).values("user_id")
    return key_condition("pk", matching, max_words, otherwise=_has_words(required))


def _has_words(required: RequiredPrefixes) -> Q:
    """Return the condition that the name has each typed word. It needs no separate index."""
    conditions = (name_contains_word("name_key", *prefixes) for prefixes in required)
    return reduce(and_, conditions, Q())
