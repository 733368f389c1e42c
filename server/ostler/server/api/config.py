"""The handlers of the config methods: get, set."""

from collections.abc import Callable
from dataclasses import dataclass

import anyio.to_thread

from ostler.protocol.config import ConfigChange, ConfigGet, ConfigSet, ConfigValue
from ostler.protocol.events import ConfigData
from ostler.server.config.configuration import Configuration
from ostler.server.events.event_log import EventLog
from ostler.storage import Scope, Store, Tx


@dataclass(frozen=True, slots=True)
class ConfigMethods:
    store: Store
    log: EventLog
    configuration: Configuration
    apply: Callable[[], None]
    """Applies a changed configuration."""

    async def get(self, params: ConfigGet) -> ConfigValue:
        return self.configuration.get(params)

    async def set(self, params: ConfigSet) -> ConfigChange:
        # Checked first: a change that cannot be announced must not be made.
        self.store.writer.check_writable()
        change = await anyio.to_thread.run_sync(self.configuration.set, params)
        self.apply()
        data = ConfigData(key=change.key, value=change.value, applies=change.applies)

        def announce(tx: Tx) -> None:
            tx.append("config.changed", Scope(), data=data)

        await self.log.write(announce)
        return change
