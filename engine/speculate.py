"""Who drafts. Apart from the other types, since the first screen needs no more than this."""

from __future__ import annotations

from enum import StrEnum


class Speculate(StrEnum):
    """Who proposes tokens for the model to check several at once. No answer depends on it."""

    OFF = "off"
    NGRAM = "ngram"  # looked up in the row's own text
    DSPARK = "dspark"  # a small model trained for the big one
    AUTO = "auto"  # dspark where there is such a model, else ngram


DRAFTER_BITS = (4, 8)
"""What a drafter's weights can be quantized to."""
