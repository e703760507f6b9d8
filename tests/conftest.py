"""Settings that every test shares; the databases are in `tests.databases`."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.databases"]

# A property that talks to a database is slow by nature, and a shared runner slower still.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("deep", settings.get_profile("default"), max_examples=2_000)
settings.load_profile(
    os.environ.get("VULKAN_TEST_HYPOTHESIS") or ("ci" if os.environ.get("CI") else "default")
)
