"""matplotlib without a display: figures of one look, saved with the same bytes every time."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagsched.errors import ConfigError
from dagsched.files import write_atomic
from dagsched.texts import one_line, shown_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NO_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")
"""Characters that XML forbids, as UTF-8; names of workflows and tasks may hold them."""

_STYLE: Any = {
    "svg.hashsalt": "dagsched",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a919c",
    "axes.labelcolor": "#3a404a",
    "text.color": "#1d2129",
    "text.parse_math": False,
    "xtick.color": "#3a404a",
    "ytick.color": "#3a404a",
    "font.size": 9,
}


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures; text is never read as mathematics. Draw inside this context."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # drawn as an empty box, which says it already
        yield


def figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size in inches with one axes; no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig, fig.add_subplot()


def picture_text(text: str) -> str:
    """A name as it is drawn: control characters, for which no font has a sign, become visible escapes."""
    return one_line(text)


def picture_kind(path: Path) -> str:
    """``png`` or ``svg``, by suffix.

    Raises:
        ConfigError: for another suffix.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg"):
        raise ConfigError(f"{shown_path(path)}: pictures are written as .png or .svg; change the suffix")
    return kind


def save_figure(fig: Figure, path: str | Path, *, dpi: int = 144) -> None:
    """Write a PNG or SVG, by suffix.

    Raises:
        ConfigError: for another suffix, or a path that cannot be written.
    """
    path = Path(path)
    kind = picture_kind(path)
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": "dagsched"} if kind == "svg" else {"Software": "dagsched"}
    with style():
        fig.savefig(buffer, format=kind, dpi=dpi, bbox_inches="tight", facecolor="white", metadata=metadata)
    content = buffer.getvalue()
    write_atomic(path, _NO_XML.sub(b"", content) if kind == "svg" else content)
