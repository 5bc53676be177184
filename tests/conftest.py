"""Settings for every test: property tests behave alike on busy and on idle machines."""

from hypothesis import settings

# A wall-clock deadline would measure the machine; pytest-timeout already ends hanging tests.
settings.register_profile("holdfast", deadline=None, print_blob=True)
settings.load_profile("holdfast")
