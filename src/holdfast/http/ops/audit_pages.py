"""The audit log: who changed what, newest first."""

import json
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from holdfast.http.api_errors import refusing_cursors
from holdfast.http.ops.frame import Frame


def add_audit_pages(router: APIRouter, frame: Frame) -> None:
    """Add the page of the audit log."""

    @router.get("/audit")
    async def show(
        request: Request, cursor: Annotated[str, Query(max_length=500)] = ""
    ) -> Response:
        with refusing_cursors():
            page = await frame.engine.audit.list(cursor=cursor or None)
        following = page.next_cursor
        entries = [
            (entry, json.dumps(dict(entry.detail), ensure_ascii=False) if entry.detail else "")
            for entry in page.entries
        ]
        return await frame.page(
            request,
            "audit.html",
            entries=entries,
            newest="/audit" if cursor else "",
            older=f"/audit?{urlencode({'cursor': following})}" if following else "",
        )
