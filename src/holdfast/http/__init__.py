"""The HTTP room: the API over an engine, and the place where apps add their own routes.

`create_app` puts it together. An app that wants more than jobs is a `ServedApp`; apps/README.md
walks through one. What people see in a browser is put together under `pages/`.
"""

from holdfast.http.api_errors import ApiError
from holdfast.http.app_factory import create_app
from holdfast.http.callers import Caller, CallerIdentity
from holdfast.http.intake_gate import DiskRoom, IntakeGate
from holdfast.http.ops.dashboard import ops_dashboard
from holdfast.http.plugins import (
    Download,
    FactFormat,
    JobFact,
    JobFacts,
    MessageQueue,
    NavItem,
    PagePart,
    Sidecar,
    meta_of,
)
from holdfast.http.rendered import Look, RenderedJobs, RenderedRow, ShownFact, Step
from holdfast.http.schemas import ErrorOut, JobAnswer, JobOut
from holdfast.http.served_app import AppPages, HttpSettings, ServedApp, ServerState, state_of
from holdfast.http.sessions import Owner

__all__ = [
    "ApiError",
    "AppPages",
    "Caller",
    "CallerIdentity",
    "DiskRoom",
    "Download",
    "ErrorOut",
    "FactFormat",
    "HttpSettings",
    "IntakeGate",
    "JobAnswer",
    "JobFact",
    "JobFacts",
    "JobOut",
    "Look",
    "MessageQueue",
    "NavItem",
    "Owner",
    "PagePart",
    "RenderedJobs",
    "RenderedRow",
    "ServedApp",
    "ServerState",
    "ShownFact",
    "Sidecar",
    "Step",
    "create_app",
    "meta_of",
    "ops_dashboard",
    "state_of",
]
