"""The facts of apps' jobs in the OpenAPI document."""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI

from holdfast.http.plugins import FactFormat, JobFact
from holdfast.http.schemas import JobOut

_TYPES = {FactFormat.TEXT: "string", FactFormat.BYTES: "integer"}


def describe_facts(app: FastAPI, facts: Iterable[JobFact]) -> None:
    """Add `facts` to the job's schema in the OpenAPI document of `app`.

    Raises:
        ValueError: a fact has the name of a field that every job has.
    """
    taken = {field.alias for field in JobOut.model_fields.values()}
    declared = list(facts)
    for fact in declared:
        if fact.key in taken:
            raise ValueError(f"a fact cannot be called {fact.key!r}: every job's JSON has that")
    make = app.openapi

    def openapi() -> dict[str, Any]:
        document = make()
        properties = document["components"]["schemas"]["JobOut"]["properties"]
        for fact in declared:
            kinds = [{"type": _TYPES[fact.format]}, {"type": "null"}]
            properties[fact.key] = {"anyOf": kinds, "title": fact.label}
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI documents this way
