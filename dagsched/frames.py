"""Tables as pandas data frames, where pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagsched.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd


def data_frame(columns: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A frame of columns, or of rows.

    Raises:
        ConfigError: without pandas, with the command that installs it.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ConfigError("to_dataframe needs pandas, which is not installed: pip install pandas") from None
    return pd.DataFrame(columns)
