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


@lru_cache(maxsize=8)
def shared_icon_svg(name: str) -> SafeString:
    """Return an icon that other SVGs of the page refer to by its id: `printer-icon`."""
    return SafeString(heroicon_micro(name, id=f"{name}-icon"))
