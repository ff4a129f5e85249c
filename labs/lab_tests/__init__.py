"""Lab tests of the team: create, rename, archive, restore (catalogue.md 3)."""

from labs.lab_tests.commands import ArchiveLabTest, CreateLabTest, RenameLabTest, RestoreLabTest

__all__ = ["ArchiveLabTest", "CreateLabTest", "RenameLabTest", "RestoreLabTest"]
