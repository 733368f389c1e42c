"""A page of the web: as a site sent it, and as a model can read it."""

from dataclasses import dataclass, field

from ostler.tools.formats.image import Picture
from ostler.tools.web.url_policy import Url


class PageUnavailable(Exception):
    """The page cannot be had, or not be shown; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a site answered."""

    url: Url
    """Where it was found, after redirects."""
    code: int
    reason: str
    media_type: str
    """In lower case, without parameters."""
    charset: str | None
    """As its header names it."""
    data: bytes = field(repr=False)
    redirect: Url | None = None
    """The address on another host that it redirects to, which was not followed."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a model can read of a page."""

    text: str
    title: str = ""
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page, and what was made of it."""

    page: Page
    """Without its data."""
    size: int
    """Of the data, in bytes."""
    content: Content

    @property
    def chars(self) -> int:
        return len(self.content.text) + sum(len(picture.data) for picture in self.content.pictures)
