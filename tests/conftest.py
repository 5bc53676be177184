"""Settings for every test: property tests behave alike on a busy machine and on a quick one."""

from hypothesis import settings

# A wall-clock deadline would judge the machine; pytest-timeout already ends what hangs.
settings.register_profile("holdfast", deadline=None, print_blob=True)
settings.load_profile("holdfast")
