"""Removes duplicate deltas of messages in progress: each letter is handed out once, however often it is sent."""

from ostler.protocol.events import Event


class DeltaFilter:
    """A reconnected stream gives a message in progress again from its start; what was handed out is dropped."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, int]] = {}

    def drop_seen(self, event: Event) -> Event | None:
        """The event without what was handed out before, or None when nothing remains of it."""
        if event.type == "message.delta":
            return self._trim_delta(event)
        if event.type in {"message.completed", "message.aborted"}:
            self._seen.pop(str(event.data.get("message", {}).get("id")), None)
        return event

    def _trim_delta(self, event: Event) -> Event | None:
        message_id, index = str(event.data.get("message_id")), int(event.data.get("index", 0))
        offset, text = int(event.data.get("offset", 0)), str(event.data.get("text", ""))
        blocks = self._seen.setdefault(message_id, {})
        seen = blocks.get(index, 0)
        end = offset + len(text)
        if end <= seen:
            return None
        blocks[index] = end
        if offset >= seen:
            return event
        rest = {**event.data, "offset": seen, "text": text[seen - offset :]}
        return event.model_copy(update={"data": rest})
