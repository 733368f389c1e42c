"""The handlers of the model methods: list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ostler.protocol.config import Price
from ostler.protocol.credentials import DEFAULT_PROVIDER
from ostler.protocol.methods import MODEL_LIST
from ostler.protocol.model import ModelEntry, ModelList, ModelPage, ModelPrice
from ostler.server.config.configuration import Configuration
from ostler.server.engine.journal.session_view import resolve_provider
from ostler.server.events.event_log import EventLog
from ostler.server.models.model_list import OfferedModel, list_known_models
from ostler.server.models.pricing import find_cache_prices, find_price, find_window, format_usd
from ostler.server.models.provider import ModelFailure
from ostler.server.models.registry import REHEARSAL, Providers
from ostler.server.rpc.paging import paginate_list

_REHEARSAL: Final = OfferedModel(REHEARSAL, "Rehearsal: embedded, without a key or network")


@dataclass(frozen=True, slots=True)
class ModelMethods:
    log: EventLog
    configuration: Configuration
    providers: Providers

    async def list(self, params: ModelList) -> ModelPage:
        await self.configuration.credentials.refresh()
        default = self.configuration.default_model
        if (session_id := params.session_id) is not None:
            default = (await self.log.read(lambda snapshot: snapshot.sessions.get(session_id))).model
        offered, note = await self._fetch_offered()
        known = [*(offered or list_known_models()), _REHEARSAL]
        if default not in {model.id for model in known}:
            known.insert(0, OfferedModel(default, default))
        prices = self.configuration.current.model.prices
        entries = [_build_entry(model, prices, default=model.id == default) for model in known]
        page, token = paginate_list(MODEL_LIST.name, params, entries)
        return ModelPage(models=page, source="table" if offered is None else "provider", note=note, next=token)

    async def _fetch_offered(self) -> tuple[Sequence[OfferedModel] | None, str | None]:
        """The provider's list; or why there is none."""
        if not (self.configuration.has_address or self.configuration.credentials.has_key(DEFAULT_PROVIDER)):
            return None, "There is no key to ask the provider with: `ostler auth login` keeps one."
        try:
            return await self.providers.anthropic.list_models(), None
        except ModelFailure as failure:
            return None, failure.message


def _build_entry(model: OfferedModel, prices: dict[str, Price], *, default: bool) -> ModelEntry:
    window = find_window(model.id)
    return ModelEntry(
        id=model.id,
        display_name=model.display_name,
        provider=resolve_provider(model.id),
        context_window=model.context_window or (window.context if window else None),
        max_output=model.max_output or (window.max_output if window else None),
        price=_build_price(find_price(model.id, prices)),
        default=default,
    )


def _build_price(price: Price | None) -> ModelPrice | None:
    if price is None:
        return None
    cache_read, cache_write = find_cache_prices(price)
    return ModelPrice(
        input_usd=format_usd(price.input),
        output_usd=format_usd(price.output),
        cache_read_usd=format_usd(cache_read),
        cache_write_usd=format_usd(cache_write),
    )
