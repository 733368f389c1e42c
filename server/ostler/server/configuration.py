"""`config.toml` as the daemon reads it: flags above the environment above the file above the defaults."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import ValidationError

from ostler.protocol.config import Config, ConfigChange, ConfigGet, ConfigSet, ConfigValue, Section
from ostler.protocol.errors import Conflict, InvalidParams, StorageFailed
from ostler.server.files import write_atomically

_RESTART: Final = (
    "log.",
    "listen.",
    "limits.pending_writes",
    "limits.connections",
    "limits.header",
    "limits.body",
    "limits.idle",
)
"""What is read once, when the daemon opens its doors."""


class BadConfig(Exception):
    """The configuration cannot be used; the message names the file, the place and the reason."""


Values = dict[str, Any]
"""Settings by dotted name."""


def leaves(section: type[Section] = Config, prefix: str = "") -> Iterator[str]:
    """Every setting there is, by dotted name."""
    for name, info in section.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from leaves(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


@dataclass(slots=True)
class Configuration:
    """The settings in force, and where each of them comes from."""

    path: Path
    flags: Values
    environment: Values
    has_key: bool
    """A key or base URL for a model is set; without one the model is `rehearsal`."""
    file: Values = field(default_factory=dict)
    current: Config = field(default_factory=Config)

    @property
    def default_model(self) -> str:
        return self.current.model or ("claude-sonnet-5" if self.has_key else "rehearsal")

    def get(self, params: ConfigGet) -> ConfigValue:
        value = self._value(params.key)
        return ConfigValue(key=params.key, value=value, source=self._source(params.key), path=str(self.path))

    def set(self, params: ConfigSet) -> ConfigChange:
        """Change one setting in the file, keeping the rest of it as the person wrote it."""
        if params.key not in set(leaves()):
            raise InvalidParams.of("key", f"there is no setting {params.key!r}")
        previous = self._value(params.key)
        file = {**self.file, params.key: params.value}
        if params.value is None:
            del file[params.key]
        try:
            # Also by itself: a flag or variable that is set now must not let a wrong value into the file.
            _validated(file)
            changed = _validated(file, self.environment, self.flags)
        except ValidationError as error:
            raise InvalidParams.of("value", str(error.errors()[0]["msg"])) from None
        self._write(params.key, params.value)
        self.file, self.current = file, changed
        applies = "restart" if params.key.startswith(_RESTART) else "now"
        return ConfigChange.model_validate(
            {"key": params.key, "value": self._value(params.key), "previous": previous, "applies": applies}
        )

    def _value(self, key: str | None) -> Any:
        value: Any = self.current.model_dump(mode="json")
        for part in key.split(".") if key else []:
            if not isinstance(value, dict) or part not in value:
                raise InvalidParams.of("key", f"there is no setting {key!r}")
            value = value[part]
        return value

    def _source(self, key: str | None) -> str:
        if key not in set(leaves()):
            return "mixed"
        for name, values in (("flag", self.flags), ("environment", self.environment), ("file", self.file)):
            if key in values:
                return name
        return "default"

    def _write(self, key: str, value: Any) -> None:
        # Imported here: only a person who changes a setting needs the library that keeps comments.
        import tomlkit  # noqa: PLC0415

        try:
            text = self.path.read_text("utf-8") if self.path.exists() else ""
            document = tomlkit.parse(text)
            table: Any = document
            *sections, name = key.split(".")
            for section in sections:
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


def load_configuration(path: Path, flags: Values, environ: Mapping[str, str]) -> Configuration:
    """Read the file and the environment; whatever is wrong stops the start and says where."""
    environment = _from_environment(environ)
    file = _from_file(path)
    try:
        current = _validated(file, environment, flags)
    except ValidationError as error:
        raise BadConfig(_explained(error, path, file, environment)) from None
    has_key = bool(environ.get("ANTHROPIC_API_KEY") or environ.get("ANTHROPIC_BASE_URL"))
    return Configuration(path, flags, environment, has_key, file, current)


def environment_name(key: str) -> str:
    return "OSTLER_" + key.replace(".", "__").upper()


def _from_environment(environ: Mapping[str, str]) -> Values:
    given = {key: environ[name] for key in leaves() if (name := environment_name(key)) in environ}
    return {key: _parsed(text) for key, text in given.items()}


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _from_file(path: Path) -> Values:
    try:
        return _flat(tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None


def _flat(table: dict[str, Any], prefix: str = "") -> Values:
    values: Values = {}
    for name, value in table.items():
        if isinstance(value, dict):
            values.update(_flat(value, f"{prefix}{name}."))
        else:
            values[prefix + name] = value
    return values


def _validated(*layers: Values) -> Config:
    nested: dict[str, Any] = {}
    for key, value in {key: value for layer in layers for key, value in layer.items()}.items():
        *sections, name = key.split(".")
        table = nested
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = value
    return Config.model_validate(nested)


def _explained(error: ValidationError, path: Path, file: Values, environment: Values) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    named = next((name for name in (key, *_parents(key)) if name in environment), None)
    if named:
        return f"{environment_name(named)}: {first['msg']}"
    if first["type"] == "extra_forbidden":
        return f"{path}: there is no setting {key!r}{_closest(key)}"
    where = f"{path}: {key}" if key in file or any(name.startswith(key) for name in file) else key
    return f"{where}: {first['msg']}"


def _parents(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def _closest(key: str) -> str:
    # Imported here: only a mistake needs it.
    import difflib  # noqa: PLC0415

    close = difflib.get_close_matches(key, list(leaves()), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
