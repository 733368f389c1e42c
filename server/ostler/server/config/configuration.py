"""The configuration of the daemon: flags override the environment, `config.toml`, and the defaults, in this order."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import ValidationError

from ostler.protocol.config import Config, ConfigChange, ConfigGet, ConfigSet, ConfigValue, Section
from ostler.protocol.credentials import DEFAULT_PROVIDER
from ostler.protocol.errors import Conflict, InvalidParams, StorageFailed
from ostler.protocol.session import ToolPreset
from ostler.server.config.credentials import Credentials
from ostler.server.config.private_files import write_atomically
from ostler.tools.spelling import suggest_spelling

_RESTART_KEYS: Final = (
    "log.",
    "listen.",
    "limits.pending_writes",
    "limits.connections",
    "limits.header",
    "limits.body",
    "limits.idle",
)
"""Prefixes of the settings that are read once, when the daemon starts."""


class BadConfig(Exception):
    """The configuration cannot be used; the message names the file, the place and the reason."""


Values = dict[str, Any]
"""Settings by dotted name."""

_SHORT_KEYS: Final = {"model": "model.name"}
"""Short forms: what is meant when only the section is named: `model = "NAME"`, `--model NAME`, `OSTLER_MODEL=NAME`."""


_SHORT_VARIABLES: Final = {"OSTLER_MODEL": "model.name", "OSTLER_MAX_TOOL_CONCURRENCY": "turns.tool_concurrency"}
_NO_BACKGROUND_VARIABLE: Final = "OSTLER_DISABLE_BACKGROUND_TASKS"


def expand_key(key: str) -> str:
    return _SHORT_KEYS.get(key, key)


def list_settings(section: type[Section] = Config, prefix: str = "") -> Iterator[str]:
    """Every setting there is, by dotted name."""
    for name, info in section.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from list_settings(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def _find_setting(key: str) -> tuple[str, str | None]:
    """The setting that a key names, and which entry of it, where it is a table: `results.max_chars.Bash`."""
    for setting in list_settings():
        if key == setting:
            return setting, None
        if key.startswith(f"{setting}.") and isinstance(_get_value(Config().model_dump(), setting), dict):
            return setting, key.removeprefix(f"{setting}.")
    raise InvalidParams.of("key", f"there is no setting {key!r}")


def _get_value(values: Values, key: str) -> Any:
    found: Any = values
    for part in key.split("."):
        found = found[part]
    return found


def _replace_value(values: Values, key: str, value: Any) -> Values:
    """A copy with another value for a key; None removes the key."""
    return {name: each for name, each in {**values, key: value}.items() if name != key or value is not None}


@dataclass(slots=True)
class Configuration:
    """The settings in force, and where each of them comes from."""

    path: Path
    flags: Values
    environment: Values
    credentials: Credentials
    has_address: bool
    """The environment names the address of a model; without one, and without a key, the model is `rehearsal`."""
    default_tools: ToolPreset = "full"
    """The tools of sessions that name none: `OSTLER_SIMPLE=1` makes it `minimal`."""
    file: Values = field(default_factory=dict)
    current: Config = field(default_factory=Config)

    @property
    def default_model(self) -> str:
        """As of the last look at the keys: somebody may keep one while the daemon runs."""
        if self.current.model.name:
            return self.current.model.name
        is_real = self.has_address or self.credentials.has_key(DEFAULT_PROVIDER)
        return "claude-sonnet-5" if is_real else "rehearsal"

    def is_set(self, key: str) -> bool:
        """Whether somebody has asked for this value, and it is not only the default."""
        return self._find_source(key) != "default"

    def get(self, params: ConfigGet) -> ConfigValue:
        key = expand_key(params.key) if params.key else None
        return ConfigValue(
            key=params.key, value=self._read_value(key), source=self._find_source(key), path=str(self.path)
        )

    def set(self, params: ConfigSet) -> ConfigChange:
        """Change one setting in the file, keeping the rest of it as the person wrote it."""
        key = expand_key(params.key)
        setting, entry = _find_setting(key)
        previous = self._get_current(setting, entry)
        table = self.file.get(setting) or {}
        file = _replace_value(
            self.file, setting, params.value if entry is None else _replace_value(table, entry, params.value) or None
        )
        try:
            # Also by itself: a flag or variable that is set now must not let a wrong value into the file.
            _validate_layers(file)
            changed = _validate_layers(file, self.environment, self.flags)
        except ValidationError as error:
            raise InvalidParams.of("value", str(error.errors()[0]["msg"])) from None
        self._write_file([*setting.split("."), *([entry] if entry else [])], params.value)
        self.file, self.current = file, changed
        applies = "restart" if key.startswith(_RESTART_KEYS) else "now"
        now = self._get_current(setting, entry)
        return ConfigChange.model_validate({"key": params.key, "value": now, "previous": previous, "applies": applies})

    def _get_current(self, setting: str, entry: str | None) -> Any:
        """The value in force; None for an entry of a table that is not there."""
        value = self._read_value(setting)
        return value if entry is None else value.get(entry)

    def _read_value(self, key: str | None) -> Any:
        value: Any = self.current.model_dump(mode="json")
        for part in key.split(".") if key else []:
            if not isinstance(value, dict) or part not in value:
                raise InvalidParams.of("key", f"there is no setting {key!r}")
            value = value[part]
        return value

    def _find_source(self, key: str | None) -> str:
        if key not in set(list_settings()):
            return "mixed"
        for name, values in (("flag", self.flags), ("environment", self.environment), ("file", self.file)):
            if key in values:
                return name
        return "default"

    def _write_file(self, names: list[str], value: Any) -> None:
        # Imported here: only a person who changes a setting needs the library that keeps comments.
        import tomlkit  # noqa: PLC0415

        try:
            text = self.path.read_text("utf-8") if self.path.exists() else ""
            document = tomlkit.parse(text)
            table: Any = document
            *sections, name = names
            for section in sections:
                if isinstance(table.get(section), str):  # the short form of the same setting
                    del table[section]
                table = table.setdefault(section, tomlkit.table())
            if value is None:
                table.pop(name, None)
            else:
                table[name] = value
            write_atomically(self.path, tomlkit.dumps(document).encode(), mode=0o600)
        except OSError as error:
            raise StorageFailed(f"{self.path} could not be written: {error.strerror}.") from error
        except (ValueError, TypeError, AttributeError) as error:  # broken by hand since the start
            raise Conflict(f"{self.path} cannot be changed, because it is broken: {error}. Mend it first.") from None


def load_configuration(
    path: Path, flags: Values, environ: Mapping[str, str], credentials_file: Path | None = None
) -> Configuration:
    """Read the file and the environment; whatever is wrong stops the start and says where.

    The keys stand beside the file, unless it is said where.
    """
    named = {expand_key(key): value for key, value in flags.items()}
    environment = _from_environment(environ)
    file = _from_file(path)
    try:
        current = _validate_layers(file, environment, named)
    except ValidationError as error:
        raise BadConfig(_explain_error(error, path, file, environment)) from None
    credentials = Credentials(credentials_file or path.with_name("credentials.json"), environ)
    credentials.read()
    has_address = bool(environ.get("ANTHROPIC_BASE_URL", "").strip())
    settings = Configuration(path, named, environment, credentials, has_address, file=file, current=current)
    if environ.get("OSTLER_SIMPLE") == "1":
        settings.default_tools = "minimal"
    return settings


def to_variable_name(key: str) -> str:
    return "OSTLER_" + key.replace(".", "__").upper()


def _from_environment(environ: Mapping[str, str]) -> Values:
    names = _SHORT_VARIABLES | {to_variable_name(key): key for key in list_settings()}
    values = {key: _parse_value(environ[name]) for name, key in names.items() if name in environ}
    if environ.get(_NO_BACKGROUND_VARIABLE, "").lower() not in {"", "0", "false"}:
        values["tools.background"] = False
    return values


def _parse_value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _from_file(path: Path) -> Values:
    try:
        return _flatten(tomllib.loads(path.read_text("utf-8")), frozenset(list_settings()))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None


def _flatten(table: dict[str, Any], settings: frozenset[str], prefix: str = "") -> Values:
    values: Values = {}
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key not in settings:
            values.update(_flatten(value, settings, f"{key}."))
        else:
            values[expand_key(key)] = value
    return values


def _validate_layers(*layers: Values) -> Config:
    nested: dict[str, Any] = {}
    for key, value in {key: value for layer in layers for key, value in layer.items()}.items():
        *sections, name = key.split(".")
        table = nested
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = value
    return Config.model_validate(nested)


def _explain_error(error: ValidationError, path: Path, file: Values, environment: Values) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    named = next((name for name in (key, *_list_parents(key)) if name in environment), None)
    if named:
        return f"{to_variable_name(named)}: {first['msg']}"
    if first["type"] == "extra_forbidden":
        return f"{path}: there is no setting {key!r}{suggest_spelling(key, list_settings(), '')}"
    # Also by a part of it, and by the table that it is an entry of.
    in_file = any(name.startswith(key) for name in file) or any(name in file for name in _list_parents(key))
    where = f"{path}: {key}" if in_file else key
    return f"{where}: {first['msg']}"


def _list_parents(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]
