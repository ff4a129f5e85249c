"""`manage.py adoptteam`: move this installation to the team of the configured key."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from backoffice.core import service_client, service_team
from backoffice.management.commands.sync import SYNCED_LISTS
from backoffice.operations import team_move
from backoffice.service import errors


class Command(BaseCommand):
    help = (
        "Move this installation to another team of the service, the one of SERVICE_API_KEY. Says"
        " what that does and asks for the team's id; refuses while anything waits to be sent."
        " Nothing is deleted."
    )
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--team", help="id of the team to adopt, in place of the question")

    def handle(self, *args: Any, team: str | None, **options: Any) -> None:
        our_team = service_team.mirror_team()
        if our_team is None:
            raise CommandError("No team is known here yet: the first sync remembers the key's.")
        their_team = self._team_of_key()
        if their_team == our_team:
            self.stdout.write(f"SERVICE_API_KEY is of team {our_team}, as the records here are.")
            return
        if waiting := team_move.waiting():
            raise CommandError(team_move.open_work_message(waiting))
        self._explain(our_team, their_team)
        adopted = self._confirmed(team, our_team, their_team)
        try:
            team_move.move(our_team, adopted, SYNCED_LISTS)
        except team_move.CannotMove as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"This installation is of team {adopted} now. Start web and workers with this key;"
            " they read its records at once, as manage.py sync --full does in the foreground."
        )

    @staticmethod
    def _team_of_key() -> UUID | None:
        """Return the team of the key; None if the service shows no record of that team."""
        with service_client.new_service_client() as service:
            try:
                return service_team.read_key_team(service).team
            except errors.ServiceError as error:
                raise CommandError(
                    f"Nothing was changed: the service does not show whose SERVICE_API_KEY is"
                    f" ({error}). See manage.py checkservice."
                ) from None

    def _explain(self, our_team: UUID, their_team: UUID | None) -> None:
        former = team_move.FormerRecords.count(our_team)
        team_line = (
            f"SERVICE_API_KEY is of team {their_team}."
            if their_team
            else "The service shows no patient and no order of the team of SERVICE_API_KEY, so its"
            " id cannot be compared with the one you name."
        )
        lines = [
            f"The records here are of team {our_team}: {former.patients:,} patients,"
            f" {former.orders:,} orders.",
            team_line,
            "If you go on:",
            "- Nothing is deleted. Those patients and orders stay, with their results and reviews,"
            " marked as no longer at the service. Nothing can be asked of the service about them.",
            "- Records and events of the other team are taken from then on. Events of the team"
            " before are stored, and not applied."
            + (
                f" That holds for {former.unapplied_events:,} that wait now."
                if former.unapplied_events
                else ""
            ),
            "- All lists are read anew. Lab accounts and tests that the other team does not have"
            " are marked as no longer at the service.",
            "- This can be taken back with the key of the team before, and this command.",
            "Stop web and workers first, and start them with the new key afterwards.",
        ]
        self.stdout.write("\n".join(lines))

    @staticmethod
    def _confirmed(team: str | None, our_team: UUID, their_team: UUID | None) -> UUID:
        """Return the team that the operator named. Raises CommandError if the key has another."""
        if team is None:
            if not sys.stdin.isatty():
                raise CommandError("Nothing was changed: name the team to adopt with --team.")
            team = input("Type the id of the team to adopt: ")
        try:
            named = UUID(team.strip())
        except ValueError:
            raise CommandError("Nothing was changed: that is no id of a team.") from None
        if named == our_team:
            raise CommandError(
                f"Nothing was changed: the records here are of team {our_team} already, and"
                " SERVICE_API_KEY is of another."
            )
        if their_team is not None and named != their_team:
            raise CommandError(
                f"Nothing was changed: SERVICE_API_KEY is of team {their_team}, not of {named}."
            )
        return named
