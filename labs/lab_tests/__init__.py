"""Lab tests of our own: made, renamed, archived, brought back (catalogue.md 3)."""

from labs.lab_tests.commands import ArchiveLabTest, CreateLabTest, RenameLabTest, RestoreLabTest

__all__ = ["ArchiveLabTest", "CreateLabTest", "RenameLabTest", "RestoreLabTest"]
