"""What there is by name: queues, topics with their subscriptions, and the dead-letter queue of each that has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.brokers.servicebus.emulator.message import Message
from bench.brokers.servicebus.emulator.queue import Options, Queue

LETTERS = "/$DeadLetterQueue"
SUBSCRIPTIONS = "/Subscriptions/"


class NotFound(Exception):
    """There is no such entity. The text is the service's."""

    def __init__(self, path: str) -> None:
        super().__init__(f"The messaging entity '{path}' could not be found.")


class SessionNeeded(Exception):
    """A message without a session was sent to an entity that requires one."""


class Topic:
    def __init__(self, path: str) -> None:
        self.path = path
        self.subscriptions: list[Queue] = []


def path_of(address: str | None) -> str:
    """The client sends whole URIs (`amqps://host:port/queue`) for entities and bare paths for `$management`."""
    if address is None:
        return ""
    _, scheme, rest = address.partition("://")
    return (rest.partition("/")[2] if scheme else address).strip("/")


class Namespace:
    """Names are compared without regard to case, as the service does."""

    def __init__(self, woken: Callable[[Queue], None]) -> None:
        self._woken = woken
        self._queues: dict[str, Queue] = {}
        self._topics: dict[str, Topic] = {}

    def make_queue(self, path: str, options: Options) -> Queue:
        """One that is there already is replaced."""
        spare = Options(lock=options.lock, max_delivery=float("inf"))
        letters = Queue(path + LETTERS, spare, self._woken, None)
        queue = Queue(path, options, self._woken, letters)
        self._queues[path.lower()] = queue
        self._queues[letters.path.lower()] = letters
        return queue

    def make_topic(self, path: str) -> None:
        self._topics[path.lower()] = Topic(path)

    def make_subscription(self, topic: str, name: str, options: Options) -> str:
        """Its path. Raises NotFound."""
        found = self._topics.get(topic.lower())
        if found is None:
            raise NotFound(topic)
        queue = self.make_queue(f"{found.path}{SUBSCRIPTIONS}{name}", options)
        found.subscriptions.append(queue)
        return queue.path

    def delete(self, path: str) -> list[str]:
        """The paths of all that went with it. Raises NotFound."""
        topic = self._topics.pop(path.lower(), None)
        if topic is not None:
            return [path, *(gone for queue in topic.subscriptions for gone in self._delete_queue(queue.path))]
        self.queue(path)
        for other in self._topics.values():
            other.subscriptions = [queue for queue in other.subscriptions if queue.path.lower() != path.lower()]
        return self._delete_queue(path)

    def _delete_queue(self, path: str) -> list[str]:
        gone = [path, path + LETTERS]
        for each in gone:
            self._queues.pop(each.lower(), None)
        return gone

    def queue(self, path: str) -> Queue:
        """Something that can be read. Raises NotFound."""
        try:
            return self._queues[path.lower()]
        except KeyError:
            raise NotFound(path) from None

    def has(self, path: str) -> bool:
        return path.lower() in self._queues or path.lower() in self._topics

    def queues(self) -> Iterator[Queue]:
        return iter(self._queues.values())

    def send(self, path: str, messages: list[Message], now: float) -> list[int]:
        """Their sequence numbers; of a topic, those in its first subscription. Raises NotFound and SessionNeeded, and
        nothing was sent then.
        """
        topic = self._topics.get(path.lower())
        targets = topic.subscriptions if topic is not None else [self.queue(path)]
        for queue in targets:
            if queue.options.sessions and any(message.session is None for message in messages):
                raise SessionNeeded(path)
        numbers = [[queue.enqueue(message, now) for message in messages] for queue in targets]
        return numbers[0] if numbers else [0] * len(messages)
