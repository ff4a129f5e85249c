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
        "Move this installation to the team of SERVICE_API_KEY. Explains the effects and asks for"
        " the team's id. Refuses while anything is waiting to be sent. Nothing is deleted."
    )
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--team", help="id of the team to adopt, instead of being asked")

    def handle(self, *args: Any, team: str | None, **options: Any) -> None:
        our_team = service_team.mirror_team()
        if our_team is None:
            raise CommandError(
                "No team is known here yet. The first sync remembers the team of the key."
            )
        their_team = self._team_of_key()
        if their_team == our_team:
            self.stdout.write(
                f"SERVICE_API_KEY belongs to team {our_team}, as do the records here."
            )
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
            f"This installation now belongs to team {adopted}. Start web and workers with this key;"
            " they read its records right away. manage.py sync --full does it in the foreground."
        )

    @staticmethod
    def _team_of_key() -> UUID | None:
        """Return the team of the key; None if the service shows no record of that team."""
        with service_client.new_service_client() as service:
            try:
                return service_team.read_key_team(service).team
            except errors.ServiceError as error:
                raise CommandError(
                    f"Nothing was changed: the service does not show which team SERVICE_API_KEY"
                    f" belongs to ({error}). See manage.py checkservice."
                ) from None

    def _explain(self, our_team: UUID, their_team: UUID | None) -> None:
        former = team_move.FormerRecords.count(our_team)
        team_line = (
            f"SERVICE_API_KEY belongs to team {their_team}."
            if their_team
            else "The service shows no patient or order of the team of SERVICE_API_KEY, so its id"
            " cannot be compared with the one you enter."
        )
        lines = [
            f"The records here belong to team {our_team}: {former.patients:,} patients,"
            f" {former.orders:,} orders.",
            team_line,
            "If you continue:",
            "- Nothing is deleted. Those patients and orders stay, with their results and reviews,"
            " marked as no longer at the service. The service can no longer be asked about them.",
            "- Records and events of the new team are applied from then on. Events of the previous"
            " team are stored but not applied."
            + (
                f" That includes {former.unapplied_events:,} that are waiting now."
                if former.unapplied_events
                else ""
            ),
            "- All lists are read again. Lab accounts and tests that the new team does not have"
            " are marked as no longer at the service.",
            "- To undo this, set the key of the previous team and run this command again.",
            "Stop web and workers first. Start them with the new key afterward.",
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
            raise CommandError("Nothing was changed: that is not the id of a team.") from None
        if named == our_team:
            raise CommandError(
                f"Nothing was changed: the records here already belong to team {our_team}, but"
                " SERVICE_API_KEY belongs to another team."
            )
        if their_team is not None and named != their_team:
            raise CommandError(
                f"Nothing was changed: SERVICE_API_KEY belongs to team {their_team}, not {named}."
            )
        return named
