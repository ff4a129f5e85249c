"""The words of the names of patients, by which they are found."""

from __future__ import annotations

from django.db import models
from django.db.models import Q, QuerySet

from patients.names import LONGEST_WORD, words


class PatientNameWord(models.Model):
    """A word of a patient's name: triggers keep those of each (`patients.names.name_key`).

    Words are kept letter by letter, so what begins alike stands together: who is called so is read
    from a few pages of one index, which has all that is asked of them.
    """

    pk = models.CompositePrimaryKey("word", "user", "name_key")
    word = models.TextField(db_collation="C")
    user = models.ForeignKey(
        "patients.Patient",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    name_key = models.TextField()

    def __str__(self) -> str:
        return f"word of the name of patient {self.user_id}"

    @staticmethod
    def called(text: str, *, whole: bool = False) -> QuerySet[PatientNameWord]:
        """Words of names in which each word of `text`, in any order, begins one, or stands as a
        `whole`. A name may have more than one of them; of what has no words there are none."""
        *others, longest = sorted(words(text), key=len) or [""]
        kept = longest[:LONGEST_WORD]
        if not kept:
            return PatientNameWord.objects.none()
        found = PatientNameWord.objects.filter(Q(word=kept) if whole else Q(word__startswith=kept))
        for word in others:
            found = found.filter(has_word("name_key", word, whole=whole))
        return found


def has_word(column: str, word: str, *, whole: bool = False) -> Q:
    """Whether a word of a folded name begins so, or is this one."""
    if not whole:
        return Q(**{f"{column}__startswith": word}) | Q(**{f"{column}__contains": f" {word}"})
    return (
        Q(**{column: word})
        | Q(**{f"{column}__startswith": f"{word} "})
        | Q(**{f"{column}__endswith": f" {word}"})
        | Q(**{f"{column}__contains": f" {word} "})
    )
