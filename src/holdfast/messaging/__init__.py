"""Messages between programs: publishers for a relay, consumers, and tools for dead letters.

Needs `pip install 'holdfast[rabbitmq]'`, but for `JobPublisher`, which hands messages to the engine
as jobs.
"""

from holdfast.messaging.broker import QueueSpec
from holdfast.messaging.consumer import Consumer, Delivery
from holdfast.messaging.dead_letter_queue import (
    DeadLetterQueue,
    DeadMessage,
    UnknownDeadMessage,
)
from holdfast.messaging.job_publisher import JobPublisher
from holdfast.messaging.rabbitmq import RabbitPublisher

__all__ = [
    "Consumer",
    "DeadLetterQueue",
    "DeadMessage",
    "Delivery",
    "JobPublisher",
    "QueueSpec",
    "RabbitPublisher",
    "UnknownDeadMessage",
]
