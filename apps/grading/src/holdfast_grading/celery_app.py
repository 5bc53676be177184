"""The Celery workers of grading: `celery -A holdfast_grading.celery_app worker`.

They need RABBITMQ_URL and HOLDFAST_DATABASE_URL, and the settings of the providers. A relay must
run beside them, in `holdfast serve` or as `holdfast relay`.
"""

import os

from holdfast_grading.worker_app import create_worker_app
from holdfast_grading.worker_settings import WorkerSettings

app = create_worker_app(WorkerSettings.load(os.environ)).celery
