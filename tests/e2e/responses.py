"""Reading the server's refusals."""

from __future__ import annotations

from typing import Any

import httpx


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error object, which must be complete whatever went wrong."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "\n" not in error["message"]
    return error
