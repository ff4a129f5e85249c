"""The management interface: its own address and its own key. Interface: catalogue, chapter 7."""

from __future__ import annotations

from uuid import UUID

from backoffice.service.exchange import Chapter
from backoffice.service.labs import LAB_ACCOUNT, LabAccount
from backoffice.service.payload import Page


class Management(Chapter):
    """Calls with the management key only; organisation, environment and region from settings."""

    def lab_accounts(
        self,
        lab_account_id: UUID | str | None = None,
        team_id: UUID | str | None = None,
        status: str | None = None,
    ) -> Page[LabAccount]:
        query = {"lab_account_id": lab_account_id, "team_id": team_id, "status": status}
        path = "/v1/org/{org_id}/lab_account/{env}/{region}"
        return self._call.page(path, LAB_ACCOUNT, "data", query=query, **self._call.path_parts)
