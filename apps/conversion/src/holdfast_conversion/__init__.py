"""Holdfast's conversion service: PDF in, XML out, whatever the gateway does."""
