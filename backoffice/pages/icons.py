"""SVG of icons, from the package heroicons."""

from functools import lru_cache

from django.utils.safestring import SafeString
from heroicons.templatetags.heroicons import heroicon_micro, heroicon_outline


@lru_cache(maxsize=128)
def icon_svg(name: str, large: bool = False) -> SafeString:
    """Return an icon. It is hidden from screen readers, because text next to it has its meaning."""
    heroicon = heroicon_outline if large else heroicon_micro
    svg = heroicon(name, **{"class": "icon", "aria-hidden": "true"})  # type: ignore[arg-type]
    return SafeString(svg)


@lru_cache(maxsize=1)
def clipboard_svg() -> SafeString:
    """Return the icon that all copy buttons of a page refer to by its id."""
    return SafeString(heroicon_micro("clipboard-document", id="copy-icon"))
