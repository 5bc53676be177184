"""RabbitMQ and both stores for the tests of messaging."""

from tests.support.message_database import database  # noqa: F401 - fixtures are found by name
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)
from tests.support.rabbitmq import (  # noqa: F401 - fixtures are found by name
    queue_name,
    rabbitmq_server,
    settled_queue,
)
