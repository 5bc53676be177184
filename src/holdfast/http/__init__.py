"""The HTTP room: the API over an engine, and the place where apps add their own routes.

`create_app` puts it together. An app that wants more than jobs is a `ServedApp`; apps/README.md
walks through one. What people see in a browser is put together under `pages/`.
"""

from holdfast.http.app import create_app
from holdfast.http.errors import ApiError, answer_error
from holdfast.http.plugins import Companion, Download, JobFacts, PagePart, ServedApp
from holdfast.http.schemas import ErrorOut, JobAnswer, JobOut
from holdfast.http.sessions import Owner
from holdfast.http.site import HttpSettings, Site, site_of

__all__ = [
    "ApiError",
    "Companion",
    "Download",
    "ErrorOut",
    "HttpSettings",
    "JobAnswer",
    "JobFacts",
    "JobOut",
    "Owner",
    "PagePart",
    "ServedApp",
    "Site",
    "answer_error",
    "create_app",
    "site_of",
]
