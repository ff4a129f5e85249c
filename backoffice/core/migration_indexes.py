"""Migration operation that replaces an index that pages use."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently


class ReplaceIndex(AddIndexConcurrently):
    """Replace an index by another one of the same name while pages use it.

    The new index is built first, concurrently. The migration must not be atomic; it can be started
    again wherever it stopped.
    """

    reversible = False

    def state_forwards(self, app_label: str, state: Any) -> None:
        state.remove_index(app_label, self.model_name_lower, self.index.name)
        super().state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        self._ensure_not_in_transaction(schema_editor)
        model = to_state.apps.get_model(app_label, self.model_name)
        fresh = self.index.clone()
        fresh.name = f"{self.index.name}_new"
        schema_editor.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{fresh.name}"')
        schema_editor.add_index(model, fresh, concurrently=True)
        schema_editor.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{self.index.name}"')
        schema_editor.execute(f'ALTER INDEX "{fresh.name}" RENAME TO "{self.index.name}"')

    def describe(self) -> str:
        return f"Replace index {self.index.name} of model {self.model_name}"
