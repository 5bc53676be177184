"""Schemathesis hooks: half of the generated ids are real, and half of the files are PDFs.

Schemathesis loads this module in its own process, see test_fuzz.py.
"""

import os
import zlib

import schemathesis

JOBS = os.environ["FUZZ_JOBS"].split()
PDF = bytes.fromhex(os.environ["FUZZ_PDF"])


def chosen(value: object) -> int:
    """Return a hash that is the same in every run."""
    return zlib.crc32(repr(value).encode())


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    known = {"job_id": JOBS, "name": ["gateway"]}
    for name, values in known.items():
        if path_parameters and name in path_parameters:
            number = chosen(path_parameters[name])
            if number % 2:
                path_parameters[name] = values[number // 2 % len(values)]
    return path_parameters


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("file"), bytes) and chosen(body["file"]) % 2:
        body["file"] = PDF + body["file"]
    return body
