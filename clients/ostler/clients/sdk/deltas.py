"""Pieces of messages in progress: each letter is told once, however often the daemon repeats a piece."""

from ostler.protocol.events import Event


class DeltaFilter:
    """A reconnected stream gives a message in progress again from its start; what was told is dropped."""

    def __init__(self) -> None:
        self._told: dict[str, dict[int, int]] = {}

    def news(self, event: Event) -> Event | None:
        """The event without what was told before, or None when nothing remains of it."""
        if event.type == "message.delta":
            return self._delta(event)
        if event.type in {"message.completed", "message.aborted"}:
            self._told.pop(str(event.data.get("message", {}).get("id")), None)
        return event

    def _delta(self, event: Event) -> Event | None:
        message_id, index = str(event.data.get("message_id")), int(event.data.get("index", 0))
        offset, text = int(event.data.get("offset", 0)), str(event.data.get("text", ""))
        blocks = self._told.setdefault(message_id, {})
        told = blocks.get(index, 0)
        end = offset + len(text)
        if end <= told:
            return None
        blocks[index] = end
        if offset >= told:
            return event
        rest = {**event.data, "offset": told, "text": text[told - offset :]}
        return event.model_copy(update={"data": rest})
