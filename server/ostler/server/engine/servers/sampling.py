"""An MCP server that wants a model to answer something: permission is asked, the session's small model answers."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ostler.protocol import times
from ostler.protocol.ids import new_ask_id
from ostler.protocol.shapes import Ask, AskedCall, Call, Suggestion
from ostler.server.classifier import choose_small_model
from ostler.server.engine.asks.asks import TurnAsks
from ostler.server.engine.session.live import LiveSession
from ostler.server.mcp.connection import SamplingRefused
from ostler.server.models.provider import ModelFailure
from ostler.tools.mcp.declaration import build_name, list_rule_names
from ostler.tools.text import cut_text

_TOOL: Final = "sampling"
_MAX_CHARS: Final = 200_000
_MAX_TOKENS: Final = 8_000
_SHOWN: Final = 2_000


async def sample(
    session: LiveSession,
    asks: TurnAsks,
    call: Call,
    server: str,
    params: dict[str, Any],
    expire_seconds: float | None,
) -> dict[str, Any]:
    """The model's answer in the protocol's form. Raises SamplingRefused."""
    system, prompt = str(params.get("systemPrompt") or ""), _render_messages(params.get("messages") or [])
    if len(system) + len(prompt) > _MAX_CHARS:
        raise SamplingRefused(f"The request has more than {_MAX_CHARS:,} characters.")
    if not await _is_allowed(session, asks, call, server, prompt, expire_seconds):
        raise SamplingRefused("The person does not allow this server to use the model.")
    most = min(int(params.get("maxTokens") or _MAX_TOKENS), _MAX_TOKENS)
    model = session.record.model
    try:
        text = await session.small_model.ask(model, system or "Answer what is asked.", prompt, most)
    except ModelFailure as failure:
        raise SamplingRefused(f"The model gave no answer: {failure.message}") from None
    used = choose_small_model(model, session.small_model.configured())
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": used, "stopReason": "endTurn"}


async def _is_allowed(
    session: LiveSession,
    asks: TurnAsks,
    call: Call,
    server: str,
    prompt: str,
    expire_seconds: float | None,
) -> bool:
    """By a rule about `mcp__SERVER__sampling`, else by a person."""
    name, others = build_name(server, _TOOL), list_rule_names(server, _TOOL)
    rules = session.rules
    if rules.find_deny_rules(name, others):
        return False
    own = [each for each in others if each.endswith(f"__{_TOOL}")]
    if not rules.find_ask_rules(name, others) and rules.find_allow_rules(name, own):
        return True
    if session.asks_nobody:
        return False
    async with session.lend_slot():
        settled = await asks.ask(_build_ask(session, call, server, name, prompt, expire_seconds))
    return (settled.answer or {}).get("choice") in {"allow", "allow_always"}


def _build_ask(
    session: LiveSession, call: Call, server: str, name: str, prompt: str, expire_seconds: float | None
) -> Ask:
    now, record, agent = datetime.now(UTC), session.record, session.agent
    return Ask(
        id=new_ask_id(),
        session_id=record.id,
        root_id=record.root_id,
        turn_id=call.turn_id,
        agent=agent.shown if agent is not None else None,
        kind="permission",
        status="open",
        call=AskedCall(call_id=call.call_id, tool=name, input={"prompt": cut_text(prompt, _SHOWN)}, summary=name),
        message=f"May the MCP server {server!r} ask the model this?\n{cut_text(prompt, _SHOWN)}",
        reason="The answer goes to the server, and is paid for by this session.",
        choices=["allow", "allow_always", "deny", "deny_always"],
        suggestions=[Suggestion(rule=name, scope="session")],
        server=server,
        opened_at=times.format_time(now),
        expires_at=times.format_time(now + timedelta(seconds=expire_seconds)) if expire_seconds else None,
    )


def _render_messages(messages: list[Any]) -> str:
    """The conversation as one text: only texts can be asked."""
    parts: list[str] = []
    for message in messages:
        if not isinstance(message, dict):
            raise SamplingRefused("A message is an object.")
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        texts = [block for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        if len(texts) < len(blocks):
            raise SamplingRefused("Only texts can be asked of the model.")
        text = "\n".join(str(block.get("text", "")) for block in texts)
        parts.append(text if len(messages) == 1 else f"{message.get('role', 'user')}: {text}")
    return "\n\n".join(parts)
